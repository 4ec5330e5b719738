//! 2-D convolution of NHWC images with small groups, f32: depthwise with a multiplier, standard, and
//! transposed with one channel per group.
//!
//! The input is expanded so that the convolution becomes depthwise. The input channels of a group
//! become adjacent columns, and each is repeated for the output channels of the group. For a
//! transposed convolution, zeros are inserted between the pixels.

use afferent_core::Error;
use afferent_simd::{Isa, conv::depthwise_nhwc::DepthwiseNhwc};

use super::depthwise_conv2d::DepthwiseConv2d;
use crate::{
    conv2d_params::{Conv2dKind, Conv2dParams},
    error::{SHAPE_MISMATCH, TENSOR_TOO_LARGE},
    memory::{MemoryBudget, grow},
    operator::{Input, Operator, RunContext, output_as, unary_input},
    shape::Shape,
};

/// Maximum number of input channels of a group. More would make the expanded input too large.
const MAX_GROUP_INPUTS: usize = 8;

/// Convolution with the weights of the depthwise one.
pub(crate) struct GroupedConv2d(pub(crate) DepthwiseConv2d);

/// Returns true if [`GroupedConv2d`] supports the convolution and is faster than one GEMM per group.
pub(crate) fn is_supported(params: &Conv2dParams, filter: &[f32]) -> bool {
    let Conv2dParams { kind, window, groups, group_input_channels: inputs, .. } = *params;
    let outputs = params.group_output_channels;
    // The output channels of a larger group fill a vector of the GEMM.
    let is_small = groups > 1 && inputs <= MAX_GROUP_INPUTS && 2 * outputs <= Isa::best().lanes();
    match kind {
        Conv2dKind::Depthwise => is_small,
        Conv2dKind::Standard => is_small && window.dilation[1] == 1,
        // Inserted zeros times an infinite weight would be NaN.
        Conv2dKind::Transposed { .. } => {
            is_small
                && (inputs, outputs) == (1, 1)
                && (0..2).all(|dim| padding_of_flipped(params, dim).is_some())
                && filter.iter().all(|weight| weight.is_finite())
        }
    }
}

/// Padding before the image with inserted zeros, for the flipped kernel of a transposed convolution;
/// `None` if it would be negative.
fn padding_of_flipped(params: &Conv2dParams, dim: usize) -> Option<usize> {
    let window = params.window;
    let span = (window.kernel[dim] - 1).checked_mul(window.dilation[dim])?;
    span.checked_sub(window.padding_before[dim])
}

impl GroupedConv2d {
    /// Pixels from one input pixel to the next in the expanded image.
    fn spacing(&self) -> [usize; 2] {
        let Conv2dParams { kind, window, .. } = self.0.params;
        if matches!(kind, Conv2dKind::Transposed { .. }) { window.stride } else { [1; 2] }
    }

    /// Rows and columns of the expanded image, without the columns for the channels of a group.
    fn expanded_size(&self, size: [usize; 2]) -> Result<[usize; 2], Error> {
        let [rows, cols] = [0, 1].map(|dim| {
            let steps = size[dim].saturating_sub(1).checked_mul(self.spacing()[dim]);
            steps.map(|steps| steps + size[dim].min(1))
        });
        Ok([rows.ok_or(TENSOR_TOO_LARGE)?, cols.ok_or(TENSOR_TOO_LARGE)?])
    }

    /// Depthwise convolution of the expanded input `x`.
    fn depthwise<'d>(
        &'d self,
        x: &'d [f32],
        batch: usize,
        [height, width]: [usize; 2],
        output: [usize; 2],
    ) -> Result<DepthwiseNhwc<'d>, Error> {
        let params = &self.0.params;
        let inputs = params.group_input_channels;
        let conv = self.0.convolution(x, batch, [height, width * inputs], output);
        let (stride, padding) = if matches!(params.kind, Conv2dKind::Transposed { .. }) {
            let padding = [0, 1].map(|dim| padding_of_flipped(params, dim));
            ([1; 2], [padding[0].ok_or(SHAPE_MISMATCH)?, padding[1].ok_or(SHAPE_MISMATCH)?])
        } else {
            (conv.stride, conv.padding)
        };
        Ok(DepthwiseNhwc {
            kernel: [conv.kernel[0], conv.kernel[1] * inputs],
            stride: [stride[0], stride[1] * inputs],
            padding: [padding[0], padding[1] * inputs],
            ..conv
        })
    }
}

impl Operator for GroupedConv2d {
    fn reshape(&mut self, inputs: &[Shape], _: &mut MemoryBudget) -> Result<Shape, Error> {
        let input = unary_input(inputs)?;
        let [batch, height, width, _] = input.nhwc()?;
        let [rows, cols] = self.expanded_size([height, width])?;
        let params = &self.0.params;
        let channels = params.group_input_channels * params.output_channels();
        Shape::of([batch, rows, cols, channels]).numel()?;
        params.output_shape(input)
    }

