//! Copies whose result is made of several boxes: padding and rolling.

use afferent_core::{Args, Dims, Error, MAX_DIMS, TensorMut, TensorView};

use crate::shared::{
    accumulator::check_dtype,
    strided_view::{StridedView, copy_view},
};

/// Neighbouring positions of one dimension of a result, and where their elements come from.
#[derive(Clone, Copy, Default)]
pub(crate) struct Segment {
    /// First position that is written.
    pub(crate) to: usize,
    /// First position that is read.
    pub(crate) from: usize,
    /// Number of positions.
    pub(crate) len: usize,
    /// Positions between neighbours that are read: 1, 0, or a wrapped -1.
    pub(crate) step: usize,
}

/// Up to three runs for each dimension.
pub(crate) type Segments = [[Segment; 3]; MAX_DIMS];

/// Segments that copy every position of `sizes` to the same position.
pub(crate) fn identity(sizes: &[usize]) -> Segments {
    let mut runs = [[Segment::default(); 3]; MAX_DIMS];
    for (runs, &len) in runs.iter_mut().zip(sizes) {
        runs[0] = Segment { to: 0, from: 0, len, step: 1 };
    }
    runs
}

/// Copies the box of each combination of `runs` from `input` to `out`.
pub(crate) fn copy_segments(
    out: &mut TensorMut<'_, '_>,
    input: &TensorView<'_>,
    runs: &Segments,
) -> Result<(), Error> {
    if out.sizes().contains(&0) {
        return Ok(());
    }
    let to = StridedView::of_out(out);
    copy_from(out, to, input, StridedView::of(input), (runs, 0))
}

/// As [`copy_segments`], for the dimensions from `dim` on; those before are chosen.
fn copy_from(
    out: &mut TensorMut<'_, '_>,
    to: StridedView,
    input: &TensorView<'_>,
    from: StridedView,
    (runs, dim): (&Segments, usize),
) -> Result<(), Error> {
    if dim == to.sizes.len() {
        return copy_view(out, &to, input, &from);
    }
    for run in runs[dim].iter().filter(|run| run.len > 0) {
        let (mut to, mut from) = (to, from);
        to.slice(dim, run.to, run.len, 1);
        from.slice(dim, run.from, run.len, run.step);
        copy_from(out, to, input, from, (runs, dim + 1))?;
    }
    Ok(())
}

/// What stands at the positions that padding adds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PaddingMode {
    /// Nothing from the tensor.
    Constant,
    /// The element at the edge.
    Replicate,
    /// The elements before the edge, mirrored.
    Reflect,
}

/// Size and runs of a dimension of `size` with `before` and `after` positions added, or, where
/// they are negative, taken away; `None` when that cannot be.
pub(crate) fn pad_dim(
    size: usize,
    before: i64,
    after: i64,
    border: PaddingMode,
) -> Option<(usize, [Segment; 3])> {
    let split = |pad: i64| {
        let amount = usize::try_from(pad.unsigned_abs()).ok()?;
        Some(if pad < 0 { (0, amount) } else { (amount, 0) })
    };
    let ((before, cut), (after, cut_end)) = (split(before)?, split(after)?);
    let kept = size.checked_sub(cut)?.checked_sub(cut_end)?;
    let padded = kept.checked_add(before)?.checked_add(after)?;
    let limit = match border {
        PaddingMode::Constant => usize::MAX,
        PaddingMode::Replicate => size.saturating_mul(usize::MAX),
        PaddingMode::Reflect => size.saturating_sub(1),
    };
    if before.max(after) > limit {
        return None;
    }
    let kept_run = Segment { to: before, from: cut, len: kept, step: 1 };
    let (first, last, back) = match border {
        PaddingMode::Constant => {
            return Some((padded, [kept_run, Segment::default(), Segment::default()]));
        }
        PaddingMode::Replicate => (0, size.saturating_sub(1), 0),
        PaddingMode::Reflect => (before, size.saturating_sub(2), 1_usize.wrapping_neg()),
    };
    let first = Segment { to: 0, from: first, len: before, step: back };
    let last = Segment { to: before + kept, from: last, len: after, step: back };
    Some((padded, [first, kept_run, last]))
}

/// Sizes and runs of `input` padded by the argument `index`: before and after, a pair for each
/// dimension from the last one on.
///
/// # Errors
/// [`Error::InvalidArgument`] when the padding does not fit the tensor.
pub(crate) fn pad_arg(
    args: &Args<'_>,
    index: u8,
    input: &TensorView<'_>,
    border: PaddingMode,
) -> Result<(Dims, Segments), Error> {
    let padding = args.int_list(usize::from(index))?;
    let wrong = |expected| Error::InvalidArgument { index, expected };
    if padding.len() % 2 != 0 || padding.len() / 2 > input.rank() {
        return Err(wrong("a pair for each of the last dimensions"));
    }
    let mut sizes = StridedView::of(input).sizes;
    let mut runs = identity(input.sizes());
    for (pair, dim) in (0..padding.len() / 2).zip((0..input.rank()).rev()) {
        let [before, after] = [0, 1].map(|side| padding.get(2 * pair + side).unwrap_or(0));
        let padded = pad_dim(sizes[dim], before, after, border);
        (sizes[dim], runs[dim]) = padded.ok_or(wrong("padding that the size allows"))?;
    }
    Ok((sizes, runs))
}

/// Pads the last `dims` dimensions of the tensor 0 by the argument 1 into the tensor 2.
pub(crate) fn pad(args: &mut Args<'_>, dims: usize, border: PaddingMode) -> Result<(), Error> {
    let input = args.tensor(0)?;
    if args.int_list(1)?.len() != 2 * dims {
        let expected = "a pair for each of the last dimensions";
        return Err(Error::InvalidArgument { index: 1, expected });
    }
    let (sizes, runs) = pad_arg(args, 1, &input, border)?;
    let mut out = args.out(2)?;
    check_dtype(out.dtype(), input.dtype(), 2)?;
    out.resize(&sizes)?;
    copy_segments(&mut out, &input, &runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padded_sizes() {
        let size = |size, before, after, border| {
            pad_dim(size, before, after, border).map(|(padded, _)| padded)
        };
        assert_eq!(size(3, 2, 2, PaddingMode::Reflect), Some(7));
        assert_eq!(size(3, 3, 0, PaddingMode::Reflect), None);
        assert_eq!(size(3, 3, -2, PaddingMode::Replicate), Some(4));
        assert_eq!(size(0, 1, 0, PaddingMode::Replicate), None);
        assert_eq!(size(0, 1, 0, PaddingMode::Constant), Some(1));
        assert_eq!(size(3, -2, -2, PaddingMode::Constant), None);
        assert_eq!(size(3, i64::MIN, i64::MAX, PaddingMode::Constant), None);
        assert_eq!(size(3, i64::MAX, i64::MAX, PaddingMode::Replicate), None);
    }
}
