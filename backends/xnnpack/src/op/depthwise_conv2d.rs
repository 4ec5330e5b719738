//! Depthwise 2-D convolution of NHWC images, f32, without depth multiplier.

use afferent_core::Error;
use afferent_simd::{Activation, conv::depthwise_nhwc::DepthwiseNhwc, epilogue::BiasActivation};

use crate::{
    conv2d_params::Conv2dParams,
    error::SHAPE_MISMATCH,
    memory::MemoryBudget,
    operator::{Input, Operator, RunContext, output_as, unary_input},
    pack::depthwise::DepthwiseF32,
    shape::Shape,
};

pub(crate) struct DepthwiseConv2d {
    pub(crate) params: Conv2dParams,
    pub(crate) packed: DepthwiseF32,
    pub(crate) activation: Activation,
}

impl Operator for DepthwiseConv2d {
    fn reshape(&mut self, inputs: &[Shape], _: &mut MemoryBudget) -> Result<Shape, Error> {
        self.params.output_shape(unary_input(inputs)?)
    }

    fn run(
        &self,
        cx: &mut RunContext<'_>,
        inputs: &[Input<'_>],
        out: &mut [u8],
    ) -> Result<(), Error> {
        let input = unary_input(inputs)?;
        let [batch, height, width, channels] = input.shape.nhwc()?;
        let [_, rows, cols, _] = self.params.output_shape(input.shape)?.nhwc()?;
        let window = self.params.window;
        let conv = DepthwiseNhwc {
            x: input.data::<f32>()?,
            first_row: 0,
            batch,
            channels,
            input: [height, width],
            output: [rows, cols],
            kernel: window.kernel,
            stride: window.stride,
            dilation: window.dilation,
            padding: window.padding_before,
            weights: &self.packed.weights,
        };
        let epilogue = BiasActivation { bias: &self.packed.bias, activation: self.activation };
        conv.run(cx.isa, epilogue, output_as(out)?, cx.workers).or(Err(SHAPE_MISMATCH))
    }
}
