//! 2-D convolution of NHWC images with int8 weights, statically or dynamically quantized: an
//! indirect GEMM, or a Winograd convolution where that is exact and faster.

use afferent_core::Error;
use afferent_simd::{
    Isa,
    conv::winograd::{self, Kind, WinogradQ8},
    igemm::{InputRows, OutputRows, WeightShape},
    parallel,
    qgemm::q8::{Q8Gemm, ZeroPoint, prepare, scratch_len, supports_prepared},
};

use super::conv2d_few_channels::{MAX_CHANNELS, StripConv2d};
use crate::{
    conv2d_params::Conv2dParams,
    error::{SHAPE_MISMATCH, TENSOR_TOO_LARGE},
    indirection::IndirectionBuffer,
    memory::{MemoryBudget, grow},
    operator::{Input, Operator, RunContext, output_as, unary_input},
    pack::{
        q8::{
            BiasQ8, FilterOrder, FilterQ8, GemmDims, PackedQ8, QuantizationMode, StaticQuantization,
        },
        weight_cache::WeightPacker,
    },
    shape::Shape,
};

/// Packs the int8 filter of a convolution.
fn pack(
    packer: &WeightPacker<'_>,
    params: &Conv2dParams,
    weights: &[i8],
    scales: &[f32],
    bias: &BiasQ8<'_>,
) -> Result<PackedQ8, Error> {
    let &Conv2dParams { groups, group_output_channels, window, group_input_channels, .. } = params;
    let (outputs, inputs) = (group_output_channels, group_input_channels);
    let dims = GemmDims { groups, outputs, taps: window.taps(), inputs };
    let filter = FilterQ8 { weights, scales, order: FilterOrder::of(params) };
    PackedQ8::new(packer, dims, &filter, bias)
}

pub(crate) struct Conv2dQ8 {
    params: Conv2dParams,
    packed: PackedQ8,
    mode: QuantizationMode,
    /// Input zero point, once per channel; empty if the Winograd convolution is not exact.
    padding: Vec<i8>,
    /// Images of the last `reshape`.
    batch: usize,
    indirection: IndirectionBuffer,
    /// Set by `reshape` if the Winograd convolution is exact and faster.
    winograd: Option<winograd::ConvShape>,
}

impl Conv2dQ8 {
    pub(crate) fn new(
        packer: &WeightPacker<'_>,
        params: Conv2dParams,
        (weights, scales): (&[i8], &[f32]),
        bias: &BiasQ8<'_>,
        mode: QuantizationMode,
    ) -> Result<Self, Error> {
        let packed = pack(packer, &params, weights, scales, bias)?;
        let isa = Isa::best();
        let inputs = params.group_input_channels;
        let column_len = params.window.taps() * inputs;
        let padding = match mode {
            QuantizationMode::Static(StaticQuantization { input_zero_point, .. })
                if params.supports_winograd()
                    && winograd::supports_channels(inputs)
                    && weights
                        .chunks_exact(column_len.max(1))
                        .all(|column| winograd::is_exact(isa, column)) =>
            {
                packer.reserve::<i8>(inputs)?;
                vec![input_zero_point; inputs]
            }
            _ => vec![],
        };
        let (batch, indirection, winograd) = Default::default();
        Ok(Self { params, packed, mode, padding, batch, indirection, winograd })
    }

    fn input_rows(&self) -> InputRows<'_> {
        if self.params.is_pointwise() {
            InputRows::Strided { stride: self.input_channels() }
        } else {
            let taps = self.params.window.taps();
            InputRows::Indirect { offsets: self.indirection.offsets(), taps }
        }
    }

    fn input_channels(&self) -> usize {
        self.params.groups * self.params.group_input_channels
    }

    fn run_winograd(
        &self,
        cx: &mut RunContext<'_>,
        shape: &winograd::ConvShape,
        x: &[i8],
        quantization: &StaticQuantization,
        out: &mut [i8],
    ) -> Result<(), Error> {
        let (weights, epilogue) = self.packed.single_group(quantization)?;
        let threads = parallel::threads(cx.workers);
        let len = shape.scratch_len(Kind::Q8, cx.isa, threads).ok_or(TENSOR_TOO_LARGE)?;
        let scratch = grow(&mut cx.scratch.floats, len, &mut cx.scratch.budget)?;
        let conv = WinogradQ8 { x, zero_points: &self.padding, weights, epilogue: &epilogue };
        conv.run(shape, cx.isa, out, scratch, cx.workers).or(Err(SHAPE_MISMATCH))
    }
}

