//! Windows that slide over the last one to three dimensions of a tensor, as pooling does.

pub(crate) mod adaptive;
pub(crate) mod avg;
pub(crate) mod max;

use core::ops::Range;

use afferent_core::{Args, Dims, Error, IntList, TensorMut, TensorView};

use crate::shared::{
    elements::CHUNK,
    loop_nest::{LoopNest, out_strides, strides_of},
};

/// A window along one dimension.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolDim {
    pub(crate) input: usize,
    pub(crate) output: usize,
    pub(crate) kernel: usize,
    pub(crate) stride: usize,
    pub(crate) padding: usize,
    pub(crate) dilation: usize,
}

/// Outputs of a row that an element of the window meets inside the input: `count` from `to` on,
/// the first at the input position `from`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TapSpan {
    pub(crate) to: usize,
    pub(crate) from: usize,
    pub(crate) count: usize,
}

impl PoolDim {
    /// A dimension that the tensor does not have.
    const NONE: Self = Self { input: 1, output: 1, kernel: 1, stride: 1, padding: 0, dilation: 1 };

    /// The elements of the windows at `first..=last` that may meet the input.
    pub(crate) fn taps(&self, first: usize, last: usize) -> Range<usize> {
        let start = self.padding.saturating_sub(last * self.stride).div_ceil(self.dilation);
        let end = (self.input + self.padding).saturating_sub(first * self.stride);
        start..end.div_ceil(self.dilation).min(self.kernel)
    }

    /// Most windows beside each other whose elements are gone through together: only one where
    /// hardly two meet the same input, and padding between them would be gone through.
    pub(crate) fn together(&self) -> usize {
        if self.stride > self.input { 1 } else { CHUNK }
    }

    /// The position of the first element of the window at `at` that lies not before the input.
    pub(crate) fn first(&self, at: usize) -> usize {
        let start = at * self.stride;
        let skipped = self.padding.saturating_sub(start).div_ceil(self.dilation);
        start + skipped * self.dilation - self.padding
    }

    /// The input position that element `tap` of the window at `at` meets.
    pub(crate) fn source(&self, tap: usize, at: usize) -> Option<usize> {
        let padded = at * self.stride + tap * self.dilation;
        padded.checked_sub(self.padding).filter(|&at| at < self.input)
    }

    /// Where the windows `start..start + len` meet the input with their element `tap`; outputs
    /// count from `start`.
    pub(crate) fn meeting(&self, tap: usize, start: usize, len: usize) -> TapSpan {
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

    /// The first and the last end of the window at `at` within the padded input, and both within
    /// the input, counted from the first padding element.
    pub(crate) fn ends(&self, at: usize) -> ([usize; 2], [usize; 2]) {
        let start = at * self.stride;
        let end = (start + self.kernel).min(self.input + 2 * self.padding);
        let inside = [start.max(self.padding), end.min(self.input + self.padding)];
        ([start, end], inside)
    }

    /// With its output, in a call with the picture before the kernel size at `first`.
    fn with_output(self, first: u8, ceil: bool) -> Result<Self, Error> {
        let wrong = |index, expected| Error::InvalidArgument { index, expected };
        let span = self.dilation.checked_mul(self.kernel - 1).and_then(|span| span.checked_add(1));
        let span = span.ok_or(wrong(first, "a window that is not too large"))?;
        if self.padding > span / 2 {
            return Err(wrong(first + 2, "at most half of the window"));
        }
        let small = wrong(first - 1, "a picture as large as the window");
        let extra = if ceil { self.stride - 1 } else { 0 };
        let padded = self.padding.checked_mul(2).and_then(|both| both.checked_add(self.input));
        let padded = padded.and_then(|size| size.checked_add(extra));
        let slack = padded.and_then(|size| size.checked_sub(span)).ok_or(small)?;
        let mut output = slack / self.stride + 1;
        if ceil && slack / self.stride * self.stride >= self.input + self.padding {
            // A window beyond the last element of the input is not counted.
            output -= 1;
        }
        if output == 0 {
            return Err(small);
        }
        // Every position that a window reaches, counted from the first padding element.
        let reach = output.checked_mul(self.stride).and_then(|end| end.checked_add(span));
        reach.ok_or(wrong(first + 1, "a stride that is not too large"))?;
        Ok(Self { output, ..self })
    }
}

/// Windows over depth, height and width of every picture of a tensor; a tensor with fewer of these
/// has the last ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolGeometry {
    pub(crate) axes: [PoolDim; 3],
    dims: usize,
}

