//! Windows that slide over the last two dimensions of a tensor, as pooling does.

use core::ops::Range;

use afferent_core::{Args, Dims, Error, IntList, TensorMut, TensorView};

use crate::loops::{Loops, out_strides, strides_of};

/// A window along one dimension.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Axis {
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
pub(crate) struct Meeting {
    pub(crate) to: usize,
    pub(crate) from: usize,
    pub(crate) count: usize,
}

impl Axis {
    /// The elements of the windows at `first..=last` that may meet the input.
    pub(crate) fn taps(&self, first: usize, last: usize) -> Range<usize> {
        let start = self.padding.saturating_sub(last * self.stride).div_ceil(self.dilation);
        let end = (self.input + self.padding).saturating_sub(first * self.stride);
        start..end.div_ceil(self.dilation).min(self.kernel)
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
    pub(crate) fn meeting(&self, tap: usize, start: usize, len: usize) -> Meeting {
        let offset = tap * self.dilation;
        let before = self.padding.saturating_sub(offset).div_ceil(self.stride);
        let end = (self.input + self.padding).saturating_sub(offset).div_ceil(self.stride);
        let (first, last) = (before.max(start), end.min(start + len));
        if first >= last {
            return Meeting { to: 0, from: 0, count: 0 };
        }
        let from = first * self.stride + offset - self.padding;
        Meeting { to: first - start, from, count: last - first }
    }

    /// The first and the last end of the window at `at` within the padded input, and both within
    /// the input, counted from the first padding element.
    pub(crate) fn ends(&self, at: usize) -> ([usize; 2], [usize; 2]) {
        let start = at * self.stride;
        let end = (start + self.kernel).min(self.input + 2 * self.padding);
        let inside = [start.max(self.padding), end.min(self.input + self.padding)];
        ([start, end], inside)
    }
}

/// Windows over height and width of every picture of a tensor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Windows {
    pub(crate) axes: [Axis; 2],
}

/// Strides of height and width in a tensor to read and one to write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PictureSteps {
    pub(crate) from: [usize; 2],
    pub(crate) to: [usize; 2],
}

impl Windows {
    /// The windows of a call with the input at 0, the kernel size at 1, then stride, padding, and
    /// at `dilation` the dilation, if it has one.
    pub(crate) fn new(args: &Args<'_>, dilation: Option<u8>, ceil: bool) -> Result<Self, Error> {
        let [height, width] = picture_sizes(args.tensor(0)?.sizes())?;
        let kernel = pair(args.int_list(1)?, 1, 1)?;
        let stride = match args.int_list(2)? {
            list if list.is_empty() => kernel,
            list => pair(list, 1, 2)?,
        };
        let padding = pair(args.int_list(3)?, 0, 3)?;
        let dilation = match dilation {
            Some(index) => pair(args.int_list(usize::from(index))?, 1, index)?,
            None => [1, 1],
        };
        let axis = |dim: usize, input| {
            let axis = Axis {
                input,
                output: 0,
                kernel: kernel[dim],
                stride: stride[dim],
                padding: padding[dim],
                dilation: dilation[dim],
            };
            axis.with_output(ceil)
        };
        Ok(Self { axes: [axis(0, height)?, axis(1, width)?] })
    }

    /// Sizes of the result for an input of `sizes`.
    pub(crate) fn out_sizes(&self, sizes: &[usize]) -> Result<Dims, Error> {
        with_picture(sizes, self.axes.map(|axis| axis.output))
    }
}

impl Axis {
    fn with_output(self, ceil: bool) -> Result<Self, Error> {
        let wrong = |index, expected| Error::InvalidArgument { index, expected };
        let span = self.dilation.checked_mul(self.kernel - 1).and_then(|span| span.checked_add(1));
        let span = span.ok_or(wrong(1, "a window that is not too large"))?;
        if self.padding > span / 2 {
            return Err(wrong(3, "at most half of the window"));
        }
        let small = wrong(0, "a picture as large as the window");
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
        reach.ok_or(wrong(2, "a stride that is not too large"))?;
        Ok(Self { output, ..self })
    }
}

/// Height and width of the pictures in a tensor of `sizes`.
pub(crate) fn picture_sizes(sizes: &[usize]) -> Result<[usize; 2], Error> {
    match *sizes {
        [_, height, width] | [_, _, height, width] => Ok([height, width]),
        _ => Err(Error::InvalidArgument { index: 0, expected: "pictures, of 3 or 4 dimensions" }),
    }
}

/// `sizes` with another height and width.
pub(crate) fn with_picture(sizes: &[usize], picture: [usize; 2]) -> Result<Dims, Error> {
    let mut sizes = Dims::new(sizes).ok_or(Error::InvalidTensor { reason: "too many dims" })?;
    let rank = sizes.len();
    for (size, picture) in sizes[rank.saturating_sub(2)..].iter_mut().zip(picture) {
        *size = picture;
    }
    Ok(sizes)
}

/// Loops over the pictures of `x` and `out`, and their strides within a picture.
pub(crate) fn pictures(
    x: &TensorView<'_>,
    out: &TensorMut<'_, '_>,
) -> Result<(Loops<2>, PictureSteps), Error> {
    let (from, to) = (strides_of(x), out_strides(out));
    let leading = x.rank().saturating_sub(2);
    let mut loops = Loops::new();
    for dim in 0..leading {
        loops.push(x.sizes()[dim], [from[dim], to[dim]])?;
    }
    let steps = |strides: &Dims| [strides[leading], strides[leading + 1]];
    Ok((loops, PictureSteps { from: steps(&from), to: steps(&to) }))
}

/// Two settings that are not less than `least`; one stands for both.
fn pair(list: IntList<'_>, least: usize, index: u8) -> Result<[usize; 2], Error> {
    let wrong = Error::InvalidArgument { index, expected: "one or two numbers, not too small" };
    let at = |item| {
        let value = list.get(item).and_then(|value| usize::try_from(value).ok());
        value.filter(|&value| value >= least).ok_or(wrong)
    };
    match list.len() {
        1 => Ok([at(0)?; 2]),
        2 => Ok([at(0)?, at(1)?]),
        _ => Err(wrong),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_results() {
        let check = |input, kernel, stride, padding, ceil, expected: Option<usize>| {
            let axis = Axis { input, output: 0, kernel, stride, padding, dilation: 1 };
            assert_eq!(axis.with_output(ceil).ok().map(|axis| axis.output), expected);
        };
        check(4, 2, 2, 0, false, Some(2));
        check(5, 2, 2, 0, false, Some(2));
        check(5, 2, 2, 0, true, Some(3));
        check(3, 2, 2, 1, true, Some(2));
        check(1, 2, 2, 0, true, Some(1));
        check(1, 3, 2, 0, true, Some(1));
        check(1, 4, 2, 0, true, None);
        check(3, 2, 2, 2, false, None);
        check(3, 3, usize::MAX, 1, true, None);
    }
}