impl Operator for Conv2dQ8 {
    fn reshape(&mut self, inputs: &[Shape], budget: &mut MemoryBudget) -> Result<Shape, Error> {
        let input = unary_input(inputs)?;
        let out = self.params.output_shape(input)?;
        self.winograd = if self.padding.is_empty() {
            None
        } else {
            self.params.winograd(Kind::Q8, input, &out)?
        };
        if !self.params.is_pointwise() && self.winograd.is_none() {
            let pixel_stride = self.input_channels();
            self.indirection.fill(&self.params, input, pixel_stride, budget)?;
        }
        self.batch = input[0];
        Ok(out)
    }

    fn run(
        &self,
        cx: &mut RunContext<'_>,
        inputs: &[Input<'_>],
        out: &mut [u8],
    ) -> Result<(), Error> {
        let input = unary_input(inputs)?;
        if self.params.group_input_channels == 0 || out.is_empty() {
            return if out.is_empty() { Ok(()) } else { Err(SHAPE_MISMATCH) };
        }
        match &self.mode {
            QuantizationMode::Static(quantization) => {
                let (x, out) = (input.data()?, output_as(out)?);
                match &self.winograd {
                    Some(shape) => self.run_winograd(cx, shape, x, quantization, out),
                    None => self.packed.run_static(cx, (x, self.input_rows()), quantization, out),
                }
            }
            QuantizationMode::Dynamic { clamp } => {
                let (x, out) = (input.data()?, output_as(out)?);
                self.packed.run_dynamic(cx, (x, self.input_rows()), self.batch, *clamp, out)
            }
        }
    }
}

/// Maximum number of input channels of a convolution whose strips the GEMM reads directly. With more, the
/// Winograd convolution of large images is faster.
const MAX_DIRECT_CHANNELS: usize = 48;

/// True if the GEMM reads strips directly, without a copy of the taps of each pixel.
fn reads_directly(params: &Conv2dParams) -> bool {
    supports_prepared(Isa::best(), params.window.kernel[1] * params.group_input_channels)
}

/// Statically quantized convolution without groups, to be run in strips.
pub(crate) struct StripConv2dQ8 {
    params: Conv2dParams,
    packed: PackedQ8,
    quantization: StaticQuantization,
    /// True if strips are copied in the form that the GEMM reads directly.
    is_prepared: bool,
}

impl StripConv2dQ8 {
    pub(crate) fn new(
        packer: &WeightPacker<'_>,
        params: Conv2dParams,
        (weights, scales): (&[i8], &[f32]),
        bias: &BiasQ8<'_>,
        quantization: StaticQuantization,
    ) -> Result<Self, Error> {
        let packed = pack(packer, &params, weights, scales, bias)?;
        Ok(Self { params, packed, quantization, is_prepared: reads_directly(&params) })
    }

    /// Most input channels for which strips are faster.
    pub(crate) fn max_channels(params: &Conv2dParams) -> usize {
        if reads_directly(params) { MAX_DIRECT_CHANNELS } else { MAX_CHANNELS }
    }
}

impl StripConv2d for StripConv2dQ8 {
    type Element = i8;

    fn params(&self) -> &Conv2dParams {
        &self.params
    }

    fn padding_value(&self) -> i8 {
        let mut value = [0];
        self.copy(&[self.quantization.input_zero_point], &mut value);
        value[0]
    }

    fn copy(&self, from: &[i8], to: &mut [i8]) {
        if self.is_prepared {
            prepare(Isa::best(), from, to);
        } else {
            to.copy_from_slice(from);
        }
    }

    fn workspace_len(&self, pixels: usize) -> usize {
        if self.is_prepared {
            return 0;
        }
        let GemmDims { taps, inputs, outputs, .. } = self.packed.dims;
        let shape = WeightShape { inner: taps * inputs, cols: outputs };
        scratch_len(Isa::best(), shape, pixels, 1)
    }

    fn convolve(
        &self,
        x: &[i8],
        pixels: usize,
        input_rows: InputRows<'_>,
        out: OutputRows<'_, i8>,
        workspace: &mut [i32],
    ) -> Result<(), Error> {
        let GemmDims { taps: kernel_taps, inputs, outputs, .. } = self.packed.dims;
        let taps = if let InputRows::Indirect { taps, .. } = input_rows { taps } else { 1 };
        let (weights, epilogue) = self.packed.single_group(&self.quantization)?;
        let gemm = Q8Gemm {
            x,
            is_prepared: self.is_prepared,
            zero_point: ZeroPoint::PerTensor(self.quantization.input_zero_point),
            input_rows,
            rows: pixels,
            channels: kernel_taps * inputs / taps,
            weights,
            cols: outputs,
        };
        gemm.run(Isa::best(), &epilogue, out, workspace, None).or(Err(SHAPE_MISMATCH))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        conv2d_params::Conv2dKind,
        op::conv2d_few_channels::{Conv2dFewChannels, is_supported},
        testing::{run, run_reshaped, same_window, winograd_params},
    };

