//! Packed weights of depthwise convolutions, f32 and q8.

use afferent_core::Error;
use afferent_simd::{
    Isa,
    conv::depthwise_nhwc_q8::{self, KernelShape},
    qgemm::q8::panel_cols,
};

use super::weight_cache::{CachedWeights, PackedLayout, WeightPacker};
use crate::{
    conv2d_params::{Conv2dKind, Conv2dParams},
    error::TENSOR_TOO_LARGE,
};

/// f32 weights, `[kernel rows, kernel columns, group input channels, output channels]`, and bias.
pub(crate) struct DepthwiseF32 {
    pub(crate) weights: CachedWeights<f32>,
    pub(crate) bias: Vec<f32>,
}

impl DepthwiseF32 {
    pub(crate) fn new(
        packer: &WeightPacker<'_>,
        params: &Conv2dParams,
        filter: &[f32],
        bias: Option<&[f32]>,
    ) -> Result<Self, Error> {
        let layout = PackedLayout::F32Unpacked;
        let weights = packer.get_or_pack(layout, &[], filter.len(), |to| {
            to.copy_from_slice(filter);
            Ok(())
        })?;
        Self::with_bias(packer, params, weights, bias)
    }

    /// Packs the filter of a grouped convolution of any kind. A transposed kernel is flipped.
    pub(crate) fn grouped(
        packer: &WeightPacker<'_>,
        params: &Conv2dParams,
        filter: &[f32],
        bias: Option<&[f32]>,
    ) -> Result<Self, Error> {
        let (inputs, outputs) = (params.group_input_channels, params.group_output_channels);
        let (taps, channels) = (params.window.taps(), params.output_channels());
        let is_flipped = matches!(params.kind, Conv2dKind::Transposed { .. });
        let sizes = [taps, inputs, params.groups, usize::from(is_flipped)];
        let len = filter.len();
        let weights =
            packer.get_or_pack(PackedLayout::F32Grouped, &sizes, len, |to: &mut [f32]| {
                for (at, row) in to.chunks_exact_mut(channels).enumerate() {
                    let (tap, input) = (at / inputs, at % inputs);
                    let tap = if is_flipped { taps - 1 - tap } else { tap };
                    for (channel, weight) in row.iter_mut().enumerate() {
                        let (group, output) = (channel / outputs, channel % outputs);
                        *weight = filter[params.filter_index(group, output, tap, input)];
                    }
                }
                Ok(())
            })?;
        Self::with_bias(packer, params, weights, bias)
    }

    fn with_bias(
        packer: &WeightPacker<'_>,
        params: &Conv2dParams,
        weights: CachedWeights<f32>,
        bias: Option<&[f32]>,
    ) -> Result<Self, Error> {
        let channels = params.output_channels();
        packer.reserve::<f32>(channels)?;
        let bias = bias.map_or_else(|| vec![0.0; channels], <[f32]>::to_vec);
        Ok(Self { weights, bias })
    }
}

/// int8 filter of a depthwise convolution.
#[derive(Clone, Copy)]
pub(crate) struct DepthwiseFilterQ8<'w> {
    /// `[kernel rows, kernel columns, channels]`.
    pub(crate) weights: &'w [i8],
    /// Input scale times filter scale over output scale, per channel.
    pub(crate) scales: &'w [f32],
    pub(crate) bias: &'w [i32],
}

/// int8 weights in blocks of channels. Scales and bias are in the order of the blocks.
pub(crate) struct DepthwiseQ8 {
    pub(crate) weights: CachedWeights<i32>,
    /// Bias minus the contribution of the input zero point.
    pub(crate) bias: Vec<i32>,
    pub(crate) scale: Vec<f32>,
    /// Input zero point, once per channel.
    pub(crate) padding: Vec<i8>,
}

impl DepthwiseQ8 {
    pub(crate) fn new(
        packer: &WeightPacker<'_>,
        params: &Conv2dParams,
        filter: &DepthwiseFilterQ8<'_>,
        input_zero_point: i8,
    ) -> Result<Self, Error> {
        let &DepthwiseFilterQ8 { weights, scales, bias } = filter;
        let isa = Isa::best();
        let (taps, count) = (params.window.taps(), params.groups);
        let shape = KernelShape { taps, channels: count };
        let len = depthwise_nhwc_q8::packed_len(isa, shape).ok_or(TENSOR_TOO_LARGE)?;
        let weight = |tap: usize, channel: usize| weights[tap * count + channel];
        let packed = packer.get_or_pack(PackedLayout::Q8Depthwise, &[taps, count], len, |to| {
            depthwise_nhwc_q8::pack(isa, shape, weight, to);
            Ok(())
        })?;
        // The kernel multiplies inputs with their zero point: its contribution is constant.
        let corrected = |(channel, bias): (usize, &i32)| {
            let sum: i32 = (0..taps).map(|tap| i32::from(weights[tap * count + channel])).sum();
            bias.wrapping_sub(sum.wrapping_mul(i32::from(input_zero_point)))
        };
        let bias: Vec<i32> = bias.iter().enumerate().map(corrected).collect();
        // Bias, scales and padding, in whole blocks of channels.
        packer.reserve::<[i32; 3]>(count.next_multiple_of(panel_cols(isa)))?;
        Ok(Self {
            weights: packed,
            bias: depthwise_nhwc_q8::interleave(isa, &bias).collect(),
            scale: depthwise_nhwc_q8::interleave(isa, scales).collect(),
            padding: vec![input_zero_point; count.max(panel_cols(isa))],
        })
    }
}