impl PoolGeometry {
    /// The windows over `dims` dimensions of `x`, in a call with `x` before the kernel size at
    /// `first`, then stride, padding, and at `dilation` the dilation, if it has one.
    pub(crate) fn new(
        args: &Args<'_>,
        (x, dims): (&TensorView<'_>, usize),
        first: u8,
        dilation: Option<u8>,
        ceil: bool,
    ) -> Result<Self, Error> {
        let list = |index: u8| args.int_list(usize::from(index));
        let input = spatial_sizes(x.sizes(), dims, first - 1)?;
        let kernel = settings(list(first)?, dims, 1, first)?;
        let stride = match list(first + 1)? {
            list if list.is_empty() => kernel,
            list => settings(list, dims, 1, first + 1)?,
        };
        let padding = settings(list(first + 2)?, dims, 0, first + 2)?;
        let dilation = match dilation {
            Some(index) => settings(list(index)?, dims, 1, index)?,
            None => [1; 3],
        };
        let mut axes = [PoolDim::NONE; 3];
        for dim in 3 - dims..3 {
            let axis = PoolDim {
                input: input[dim],
                output: 0,
                kernel: kernel[dim],
                stride: stride[dim],
                padding: padding[dim],
                dilation: dilation[dim],
            };
            axes[dim] = axis.with_output(first, ceil)?;
        }
        Ok(Self { axes, dims })
    }

    /// Sizes of the result for an input of `sizes`.
    pub(crate) fn out_sizes(&self, sizes: &[usize]) -> Result<Dims, Error> {
        with_spatial_sizes(sizes, self.axes.map(|axis| axis.output), self.dims)
    }

    /// Calls `f` for every row of outputs: with its depth and height.
    pub(crate) fn rows(&self, mut f: impl FnMut([usize; 2])) {
        for depth in 0..self.axes[0].output {
            for height in 0..self.axes[1].output {
                f([depth, height]);
            }
        }
    }
}

/// Strides of depth, height and width in a tensor to read and one to write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpatialStrides {
    pub(crate) from: [usize; 3],
    pub(crate) to: [usize; 3],
}

/// The last `dims` sizes of a tensor with a channel and perhaps a batch before them; ones stand
/// for the others.
///
/// # Errors
/// [`Error::InvalidArgument`] for the argument `index` when it has other dimensions, or pictures
/// without elements.
pub(crate) fn spatial_sizes(sizes: &[usize], dims: usize, index: u8) -> Result<[usize; 3], Error> {
    let wrong = |expected| Error::InvalidArgument { index, expected };
    if sizes.len() != dims + 1 && sizes.len() != dims + 2 {
        return Err(wrong("a channel and perhaps a batch before what windows slide over"));
    }
    let picture = last_three(sizes, dims, 1);
    if picture.contains(&0) { Err(wrong("pictures with elements")) } else { Ok(picture) }
}

/// `sizes` with its last `dims` replaced.
pub(crate) fn with_spatial_sizes(
    sizes: &[usize],
    picture: [usize; 3],
    dims: usize,
) -> Result<Dims, Error> {
    let mut sizes = Dims::new(sizes).ok_or(Error::InvalidTensor { reason: "too many dims" })?;
    for (size, &picture) in sizes.iter_mut().rev().take(dims).zip(picture.iter().rev()) {
        *size = picture;
    }
    Ok(sizes)
}

/// Loops over the pictures of `x` and `out`, of `dims` dimensions, and their strides within one.
pub(crate) fn plane_loops(
    x: &TensorView<'_>,
    out: &TensorMut<'_, '_>,
    dims: usize,
) -> Result<(LoopNest<2>, SpatialStrides), Error> {
    let (from, to) = (strides_of(x), out_strides(out));
    let mut loops = LoopNest::new();
    for dim in 0..x.rank().saturating_sub(dims) {
        loops.push(x.sizes()[dim], [from[dim], to[dim]])?;
    }
    let steps = |strides: &Dims| last_three(strides, dims, 0);
    Ok((loops, SpatialStrides { from: steps(&from), to: steps(&to) }))
}

/// The last `dims` of `items`, after as many times `before` as make three.
pub(crate) fn last_three(items: &[usize], dims: usize, before: usize) -> [usize; 3] {
    let mut all = [before; 3];
    for (to, &from) in all.iter_mut().rev().take(dims).zip(items.iter().rev()) {
        *to = from;
    }
    all
}

/// `dims` settings that are not less than `least`; one stands for all. Ones come before them.
fn settings(list: IntList<'_>, dims: usize, least: usize, index: u8) -> Result<[usize; 3], Error> {
    let expected = "one number or one a dimension, not too small";
    let wrong = Error::InvalidArgument { index, expected };
    if list.len() != 1 && list.len() != dims {
        return Err(wrong);
    }
    let mut all = [1; 3];
    for (item, to) in all[3 - dims..].iter_mut().enumerate() {
        let value = list.get(if list.len() == 1 { 0 } else { item });
        let value = value.and_then(|value| usize::try_from(value).ok());
        *to = value.filter(|&value| value >= least).ok_or(wrong)?;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_results() {
        let check = |input, kernel, stride, padding, ceil, expected: Option<usize>| {
            let axis = PoolDim { input, output: 0, kernel, stride, padding, dilation: 1 };
            assert_eq!(axis.with_output(1, ceil).ok().map(|axis| axis.output), expected);
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
    fn pictures_have_elements() {
        for sizes in [[1, 0, 3], [1, 3, 0]] {
            let error = Error::InvalidArgument { index: 1, expected: "pictures with elements" };
            assert_eq!(spatial_sizes(&sizes, 2, 1), Err(error));
        }
    }
}