    fn bytes(len: usize) -> Vec<i8> {
        (0..len).map(|at| (at * 7919 + 13) as i8).collect()
    }

    #[test]
    fn strips_match_the_indirect_gemm() {
        // Input and output channels, image size, kernel, stride.
        for (inputs, outputs, size, kernel, stride) in [
            (3, 16, 40, 3, 2),
            (3, 70, 33, 7, 2),
            (1, 5, 50, 5, 1),
            (4, 33, 16, 16, 16),
            (16, 16, 20, 3, 1),
            (24, 48, 21, 3, 2),
            (31, 20, 9, 3, 1),
            (32, 40, 12, 5, 1),
        ] {
            let quantization = StaticQuantization {
                input_zero_point: 3,
                clamp: (-100.0, 90.0),
                output_zero_point: 5,
            };
            let params = Conv2dParams {
                kind: Conv2dKind::Standard,
                window: same_window(kernel, stride),
                groups: 1,
                group_input_channels: inputs,
                group_output_channels: outputs,
            };
            let weights = bytes(outputs * kernel * kernel * inputs);
            let (scales, bias) = (vec![1e-4; outputs], vec![9; outputs]);
            let (filter, bias) = ((&weights[..], &scales[..]), BiasQ8::Int32(&bias));
            let packer = WeightPacker::default();
            let shape = Shape::of([2, size, size, inputs]);
            let x = bytes(shape.numel().unwrap());
            let mode = QuantizationMode::Static(quantization);
            let mut conv = Conv2dQ8::new(&packer, params, filter, &bias, mode).unwrap();
            let (expected, _) = run(&mut conv, &x, shape, 0_i8, 1);
            assert!(is_supported(&params, MAX_DIRECT_CHANNELS));
            for threads in [1, 2] {
                let conv =
                    StripConv2dQ8::new(&packer, params, filter, &bias, quantization).unwrap();
                let mut conv = Conv2dFewChannels::new(conv);
                assert!(run(&mut conv, &x, shape, 0_i8, threads).0 == expected);
            }
        }
    }

    #[test]
    fn winograd_matches_the_indirect_gemm() {
        // Input and output channels, divisor of the weights. With weights of all 8 bits, the
        // transformed sums of 512 channels may overflow.
        for (inputs, outputs, divisor, is_exact) in
            [(64, 64, 1, true), (128, 100, 1, true), (512, 64, 1, false), (512, 64, 4, true)]
        {
            let params = winograd_params(inputs, outputs);
            let weights: Vec<i8> =
                bytes(inputs * outputs * 9).into_iter().map(|weight| weight / divisor).collect();
            let (scales, bias) = (vec![1e-4; outputs], vec![9; outputs]);
            let mode = QuantizationMode::Static(StaticQuantization {
                input_zero_point: -128,
                clamp: (-100.0, 90.0),
                output_zero_point: 5,
            });
            let (filter, bias) = ((&weights[..], &scales[..]), BiasQ8::Int32(&bias));
            let mut conv =
                Conv2dQ8::new(&WeightPacker::default(), params, filter, &bias, mode).unwrap();
            for (image, is_faster) in [([1, 30, 33], true), ([2, 2, 3], false), ([3, 17, 16], true)]
            {
                let [batch, height, width] = image;
                let shape = Shape::of([batch, height, width, inputs]);
                let x = bytes(shape.numel().unwrap());
                let mut budget = MemoryBudget::new(usize::MAX);
                let out = conv.reshape(&[shape], &mut budget).unwrap();
                assert_eq!(conv.winograd.is_some(), is_faster && is_exact, "{inputs} {image:?}");
                let run =
                    |conv: &Conv2dQ8, threads| run_reshaped(conv, &x, [shape, out], 0_i8, threads);
                let found = [1, 2, 3].map(|threads| run(&conv, threads));
                conv.winograd = None;
                conv.indirection.fill(&params, &shape, inputs, &mut budget).unwrap();
                let expected = run(&conv, 1);
                assert!(found.iter().all(|found| *found == expected));
            }
        }
    }
}
