//! 2-D convolution of NHWC images, f32, standard and transposed: an indirect GEMM, or a Winograd
//! convolution where that is faster.

use afferent_core::{Error, Workers};
use afferent_simd::{
    Activation,
    conv::winograd::{self, Kind, WinogradF32},
    epilogue::BiasActivation,
    igemm::{InputRows, OutputRows, WeightShape},
    parallel,
};

use super::conv2d_few_channels::StripConv2d;
use crate::{
    conv2d_params::{Conv2dKind, Conv2dParams},
    error::{SHAPE_MISMATCH, TENSOR_TOO_LARGE},
    indirection::IndirectionBuffer,
    memory::{MemoryBudget, grow},
    operator::{Input, Operator, RunContext, output_as, unary_input},
    pack::{
        f32::{GemmInput, PackedF32},
        weight_cache::{PackedLayout, WeightPacker},
    },
    shape::Shape,
};

pub(crate) struct Conv2d {
    pub(crate) params: Conv2dParams,
    activation: Activation,
    /// Packed weights of each group.
    packed: Vec<PackedF32>,
    /// Zeros that stand in for pixels in the padding.
    zeros: Vec<f32>,
    indirection: IndirectionBuffer,
    /// Set by `reshape` if the Winograd convolution is faster.
    winograd: Option<winograd::ConvShape>,
}

impl Conv2d {
    pub(crate) fn new(
        packer: &WeightPacker<'_>,
        params: Conv2dParams,
        filter: &[f32],
        bias: Option<&[f32]>,
        activation: Activation,
    ) -> Result<Self, Error> {
        let Conv2dParams {
            groups,
            group_input_channels: inputs,
            group_output_channels: outputs,
            window,
            ..
        } = params;
        let inner = window.taps().checked_mul(inputs).ok_or(TENSOR_TOO_LARGE)?;
        let shape = WeightShape { inner, cols: outputs };
        let pack_group = |group: usize| {
            let weight = |k: usize, col: usize| {
                filter[params.filter_index(group, col, k / inputs, k % inputs)]
            };
            let bias = bias.map(|bias| &bias[group * outputs..][..outputs]);
            if params.kind == Conv2dKind::Depthwise {
                let layout = (PackedLayout::F32Depthwise, group);
                return PackedF32::pack_with(packer, layout, shape, weight, bias);
            }
            PackedF32::pack_goi(packer, shape, group * inner * outputs, filter, bias)
        };
        packer.reserve::<PackedF32>(groups)?;
        let packed = (0..groups).map(pack_group).collect::<Result<_, _>>()?;
        packer.reserve::<f32>(inputs)?;
        let zeros = vec![0.0; inputs];
        let indirection = IndirectionBuffer::default();
        Ok(Self { params, activation, packed, zeros, indirection, winograd: None })
    }

    /// Convolves some pixels of an image. The convolution must be pointwise and have one group.
    pub(crate) fn pointwise(
        &self,
        workers: Option<&dyn Workers>,
        x: &[f32],
        out: &mut [f32],
    ) -> Result<(), Error> {
        let Conv2dParams { group_input_channels, group_output_channels, .. } = self.params;
        let rows = out.len() / group_output_channels.max(1);
        let out = OutputRows { data: out, offset: 0, row_stride: group_output_channels };
        let packed = self.packed.first().ok_or(SHAPE_MISMATCH)?;
        let input_rows = InputRows::Strided { stride: group_input_channels };
        let input = GemmInput { x, rows, input_rows, zeros: &[] };
        packed.gemm_rows(workers, input, self.activation, out)
    }

    fn run_winograd(
        &self,
        cx: &mut RunContext<'_>,
        shape: winograd::ConvShape,
        x: &[f32],
        out: &mut [f32],
    ) -> Result<(), Error> {
        let threads = parallel::threads(cx.workers);
        let packed = self.packed.first().ok_or(SHAPE_MISMATCH)?;
        let (weights, bias) = (packed.f32_panels()?, &packed.bias);
        let len = shape.scratch_len(Kind::F32, cx.isa, threads).ok_or(TENSOR_TOO_LARGE)?;
        let scratch = grow(&mut cx.scratch.floats, len, &mut cx.scratch.budget)?;
        let epilogue = BiasActivation { bias, activation: self.activation };
        let conv = WinogradF32 { x, zeros: &self.zeros, weights, epilogue };
        conv.run(&shape, cx.isa, out, scratch, cx.workers).or(Err(SHAPE_MISMATCH))
    }
}

impl StripConv2d for Conv2d {
    type Element = f32;

    fn params(&self) -> &Conv2dParams {
        &self.params
    }

    fn padding_value(&self) -> f32 {
        0.0
    }

    fn workspace_len(&self, _: usize) -> usize {
        0
    }

    fn convolve(
        &self,
        x: &[f32],
        pixels: usize,
        input_rows: InputRows<'_>,
        out: OutputRows<'_, f32>,
        _: &mut [i32],
    ) -> Result<(), Error> {
        let packed = self.packed.first().ok_or(SHAPE_MISMATCH)?;
        // No tap is in the padding: any slice that is long enough serves as zeros.
        let input = GemmInput { x, rows: pixels, input_rows, zeros: x };
        packed.gemm_rows(None, input, self.activation, out)
    }
}

