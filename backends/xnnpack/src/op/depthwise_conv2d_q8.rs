//! Depthwise 2-D convolution of NHWC images, int8, without depth multiplier.

use afferent_core::Error;
use afferent_simd::{conv::depthwise_nhwc_q8::DepthwiseNhwcQ8, qgemm::requantize::RequantizeInt8};

use crate::{
    conv2d_params::Conv2dParams,
    error::SHAPE_MISMATCH,
    indirection::IndirectionBuffer,
    memory::MemoryBudget,
    operator::{Input, Operator, RunContext, output_as, unary_input},
    pack::{
        depthwise::{DepthwiseFilterQ8, DepthwiseQ8},
        q8::StaticQuantization,
        weight_cache::WeightPacker,
    },
    shape::Shape,
};

pub(crate) struct DepthwiseConv2dQ8 {
    params: Conv2dParams,
    packed: DepthwiseQ8,
    quantization: StaticQuantization,
    indirection: IndirectionBuffer,
}

impl DepthwiseConv2dQ8 {
    pub(crate) fn new(
        packer: &WeightPacker<'_>,
        params: Conv2dParams,
        filter: &DepthwiseFilterQ8<'_>,
        quantization: StaticQuantization,
    ) -> Result<Self, Error> {
        let packed = DepthwiseQ8::new(packer, &params, filter, quantization.input_zero_point)?;
        Ok(Self { params, packed, quantization, indirection: IndirectionBuffer::default() })
    }
}

impl Operator for DepthwiseConv2dQ8 {
    fn reshape(&mut self, inputs: &[Shape], budget: &mut MemoryBudget) -> Result<Shape, Error> {
        let input = unary_input(inputs)?;
        let out = self.params.output_shape(input)?;
        self.indirection.fill(&self.params, input, self.params.groups, budget)?;
        Ok(out)
    }

    fn run(
        &self,
        cx: &mut RunContext<'_>,
        inputs: &[Input<'_>],
        out: &mut [u8],
    ) -> Result<(), Error> {
        let DepthwiseQ8 { weights, bias, scale, padding } = &self.packed;
        let conv = DepthwiseNhwcQ8 {
            x: unary_input(inputs)?.data()?,
            zero_points: padding,
            offsets: self.indirection.offsets(),
            taps: self.params.window.taps(),
            channels: self.params.groups,
            weights,
        };
        let StaticQuantization { clamp, output_zero_point, .. } = self.quantization;
        let epilogue = RequantizeInt8 { bias, scale, clamp, zero_point: output_zero_point };
        conv.run(cx.isa, &epilogue, output_as(out)?, cx.workers).or(Err(SHAPE_MISMATCH))
    }
}
