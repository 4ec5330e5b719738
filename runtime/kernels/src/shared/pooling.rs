//! Pooling over the last one to three dimensions of a tensor: geometry and argument checks.

pub(crate) mod adaptive;
pub(crate) mod avg;
pub(crate) mod max;

use core::ops::Range;

use afferent_core::{Args, Dims, Error, IntList, TensorMut, TensorView};

use crate::shared::{
    elements::CHUNK,
    loop_nest::{LoopNest, out_strides, strides_of},
};

/// Pooling windows in one dimension.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolDim {
    pub(crate) input: usize,
    pub(crate) output: usize,
    pub(crate) kernel: usize,
    pub(crate) stride: usize,
    pub(crate) padding: usize,
    pub(crate) dilation: usize,
}

/// Outputs for which one window element is inside the input: `count` outputs from `to` on. Output
/// `to` reads input position `from`, and the next ones are `stride` apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TapSpan {
    pub(crate) to: usize,
    pub(crate) from: usize,
    pub(crate) count: usize,
}

impl PoolDim {
    /// Dimension that the tensor does not have.
    const ABSENT: Self =
        Self { input: 1, output: 1, kernel: 1, stride: 1, padding: 0, dilation: 1 };

    /// Window elements that may be inside the input for the outputs `first..=last`.
    pub(crate) fn taps(&self, first: usize, last: usize) -> Range<usize> {
        let start = self.padding.saturating_sub(last * self.stride).div_ceil(self.dilation);
        let end = (self.input + self.padding).saturating_sub(first * self.stride);
        start..end.div_ceil(self.dilation).min(self.kernel)
    }

    /// Maximum number of adjacent windows that are computed together. It is 1 for strides above the
    /// input size, where the range of [`PoolDim::taps`] for several windows is mostly padding.
    pub(crate) fn max_windows(&self) -> usize {
        if self.stride > self.input { 1 } else { CHUNK }
    }

    /// Input position of the first element of window `at` that is not in the padding before the
    /// input.
    pub(crate) fn first_position(&self, at: usize) -> usize {
        let start = at * self.stride;
        let skipped = self.padding.saturating_sub(start).div_ceil(self.dilation);
        start + skipped * self.dilation - self.padding
    }

    /// Input position of element `tap` of window `at`; `None` in the padding.
    pub(crate) fn input_position(&self, tap: usize, at: usize) -> Option<usize> {
        let padded = at * self.stride + tap * self.dilation;
        padded.checked_sub(self.padding).filter(|&at| at < self.input)
    }

    /// Span of element `tap` of the windows `start..start + len`. [`TapSpan::to`] is relative to
    /// `start`.
    pub(crate) fn tap_span(&self, tap: usize, start: usize, len: usize) -> TapSpan {
        let offset = tap * self.dilation;
        let before = self.padding.saturating_sub(offset).div_ceil(self.stride);
        let end = (self.input + self.padding).saturating_sub(offset).div_ceil(self.stride);
        let (first, last) = (before.max(start), end.min(start + len));
        if first >= last {
            return TapSpan { to: 0, from: 0, count: 0 };
        }
        let from = first * self.stride + offset - self.padding;
        TapSpan { to: first - start, from, count: last - first }
    }

    /// Bounds of window `at` in the padded input and in the input, both relative to the first
    /// padding element.
    pub(crate) fn bounds(&self, at: usize) -> ([usize; 2], [usize; 2]) {
        let start = at * self.stride;
        let end = (start + self.kernel).min(self.input + 2 * self.padding);
        let inside = [start.max(self.padding), end.min(self.input + self.padding)];
        ([start, end], inside)
    }