    fn run(
        &self,
        cx: &mut RunContext<'_>,
        inputs: &[Input<'_>],
        out: &mut [u8],
    ) -> Result<(), Error> {
        let input = unary_input(inputs)?;
        let [batch, height, width, channels] = input.shape.nhwc()?;
        let params = &self.0.params;
        let [_, rows, cols, _] = params.output_shape(input.shape)?.nhwc()?;
        let x = input.data::<f32>()?;
        let (inputs, outputs) = (params.group_input_channels, params.group_output_channels);
        let size = self.expanded_size([height, width])?;
        let pixel = channels * outputs;
        let len = batch * size[0] * size[1] * pixel;
        let expanded = grow(&mut cx.scratch.floats, len, &mut cx.scratch.budget)?;
        let spacing = self.spacing();
        if spacing != [1; 2] {
            expanded.fill(0.0);
        }
        let from = x.chunks_exact(width.max(1) * channels);
        let step = spacing[0] * size[1] * pixel;
        let images = expanded.chunks_mut((size[0] * size[1] * pixel).max(1));
        let rows_to = images.flat_map(|image| image.chunks_mut(step.max(1)));
        for (from, to) in from.zip(rows_to) {
            let channels = Channels { inputs, outputs, spacing: spacing[1] };
            cx.isa.call(|| channels.expand(from, to, pixel));
        }
        let conv = self.depthwise(expanded, batch, size, [rows, cols])?;
        self.0.compute(cx.isa, cx.workers, conv, output_as(out)?)
    }
}

/// Channels of a group, and pixels from one input pixel to the next.
#[derive(Clone, Copy)]
struct Channels {
    inputs: usize,
    outputs: usize,
    spacing: usize,
}

impl Channels {
    /// Expands a row of pixels of `pixel / outputs` channels.
    #[inline(always)]
    fn expand(self, from: &[f32], to: &mut [f32], pixel: usize) {
        let from = from.chunks_exact(pixel / self.outputs);
        for (from, to) in from.zip(to.chunks_mut(self.spacing * pixel)) {
            let Some(to) = to.get_mut(..pixel) else { return };
            match self.outputs {
                1 => self.expand_pixel::<1>(from, to),
                2 => self.expand_pixel::<2>(from, to),
                3 => self.expand_pixel::<3>(from, to),
                4 => self.expand_pixel::<4>(from, to),
                8 => self.expand_pixel::<8>(from, to),
                outputs => {
                    let columns = to.chunks_exact_mut(pixel / self.inputs).enumerate();
                    for (input, to) in columns {
                        let from = from.iter().skip(input).step_by(self.inputs);
                        from.zip(to.chunks_exact_mut(outputs)).for_each(|(x, to)| to.fill(*x));
                    }
                }
            }
        }
    }