impl Operator for Conv2d {
    fn reshape(&mut self, inputs: &[Shape], budget: &mut MemoryBudget) -> Result<Shape, Error> {
        let input = unary_input(inputs)?;
        let out = self.params.output_shape(input)?;
        self.winograd = self.params.winograd(Kind::F32, input, &out)?;
        let is_indirect = !self.params.is_pointwise() && !self.params.is_contiguous_1d(input);
        if is_indirect && self.winograd.is_none() {
            self.indirection.fill(&self.params, input, input[3], budget)?;
        }
        Ok(out)
    }

    fn run(
        &self,
        cx: &mut RunContext<'_>,
        inputs: &[Input<'_>],
        out: &mut [u8],
    ) -> Result<(), Error> {
        let input = unary_input(inputs)?;
        let (x, data) = (input.data::<f32>()?, output_as::<f32>(out)?);
        if let Some(shape) = self.winograd {
            return self.run_winograd(cx, shape, x, data);
        }
        let Conv2dParams { groups, group_input_channels: inputs, window, .. } = self.params;
        let input_rows = if self.params.is_pointwise() {
            InputRows::Strided { stride: groups * inputs }
        } else if self.params.is_contiguous_1d(input.shape) {
            InputRows::Strided { stride: window.stride[0] * inputs }
        } else {
            InputRows::Indirect { offsets: self.indirection.offsets(), taps: window.taps() }
        };
        let row_stride = self.params.output_channels();
        let rows = data.len() / row_stride;
        for (group, packed) in self.packed.iter().enumerate() {
            let x = x.get(group * inputs..).unwrap_or_default();
            let offset = group * self.params.group_output_channels;
            let out = OutputRows { data: &mut *data, offset, row_stride };
            let input = GemmInput { x, rows, input_rows, zeros: &self.zeros };
            packed.gemm(cx, input, self.activation, out)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        op::conv2d_few_channels::Conv2dFewChannels,
        testing::{close, floats, run, run_reshaped, same_window, winograd_params},
        window::Window,
    };

    const CLAMP: (f32, f32) = (-1.0, 2.0);

    fn conv2d(inputs: usize, outputs: usize, window: Window) -> Conv2d {
        let params = Conv2dParams {
            kind: Conv2dKind::Standard,
            window,
            groups: 1,
            group_input_channels: inputs,
            group_output_channels: outputs,
        };
        let (filter, bias) = (floats(inputs * outputs * window.taps()), floats(outputs));
        let packer = WeightPacker::default();
        Conv2d::new(&packer, params, &filter, Some(&bias), CLAMP.into()).unwrap()
    }

    #[test]
    fn few_channels_match_the_indirect_gemm() {
        // Input channels, rows, columns, kernel, stride.
        for (channels, rows, cols, kernel, stride) in
            [(3, 224, 30, 3, 2), (1, 1, 600, 3, 2), (3, 64, 64, 16, 16), (8, 9, 11, 5, 1)]
        {
            let shape = Shape::of([2, rows, cols, channels]);
            let x = floats(shape.numel().unwrap());
            let window = same_window(kernel, stride);
            let (expected, _) = run(&mut conv2d(channels, 20, window), &x, shape, f32::NAN, 1);
            for threads in [1, 2] {
                let mut conv = Conv2dFewChannels::new(conv2d(channels, 20, window));
                close(&run(&mut conv, &x, shape, f32::NAN, threads).0, &expected);
            }
        }
    }

    #[test]
    fn winograd_matches_the_indirect_gemm() {
        // Input and output channels; images of several sizes, one after the other.
        for (inputs, outputs) in [(64, 64), (40, 100), (128, 24)] {
            let params = winograd_params(inputs, outputs);
            let (filter, bias) = (floats(inputs * outputs * 9), floats(outputs));
            let activation = Activation { clamp: (-9.0, 100.0), hardswish: outputs == 100 };
            let packer = WeightPacker::default();
            let mut conv = Conv2d::new(&packer, params, &filter, Some(&bias), activation).unwrap();
            for (image, is_winograd) in
                [([1, 30, 33], true), ([2, 2, 3], false), ([3, 17, 16], true)]
            {
                let [batch, height, width] = image;
                let shape = Shape::of([batch, height, width, inputs]);
                let x = floats(shape.numel().unwrap());
                let mut budget = MemoryBudget::new(usize::MAX);
                let out = conv.reshape(&[shape], &mut budget).unwrap();
                assert_eq!(conv.winograd.is_some(), is_winograd, "{inputs} {image:?}");
                let run = |conv: &Conv2d, threads| {
                    run_reshaped(conv, &x, [shape, out], f32::NAN, threads)
                };
                let found = [1, 2, 3].map(|threads| run(&conv, threads));
                conv.winograd = None;
                conv.indirection.fill(&params, &shape, inputs, &mut budget).unwrap();
                let expected = run(&conv, 1);
                let largest = expected.iter().fold(0.0_f32, |largest, x| largest.max(x.abs()));
                let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * largest;
                assert!(found.iter().all(|found| found.iter().zip(&expected).all(close)));
            }
        }
    }
}