    /// Computes the output size. The kernel size is argument `first`, after the input.
    fn with_output(self, first: u8, ceil_mode: bool) -> Result<Self, Error> {
        let wrong = |index, expected| Error::InvalidArgument { index, expected };
        let span = self.dilation.checked_mul(self.kernel - 1).and_then(|span| span.checked_add(1));
        let span = span.ok_or(wrong(first, "a smaller dilated kernel"))?;
        if self.padding > span / 2 {
            return Err(wrong(first + 2, "at most half of the dilated kernel"));
        }
        let too_small = wrong(first - 1, "an input at least as large as the window");
        let extra = if ceil_mode { self.stride - 1 } else { 0 };
        let padded = self.padding.checked_mul(2).and_then(|both| both.checked_add(self.input));
        let padded = padded.and_then(|size| size.checked_add(extra));
        let slack = padded.and_then(|size| size.checked_sub(span)).ok_or(too_small)?;
        let mut output = slack / self.stride + 1;
        if ceil_mode && slack / self.stride * self.stride >= self.input + self.padding {
            // The last window must start inside the input or the padding before it.
            output -= 1;
        }
        if output == 0 {
            return Err(too_small);
        }
        // Window positions, relative to the first padding element, must not overflow.
        let reach = output.checked_mul(self.stride).and_then(|end| end.checked_add(span));
        reach.ok_or(wrong(first + 1, "a smaller stride"))?;
        Ok(Self { output, ..self })
    }
}

/// Pooling windows in depth, height and width. With fewer spatial dimensions, the first ones are
/// absent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolGeometry {
    pub(crate) dims: [PoolDim; 3],
    spatial_dims: usize,
}

impl PoolGeometry {
    /// Reads the windows over the last `spatial_dims` dimensions of `x`. The kernel size is
    /// argument `first`, after the input; stride and padding follow. Argument `dilation` is the
    /// dilation, if there is one.
    pub(crate) fn new(
        args: &Args<'_>,
        (x, spatial_dims): (&TensorView<'_>, usize),
        first: u8,
        dilation: Option<u8>,
        ceil_mode: bool,
    ) -> Result<Self, Error> {
        let list = |index: u8| args.int_list(usize::from(index));
        let input = spatial_sizes(x.sizes(), spatial_dims, first - 1)?;
        let kernel = spatial_arg(list(first)?, spatial_dims, 1, first)?;
        let stride = match list(first + 1)? {
            list if list.is_empty() => kernel,
            list => spatial_arg(list, spatial_dims, 1, first + 1)?,
        };
        let padding = spatial_arg(list(first + 2)?, spatial_dims, 0, first + 2)?;
        let dilation = match dilation {
            Some(index) => spatial_arg(list(index)?, spatial_dims, 1, index)?,
            None => [1; 3],
        };
        let mut dims = [PoolDim::ABSENT; 3];
        for dim in 3 - spatial_dims..3 {
            let window = PoolDim {
                input: input[dim],
                output: 0,
                kernel: kernel[dim],
                stride: stride[dim],
                padding: padding[dim],
                dilation: dilation[dim],
            };
            dims[dim] = window.with_output(first, ceil_mode)?;
        }
        Ok(Self { dims, spatial_dims })
    }

    /// Output sizes for an input of `sizes`.
    pub(crate) fn out_sizes(&self, sizes: &[usize]) -> Result<Dims, Error> {
        with_spatial_sizes(sizes, self.dims.map(|dim| dim.output), self.spatial_dims)
    }

    /// Calls `f` for each row of outputs with its position in depth and height.
    pub(crate) fn for_each_row(&self, mut f: impl FnMut([usize; 2])) {
        for depth in 0..self.dims[0].output {
            for height in 0..self.dims[1].output {
                f([depth, height]);
            }
        }
    }
}

/// Strides of depth, height and width in the input and in the output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpatialStrides {
    pub(crate) from: [usize; 3],
    pub(crate) to: [usize; 3],
}

/// Sizes of the last `spatial_dims` dimensions of a tensor `[channels, ...]` or
/// `[batch, channels, ...]`, padded with ones in front.
///
/// # Errors
/// [`Error::InvalidArgument`] for argument `index` if the rank is wrong or a spatial size is zero.
pub(crate) fn spatial_sizes(
    sizes: &[usize],
    spatial_dims: usize,
    index: u8,
) -> Result<[usize; 3], Error> {
    let wrong = |expected| Error::InvalidArgument { index, expected };
    if sizes.len() != spatial_dims + 1 && sizes.len() != spatial_dims + 2 {
        return Err(wrong("a tensor [channels, ...] or [batch, channels, ...]"));
    }
    let spatial = last_three(sizes, spatial_dims, 1);
    if spatial.contains(&0) { Err(wrong("spatial sizes that are not zero")) } else { Ok(spatial) }
}

