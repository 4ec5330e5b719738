//! Kernel windows of convolutions and pooling.

use afferent_core::Error;

use crate::{error::SHAPE_MISMATCH, shape::Shape};

/// Kernel window over NHWC images. Pairs are `[rows, columns]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) kernel: [usize; 2],
    pub(crate) stride: [usize; 2],
    pub(crate) dilation: [usize; 2],
    /// Padding above and on the left.
    pub(crate) padding_before: [usize; 2],
    /// Padding below and on the right.
    pub(crate) padding_after: [usize; 2],
}

impl Window {
    /// Number of kernel elements.
    pub(crate) fn taps(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }

    /// Kernel size along `dim`, including dilation.
    pub(crate) fn effective_kernel(&self, dim: usize) -> usize {
        (self.kernel[dim] - 1) * self.dilation[dim] + 1
    }

    /// Output rows and columns for an input of `input` rows and columns.
    pub(crate) fn output_size(&self, input: [usize; 2]) -> Result<[usize; 2], Error> {
        let mut output = [0; 2];
        for dim in 0..2 {
            let padded = input[dim] + self.padding_before[dim] + self.padding_after[dim];
            let span = padded.checked_sub(self.effective_kernel(dim)).ok_or(SHAPE_MISMATCH)?;
            output[dim] = span / self.stride[dim] + 1;
        }
        Ok(output)
    }

    /// Output shape of pooling over NHWC images.
    pub(crate) fn pooled_shape(&self, images: Shape) -> Result<Shape, Error> {
        let [batch, height, width, channels] = images.nhwc()?;
        let [rows, cols] = self.output_size([height, width])?;
        let out = Shape::of([batch, rows, cols, channels]);
        out.numel()?;
        Ok(out)
    }

    /// Output rows and columns of a transposed convolution; `adjustment` is added below and on the
    /// right.
    pub(crate) fn transposed_output_size(
        &self,
        input: [usize; 2],
        adjustment: [usize; 2],
    ) -> Result<[usize; 2], Error> {
        let mut output = [0; 2];
        for dim in 0..2 {
            let steps = input[dim].checked_sub(1).ok_or(SHAPE_MISMATCH)?;
            let padded = steps * self.stride[dim] + self.effective_kernel(dim) + adjustment[dim];
            let padding = self.padding_before[dim] + self.padding_after[dim];
            output[dim] = padded.checked_sub(padding).ok_or(SHAPE_MISMATCH)?;
        }
        Ok(output)
    }

    /// Input index that kernel element `tap` reads for output index `output` along `dim`; `None` in
    /// the padding. `size` is the input size along `dim`.
    pub(crate) fn input_index(
        &self,
        dim: usize,
        output: usize,
        tap: usize,
        size: usize,
    ) -> Option<usize> {
        let padded = output * self.stride[dim] + tap * self.dilation[dim];
        padded.checked_sub(self.padding_before[dim]).filter(|index| *index < size)
    }

    /// As [`Window::input_index`], for a transposed convolution.
    pub(crate) fn transposed_input_index(
        &self,
        dim: usize,
        output: usize,
        tap: usize,
        size: usize,
    ) -> Option<usize> {
        let padded = output + self.padding_before[dim];
        let strided = padded.checked_sub(tap * self.dilation[dim])?;
        let index = strided / self.stride[dim];
        (strided.is_multiple_of(self.stride[dim]) && index < size).then_some(index)
    }
}
