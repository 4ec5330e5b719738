//! Copies whose result is made of several boxes: padding and rolling.

use afferent_core::{Args, Dims, Error, MAX_DIMS, TensorMut, TensorView};

use crate::shared::{
    accumulator::same_dtype,
    strided_view::{Part, copy},
};

/// Neighbouring positions of one dimension of a result, and where their elements come from.
#[derive(Clone, Copy, Default)]
pub(crate) struct Run {
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
pub(crate) type Runs = [[Run; 3]; MAX_DIMS];

/// Runs that copy every position of `sizes` to the same position.
pub(crate) fn identity(sizes: &[usize]) -> Runs {
    let mut runs = [[Run::default(); 3]; MAX_DIMS];
    for (runs, &len) in runs.iter_mut().zip(sizes) {
        runs[0] = Run { to: 0, from: 0, len, step: 1 };
    }
    runs
}

/// Copies the box of each combination of `runs` from `input` to `out`.
pub(crate) fn copy_runs(
    out: &mut TensorMut<'_, '_>,
    input: &TensorView<'_>,
    runs: &Runs,
) -> Result<(), Error> {
    if out.sizes().contains(&0) {
        return Ok(());
    }
    let to = Part::all_of(out);
    copy_from(out, to, input, Part::all(input), (runs, 0))
}

/// As [`copy_runs`], for the dimensions from `dim` on; those before are chosen.
fn copy_from(
    out: &mut TensorMut<'_, '_>,
    to: Part,
    input: &TensorView<'_>,
    from: Part,
    (runs, dim): (&Runs, usize),
) -> Result<(), Error> {
    if dim == to.sizes.len() {
        return copy(out, &to, input, &from);
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
pub(crate) enum Border {
    /// Nothing from the tensor.
    Constant,
    /// The element at the edge.
    Edge,
    /// The elements before the edge, mirrored.
    Mirror,
}

/// Size and runs of a dimension of `size` with `before` and `after` positions added, or, where
/// they are negative, taken away; `None` when that cannot be.
pub(crate) fn pad_dim(
    size: usize,
    before: i64,
    after: i64,
    border: Border,
) -> Option<(usize, [Run; 3])> {
    let split = |pad: i64| {
        let amount = usize::try_from(pad.unsigned_abs()).ok()?;
        Some(if pad < 0 { (0, amount) } else { (amount, 0) })
    };
    let ((before, cut), (after, cut_end)) = (split(before)?, split(after)?);
    let kept = size.checked_sub(cut)?.checked_sub(cut_end)?;
    let padded = kept.checked_add(before)?.checked_add(after)?;
    let limit = match border {
        Border::Constant => usize::MAX,
        Border::Edge => size.saturating_mul(usize::MAX),
        Border::Mirror => size.saturating_sub(1),
    };
    if before.max(after) > limit {
        return None;
    }
    let kept_run = Run { to: before, from: cut, len: kept, step: 1 };
    let (first, last, back) = match border {
        Border::Constant => return Some((padded, [kept_run, Run::default(), Run::default()])),
        Border::Edge => (0, size.saturating_sub(1), 0),
        Border::Mirror => (before, size.saturating_sub(2), 1_usize.wrapping_neg()),
    };
    let first = Run { to: 0, from: first, len: before, step: back };
    let last = Run { to: before + kept, from: last, len: after, step: back };
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
    border: Border,
) -> Result<(Dims, Runs), Error> {
    let padding = args.int_list(usize::from(index))?;
    let wrong = |expected| Error::InvalidArgument { index, expected };
    if padding.len() % 2 != 0 || padding.len() / 2 > input.rank() {
        return Err(wrong("a pair for each of the last dimensions"));
    }
    let mut sizes = Part::all(input).sizes;
    let mut runs = identity(input.sizes());
    for (pair, dim) in (0..padding.len() / 2).zip((0..input.rank()).rev()) {
        let [before, after] = [0, 1].map(|side| padding.get(2 * pair + side).unwrap_or(0));
        let padded = pad_dim(sizes[dim], before, after, border);
        (sizes[dim], runs[dim]) = padded.ok_or(wrong("padding that the size allows"))?;
    }
    Ok((sizes, runs))
}

/// Pads the last `dims` dimensions of the tensor 0 by the argument 1 into the tensor 2.
pub(crate) fn pad(args: &mut Args<'_>, dims: usize, border: Border) -> Result<(), Error> {
    let input = args.tensor(0)?;
    if args.int_list(1)?.len() != 2 * dims {
        let expected = "a pair for each of the last dimensions";
        return Err(Error::InvalidArgument { index: 1, expected });
    }
    let (sizes, runs) = pad_arg(args, 1, &input, border)?;
    let mut out = args.out(2)?;
    same_dtype(out.dtype(), input.dtype(), 2)?;
    out.resize(&sizes)?;
    copy_runs(&mut out, &input, &runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padded_sizes() {
        let size = |size, before, after, border| {
            pad_dim(size, before, after, border).map(|(padded, _)| padded)
        };
        assert_eq!(size(3, 2, 2, Border::Mirror), Some(7));
        assert_eq!(size(3, 3, 0, Border::Mirror), None);
        assert_eq!(size(3, 3, -2, Border::Edge), Some(4));
        assert_eq!(size(0, 1, 0, Border::Edge), None);
        assert_eq!(size(0, 1, 0, Border::Constant), Some(1));
        assert_eq!(size(3, -2, -2, Border::Constant), None);
        assert_eq!(size(3, i64::MIN, i64::MAX, Border::Constant), None);
        assert_eq!(size(3, i64::MAX, i64::MAX, Border::Edge), None);
    }
}
