//! Padding, and copies that assemble a tensor from boxes, for padding and rolling.

use afferent_core::{Args, Dims, Error, MAX_DIMS, TensorMut, TensorView};

use crate::shared::{
    accumulator::check_dtype,
    strided_view::{StridedView, copy_view},
};

/// Consecutive output positions in one dimension, and the input positions that they are copied
/// from.
#[derive(Clone, Copy, Default)]
pub(crate) struct Segment {
    /// First output position.
    pub(crate) to: usize,
    /// First input position.
    pub(crate) from: usize,
    /// Number of positions.
    pub(crate) len: usize,
    /// Step between input positions: 1, 0, or a wrapped -1.
    pub(crate) step: usize,
}

/// Up to three segments for each dimension.
pub(crate) type Segments = [[Segment; 3]; MAX_DIMS];

/// Segments that copy all positions of `sizes` unchanged.
pub(crate) fn identity(sizes: &[usize]) -> Segments {
    let mut segments = [[Segment::default(); 3]; MAX_DIMS];
    for (segments, &len) in segments.iter_mut().zip(sizes) {
        segments[0] = Segment { to: 0, from: 0, len, step: 1 };
    }
    segments
}

/// Copies the box of each combination of segments from `input` to `out`.
pub(crate) fn copy_segments(
    out: &mut TensorMut<'_, '_>,
    input: &TensorView<'_>,
    segments: &Segments,
) -> Result<(), Error> {
    if out.sizes().contains(&0) {
        return Ok(());
    }
    let to = StridedView::of_out(out);
    copy_segments_from_dim(out, to, input, StridedView::of(input), (segments, 0))
}

/// Copies the boxes of the segments of dimension `dim` and after. The views are already sliced in
/// the dimensions before `dim`.
fn copy_segments_from_dim(
    out: &mut TensorMut<'_, '_>,
    to: StridedView,
    input: &TensorView<'_>,
    from: StridedView,
    (segments, dim): (&Segments, usize),
) -> Result<(), Error> {
    if dim == to.sizes.len() {
        return copy_view(out, &to, input, &from);
    }
    for segment in segments[dim].iter().filter(|segment| segment.len > 0) {
        let (mut to, mut from) = (to, from);
        to.slice(dim, segment.to, segment.len, 1);
        from.slice(dim, segment.from, segment.len, segment.step);
        copy_segments_from_dim(out, to, input, from, (segments, dim + 1))?;
    }
    Ok(())
}

/// Content of the positions that padding adds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PaddingMode {
    /// A constant that the caller has written to the output.
    Constant,
    /// The element at the edge.
    Replicate,
    /// The elements next to the edge, reversed, without the element at the edge.
    Reflect,
}

/// Padded size and segments of a dimension of size `size`. Negative `before` and `after` crop the
/// dimension. `None` if the padding exceeds what the size or the mode allows.
pub(crate) fn pad_dim(
    size: usize,
    before: i64,
    after: i64,
    mode: PaddingMode,
) -> Option<(usize, [Segment; 3])> {
    let pad_and_crop = |pad: i64| {
        let amount = usize::try_from(pad.unsigned_abs()).ok()?;
        Some(if pad < 0 { (0, amount) } else { (amount, 0) })
    };
    let ((before, crop), (after, crop_end)) = (pad_and_crop(before)?, pad_and_crop(after)?);
    let kept = size.checked_sub(crop)?.checked_sub(crop_end)?;
    let padded = kept.checked_add(before)?.checked_add(after)?;
    let max_padding = match mode {
        PaddingMode::Constant => usize::MAX,
        PaddingMode::Replicate => size.saturating_mul(usize::MAX),
        PaddingMode::Reflect => size.saturating_sub(1),
    };
    if before.max(after) > max_padding {
        return None;
    }
    let kept_segment = Segment { to: before, from: crop, len: kept, step: 1 };
    let (first, last, step) = match mode {
        PaddingMode::Constant => {
            return Some((padded, [kept_segment, Segment::default(), Segment::default()]));
        }
        PaddingMode::Replicate => (0, size.saturating_sub(1), 0),
        PaddingMode::Reflect => (before, size.saturating_sub(2), 1_usize.wrapping_neg()),
    };
    let first = Segment { to: 0, from: first, len: before, step };
    let last = Segment { to: before + kept, from: last, len: after, step };
    Some((padded, [first, kept_segment, last]))
}

/// Padded sizes and segments of `input`. Argument `index` has a pair (before, after) for each
/// dimension, starting with the last one.
///
/// # Errors
/// [`Error::InvalidArgument`] if there are too many pairs or the padding exceeds its limits.
pub(crate) fn pad_arg(
    args: &Args<'_>,
    index: u8,
    input: &TensorView<'_>,
    mode: PaddingMode,
) -> Result<(Dims, Segments), Error> {
    let padding = args.int_list(usize::from(index))?;
    let wrong = |expected| Error::InvalidArgument { index, expected };
    if padding.len() % 2 != 0 || padding.len() / 2 > input.rank() {
        return Err(wrong("a pair of paddings for each of the last dimensions"));
    }
    let mut sizes = StridedView::of(input).sizes;
    let mut segments = identity(input.sizes());
    for (pair, dim) in (0..padding.len() / 2).zip((0..input.rank()).rev()) {
        let [before, after] = [0, 1].map(|side| padding.get(2 * pair + side).unwrap_or(0));
        let padded = pad_dim(sizes[dim], before, after, mode);
        (sizes[dim], segments[dim]) =
            padded.ok_or(wrong("padding that the size and the mode allow"))?;
    }
    Ok((sizes, segments))
}

/// Pads the last `dims` dimensions of argument 0 by argument 1 and writes argument 2.
pub(crate) fn pad(args: &mut Args<'_>, dims: usize, mode: PaddingMode) -> Result<(), Error> {
    let input = args.tensor(0)?;
    if args.int_list(1)?.len() != 2 * dims {
        let expected = "a pair of paddings for each of the last dimensions";
        return Err(Error::InvalidArgument { index: 1, expected });
    }
    let (sizes, segments) = pad_arg(args, 1, &input, mode)?;
    let mut out = args.out(2)?;
    check_dtype(out.dtype(), input.dtype(), 2)?;
    out.resize(&sizes)?;
    copy_segments(&mut out, &input, &segments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padded_sizes() {
        let size = |size, before, after, mode| {
            pad_dim(size, before, after, mode).map(|(padded, _)| padded)
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
