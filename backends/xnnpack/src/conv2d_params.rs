//! Parameters of 2-D convolutions.

use afferent_core::Error;
use afferent_simd::{
    Isa,
    conv::winograd::{self, Kind},
};

use crate::{error::SHAPE_MISMATCH, shape::Shape, window::Window};

/// Kind of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conv2dKind {
    /// Filter layout: output channels, rows, columns, input channels of a group.
    Standard,
    /// Filter layout: 1, rows, columns, output channels.
    Depthwise,
    /// Transposed convolution with the filter layout of [`Conv2dKind::Standard`].
    Transposed {
        /// Rows and columns that are added to the output.
        adjustment: [usize; 2],
    },
}

/// Parameters of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Conv2dParams {
    pub(crate) kind: Conv2dKind,
    pub(crate) window: Window,
    pub(crate) groups: usize,
    pub(crate) group_input_channels: usize,
    pub(crate) group_output_channels: usize,
}

impl Conv2dParams {
    pub(crate) fn output_channels(&self) -> usize {
        self.groups * self.group_output_channels
    }

    /// Index of a weight in the filter of the subgraph: `tap` is the kernel element, `output` and
    /// `input` are channels of `group`.
    pub(crate) fn filter_index(
        &self,
        group: usize,
        output: usize,
        tap: usize,
        input: usize,
    ) -> usize {
        let channel = group * self.group_output_channels + output;
        match self.kind {
            Conv2dKind::Depthwise => tap * self.output_channels() + channel,
            _ => (channel * self.window.taps() + tap) * self.group_input_channels + input,
        }
    }

    /// Required shape of the filter; `None` on overflow.
    pub(crate) fn filter_shape(&self) -> Option<Shape> {
        let [rows, cols] = self.window.kernel;
        let channels = self.groups.checked_mul(self.group_output_channels)?;
        Some(match self.kind {
            Conv2dKind::Depthwise => Shape::of([1, rows, cols, channels]),
            _ => Shape::of([channels, rows, cols, self.group_input_channels]),
        })
    }

    /// Output shape for NHWC images of shape `input`.
    pub(crate) fn output_shape(&self, input: &Shape) -> Result<Shape, Error> {
        let [batch, height, width, channels] = input.nhwc()?;
        if channels != self.groups * self.group_input_channels {
            return Err(SHAPE_MISMATCH);
        }
        let [height, width] = match self.kind {
            Conv2dKind::Transposed { adjustment } => {
                self.window.transposed_output_size([height, width], adjustment)?
            }
            _ => self.window.output_size([height, width])?,
        };
        let out = Shape::of([batch, height, width, self.output_channels()]);
        out.numel()?;
        Ok(out)
    }

    /// True for a 1×1 convolution with stride 1 and no padding: each output pixel reads only the
    /// input pixel at its own position.
    pub(crate) fn is_pointwise(&self) -> bool {
        let Window { kernel, stride, padding_before, padding_after, .. } = self.window;
        let has_adjustment = matches!(
            self.kind,
            Conv2dKind::Transposed { adjustment } if adjustment != [0; 2]
        );
        let sizes = (kernel, stride, padding_before, padding_after);
        !has_adjustment && sizes == ([1; 2], [1; 2], [0; 2], [0; 2])
    }

    /// True for a 1-D convolution over the rows of one image, `input`, whose receptive fields are
    /// contiguous and equally spaced. The GEMM then reads them without an indirection buffer.
    pub(crate) fn is_contiguous_1d(&self, input: &Shape) -> bool {
        let Window { kernel, dilation, padding_before, padding_after, .. } = self.window;
        !matches!(self.kind, Conv2dKind::Transposed { .. })
            && self.groups == 1
            && (kernel[1], dilation[0], padding_before, padding_after) == (1, 1, [0; 2], [0; 2])
            && (input[0], input[2]) == (1, 1)
    }

    /// True if Winograd convolution F(4×4, 3×3) can compute it.
    pub(crate) fn supports_winograd(&self) -> bool {
        let Window { kernel, stride, dilation, .. } = self.window;
        self.kind == Conv2dKind::Standard
            && self.groups == 1
            && (kernel, stride, dilation) == ([3; 2], [1; 2], [1; 2])
    }

    /// Parameters of the Winograd convolution for these shapes; `None` if it is not applicable or
    /// not faster than the indirect GEMM.
    pub(crate) fn winograd(
        &self,
        kind: Kind,
        input: &Shape,
        output: &Shape,
    ) -> Result<Option<winograd::ConvShape>, Error> {
        let ([batch, height, width, in_channels], [_, rows, cols, out_channels]) =
            (input.nhwc()?, output.nhwc()?);
        let shape = winograd::ConvShape {
            batch,
            input: [height, width],
            output: [rows, cols],
            padding: self.window.padding_before,
            in_channels,
            out_channels,
        };
        let is_profitable = self.supports_winograd() && shape.is_profitable(kind, Isa::best());
        Ok(is_profitable.then_some(shape))
    }
}