/// Replaces the last `spatial_dims` of `sizes`.
pub(crate) fn with_spatial_sizes(
    sizes: &[usize],
    spatial: [usize; 3],
    spatial_dims: usize,
) -> Result<Dims, Error> {
    let mut sizes =
        Dims::new(sizes).ok_or(Error::InvalidTensor { reason: "more than 16 dimensions" })?;
    for (size, &new) in sizes.iter_mut().rev().take(spatial_dims).zip(spatial.iter().rev()) {
        *size = new;
    }
    Ok(sizes)
}

/// Loops over the planes (batch and channels) of `x` and `out`, and the strides in a plane of
/// `spatial_dims` dimensions.
pub(crate) fn plane_loops(
    x: &TensorView<'_>,
    out: &TensorMut<'_, '_>,
    spatial_dims: usize,
) -> Result<(LoopNest<2>, SpatialStrides), Error> {
    let (from, to) = (strides_of(x), out_strides(out));
    let mut loops = LoopNest::new();
    for dim in 0..x.rank().saturating_sub(spatial_dims) {
        loops.push(x.sizes()[dim], [from[dim], to[dim]])?;
    }
    let spatial = |strides: &Dims| last_three(strides, spatial_dims, 0);
    Ok((loops, SpatialStrides { from: spatial(&from), to: spatial(&to) }))
}

/// The last `count` of `items`, padded with `fill` in front.
pub(crate) fn last_three(items: &[usize], count: usize, fill: usize) -> [usize; 3] {
    let mut all = [fill; 3];
    for (to, &from) in all.iter_mut().rev().take(count).zip(items.iter().rev()) {
        *to = from;
    }
    all
}

/// Reads `count` values that are at least `min` from argument `index`, padded with ones in front. A
/// list of length 1 applies to all dimensions.
fn spatial_arg(
    list: IntList<'_>,
    count: usize,
    min: usize,
    index: u8,
) -> Result<[usize; 3], Error> {
    let expected = "one value, or one for each spatial dimension, not below its minimum";
    let wrong = Error::InvalidArgument { index, expected };
    if list.len() != 1 && list.len() != count {
        return Err(wrong);
    }
    let mut all = [1; 3];
    for (item, to) in all[3 - count..].iter_mut().enumerate() {
        let value = list.get(if list.len() == 1 { 0 } else { item });
        let value = value.and_then(|value| usize::try_from(value).ok());
        *to = value.filter(|&value| value >= min).ok_or(wrong)?;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_sizes() {
        let check = |input, kernel, stride, padding, ceil, expected: Option<usize>| {
            let dim = PoolDim { input, output: 0, kernel, stride, padding, dilation: 1 };
            assert_eq!(dim.with_output(1, ceil).ok().map(|dim| dim.output), expected);
        };
        check(4, 2, 2, 0, false, Some(2));
        check(5, 2, 2, 0, false, Some(2));
        check(5, 2, 2, 0, true, Some(3));
        check(3, 2, 2, 1, true, Some(2));
        check(1, 2, 2, 0, true, Some(1));
        check(1, 3, 3, 0, true, Some(1));
        check(1, 3, 2, 0, true, None);
        check(1, 4, 2, 0, true, None);
        check(3, 2, 2, 2, false, None);
        check(3, 3, usize::MAX, 1, true, None);
    }

    #[test]
    fn missing_dimensions_come_first() {
        assert_eq!(last_three(&[7, 8, 9], 2, 1), [1, 8, 9]);
        assert_eq!(*with_spatial_sizes(&[2, 3, 4], [5, 6, 7], 1).unwrap(), [2, 3, 7]);
        assert_eq!(spatial_sizes(&[0, 2, 3], 1, 0), Ok([1, 1, 3]));
        assert!(spatial_sizes(&[2, 3], 2, 0).is_err());
    }

    #[test]
    fn empty_spatial_sizes_are_rejected() {
        for sizes in [[1, 0, 3], [1, 3, 0]] {
            let error =
                Error::InvalidArgument { index: 1, expected: "spatial sizes that are not zero" };
            assert_eq!(spatial_sizes(&sizes, 2, 1), Err(error));
        }
    }
}