    /// As [`Channels::expand`], for one pixel of groups with `OUTPUTS` output channels.
    #[inline(always)]
    fn expand_pixel<const OUTPUTS: usize>(self, from: &[f32], to: &mut [f32]) {
        for (input, to) in to.chunks_exact_mut(to.len() / self.inputs).enumerate() {
            let to = to.as_chunks_mut::<OUTPUTS>().0;
            for (from, to) in from.chunks_exact(self.inputs).zip(to) {
                *to = [from[input]; OUTPUTS];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        pack::{depthwise::DepthwiseF32, weight_cache::WeightPacker},
        subgraph::UNCLAMPED,
        testing::{close, floats, run},
        window::Window,
    };

    /// Convolves by the definition.
    fn expected(
        params: &Conv2dParams,
        x: &[f32],
        filter: &[f32],
        bias: &[f32],
        [shape, to]: [Shape; 2],
    ) -> Vec<f32> {
        let [batch, height, width, channels] = shape.nhwc().unwrap();
        let [_, rows, cols, out_channels] = to.nhwc().unwrap();
        let (inputs, outputs) = (params.group_input_channels, params.group_output_channels);
        let Window { kernel, stride, dilation, padding_before: padding, .. } = params.window;
        let mut out: Vec<f32> =
            (0..batch * rows * cols).flat_map(|_| bias.iter().copied()).collect();
        // Input index of output `o` and tap `t`; `None` in the padding or between pixels.
        let input_index = |dim: usize, o: usize, t: usize, size: usize| match params.kind {
            Conv2dKind::Transposed { .. } => {
                let at = (o + padding[dim]).checked_sub(t * dilation[dim])?;
                (at % stride[dim] == 0 && at / stride[dim] < size).then_some(at / stride[dim])
            }
            _ => {
                let at = (o * stride[dim] + t * dilation[dim]).checked_sub(padding[dim])?;
                (at < size).then_some(at)
            }
        };
        for (at, out) in out.iter_mut().enumerate() {
            let (channel, pixel) = (at % out_channels, at / out_channels);
            let (col, row, image) = (pixel % cols, pixel / cols % rows, pixel / cols / rows);
            let (group, output) = (channel / outputs, channel % outputs);
            for tap in 0..kernel[0] * kernel[1] {
                let y = input_index(0, row, tap / kernel[1], height);
                let u = input_index(1, col, tap % kernel[1], width);
                let (Some(y), Some(u)) = (y, u) else { continue };
                let pixel = &x[((image * height + y) * width + u) * channels..][..channels];
                for input in 0..inputs {
                    let weight = filter[params.filter_index(group, output, tap, input)];
                    *out += pixel[group * inputs + input] * weight;
                }
            }
        }
        out
    }

    #[track_caller]
    fn check(params: Conv2dParams, image: [usize; 2]) {
        let channels = params.groups * params.group_input_channels;
        let shape = Shape::of([2, image[0], image[1], channels]);
        let x = floats(shape.numel().unwrap());
        let filter = floats(params.filter_shape().unwrap().numel().unwrap());
        let bias = floats(params.output_channels());
        assert!(is_supported(&params, &filter));
        let packed =
            DepthwiseF32::grouped(&WeightPacker::default(), &params, &filter, Some(&bias)).unwrap();
        let mut op =
            GroupedConv2d(DepthwiseConv2d { params, packed, activation: UNCLAMPED.into() });
        for threads in [1, 2] {
            let (found, to) = run(&mut op, &x, shape, f32::NAN, threads);
            close(&found, &expected(&params, &x, &filter, &bias, [shape, to]));
        }
    }

    const WINDOWS: [Window; 4] = [
        Window {
            kernel: [3, 3],
            stride: [1, 1],
            dilation: [1, 1],
            padding_before: [1, 1],
            padding_after: [1, 1],
        },
        Window {
            kernel: [2, 4],
            stride: [2, 2],
            dilation: [1, 1],
            padding_before: [1, 0],
            padding_after: [0, 2],
        },
        Window {
            kernel: [1, 5],
            stride: [1, 3],
            dilation: [1, 1],
            padding_before: [0, 2],
            padding_after: [0, 2],
        },
        Window {
            kernel: [3, 2],
            stride: [2, 1],
            dilation: [2, 1],
            padding_before: [2, 1],
            padding_after: [2, 1],
        },
    ];

    fn params(
        kind: Conv2dKind,
        window: Window,
        [groups, inputs, outputs]: [usize; 3],
    ) -> Conv2dParams {
        Conv2dParams {
            kind,
            window,
            groups,
            group_input_channels: inputs,
            group_output_channels: outputs,
        }
    }

    #[test]
    fn multipliers_match_the_definition() {
        for window in WINDOWS {
            for outputs in [1, 2, 3, 4, 5, 8] {
                if 2 * outputs <= Isa::best().lanes() {
                    check(params(Conv2dKind::Depthwise, window, [7, 1, outputs]), [6, 9]);
                }
            }
        }
        let dilated = Window { dilation: [2, 3], ..WINDOWS[0] };
        check(params(Conv2dKind::Depthwise, dilated, [17, 1, 2]), [8, 11]);
        let large = params(Conv2dKind::Depthwise, dilated, [17, 1, 16]);
        let single = params(Conv2dKind::Depthwise, dilated, [1, 1, 2]);
        assert!([large, single].iter().all(|params| !is_supported(params, &[])));
    }

    #[test]
    fn small_groups_match_the_definition() {
        for window in WINDOWS {
            for inputs in [1, 2, 3, 4, 8] {
                for outputs in [1, 2, 3, 4, 5, 8] {
                    if 2 * outputs <= Isa::best().lanes() {
                        check(params(Conv2dKind::Standard, window, [5, inputs, outputs]), [6, 9]);
                    }
                }
            }
        }
    }

    #[test]
    fn transposed_convolutions_match_the_definition() {
        for window in WINDOWS {
            for adjustment in [[0, 0], [1, 0]] {
                let adjustment = [adjustment[0].min(window.stride[0] - 1), adjustment[1]];
                let kind = Conv2dKind::Transposed { adjustment };
                if (0..2)
                    .all(|dim| padding_of_flipped(&params(kind, window, [1; 3]), dim).is_some())
                {
                    check(params(kind, window, [19, 1, 1]), [5, 6]);
                }
            }
        }
    }

    #[test]
    fn infinite_weights_meet_no_inserted_zeros() {
        let kind = Conv2dKind::Transposed { adjustment: [0; 2] };
        let params = params(kind, WINDOWS[0], [2, 1, 1]);
        let mut filter = floats(18);
        assert!(is_supported(&params, &filter));
        filter[5] = f32::INFINITY;
        assert!(!is_supported(&params, &filter));
    }
}
