//! Depthwise 2-D convolution of NHWC images, f32, without depth multiplier.

use afferent_core::{Error, Workers};
use afferent_simd::{
    Activation, Isa, conv::depthwise_nhwc::DepthwiseNhwc, epilogue::BiasActivation,
};

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

impl DepthwiseConv2d {
    /// Convolution of `batch` images `x`. `input` and `output` are rows and columns.
    pub(crate) fn convolution<'d>(
        &'d self,
        x: &'d [f32],
        batch: usize,
        input: [usize; 2],
        output: [usize; 2],
    ) -> DepthwiseNhwc<'d> {
        let window = self.params.window;
        DepthwiseNhwc {
            x,
            first_row: 0,
            batch,
            channels: self.params.output_channels(),
            input,
            output,
            kernel: window.kernel,
            stride: window.stride,
            dilation: window.dilation,
            padding: window.padding_before,
            weights: &self.packed.weights,
        }
    }

    /// Writes the results of `conv`, with bias and activation, to `out`.
    pub(crate) fn compute(
        &self,
        isa: Isa,
        workers: Option<&dyn Workers>,
        conv: DepthwiseNhwc<'_>,
        out: &mut [f32],
    ) -> Result<(), Error> {
        let epilogue = BiasActivation { bias: &self.packed.bias, activation: self.activation };
        conv.run(isa, epilogue, out, workers).or(Err(SHAPE_MISMATCH))
    }
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
        let [batch, height, width, _] = input.shape.nhwc()?;
        let [_, rows, cols, _] = self.params.output_shape(input.shape)?.nhwc()?;
        let conv = self.convolution(input.data()?, batch, [height, width], [rows, cols]);
        self.compute(cx.isa, cx.workers, conv, output_as(out)?)
    }
}
