//! Packed int8 weights, and the q8 GEMM with them.
//!
//! Accumulators are int32, which makes products exact. Inputs are int8 with static parameters, or
//! f32 that is quantized dynamically per row or per image.

use afferent_core::Error;
use afferent_simd::{
    Isa,
    epilogue::Epilogue,
    igemm::{InputRows, OutputRows, WeightShape},
    parallel,
    qgemm::{
        q8::{Q8Gemm, ZeroPoint, interleave, pack, packed_len, panel_cols, scratch_len},
        requantize::{DequantizeF32, RequantizeInt8},
    },
};

use super::weight_cache::{CachedWeights, PackedLayout, WeightPacker};
use crate::{
    conv2d_params::{Conv2dKind, Conv2dParams},
    error::{SHAPE_MISMATCH, TENSOR_TOO_LARGE},
    memory::grow,
    operator::{RunContext, Scratch},
    quantization::quantize_dynamic,
};

/// Dimensions of a GEMM with groups.
#[derive(Clone, Copy)]
pub(crate) struct GemmDims {
    pub(crate) groups: usize,
    /// Output channels of a group.
    pub(crate) outputs: usize,
    /// Kernel elements; 1 for a fully connected layer.
    pub(crate) taps: usize,
    /// Input channels of a group.
    pub(crate) inputs: usize,
}

/// int8 filter with a scale per output channel.
#[derive(Clone, Copy)]
pub(crate) struct FilterQ8<'w> {
    pub(crate) weights: &'w [i8],
    pub(crate) scales: &'w [f32],
    pub(crate) order: FilterOrder,
}

/// Order of the dimensions of a filter.
#[derive(Clone, Copy)]
pub(crate) enum FilterOrder {
    /// Groups, output channels, taps, input channels.
    Goi,
    /// Input channels, output channels: a transposed fully connected filter.
    Gio,
    /// Taps, output channels.
    Depthwise,
}

/// Bias of a q8 GEMM.
pub(crate) enum BiasQ8<'b> {
    None,
    /// In units of input scale times filter scale.
    Int32(&'b [i32]),
    F32(&'b [f32]),
}

/// Quantization of input and output.
#[derive(Clone, Copy)]
pub(crate) enum QuantizationMode {
    /// int8 to int8.
    Static(StaticQuantization),
    /// f32 to f32; the input is quantized at run time.
    Dynamic { clamp: (f32, f32) },
}

/// Static quantization of input and output.
#[derive(Clone, Copy)]
pub(crate) struct StaticQuantization {
    pub(crate) input_zero_point: i8,
    /// Output range in quantized units, without the zero point.
    pub(crate) clamp: (f32, f32),
    pub(crate) output_zero_point: i32,
}

/// Packed weights of all groups.
pub(crate) struct PackedQ8 {
    pub(crate) dims: GemmDims,
    groups: Vec<Group>,
}

/// Packed weights of one group. Scales and bias are in the interleaved column order of the panels.
struct Group {
    weights: CachedWeights<i8>,
    scale: Vec<f32>,
    int_bias: Vec<i32>,
    bias: Vec<f32>,
}

/// Reorders values of columns as panels interleave them, zero-padded to whole panels.
fn interleave_columns<T: Copy + Default>(
    packer: &WeightPacker<'_>,
    columns: &[T],
) -> Result<Vec<T>, Error> {
    let isa = Isa::best();
    let len = columns.len().next_multiple_of(panel_cols(isa));
    packer.reserve::<T>(len)?;
    let mut all = vec![T::default(); len];
    interleave(isa, columns, &mut all);
    Ok(all)
}

impl PackedQ8 {
    pub(crate) fn new(
        packer: &WeightPacker<'_>,
        dims: GemmDims,
        filter: &FilterQ8<'_>,
        bias: &BiasQ8<'_>,
    ) -> Result<Self, Error> {
        let isa = Isa::best();
        let GemmDims { groups, outputs, taps, inputs } = dims;
        let inner = taps.checked_mul(inputs).ok_or(TENSOR_TOO_LARGE)?;
        let shape = WeightShape { inner, cols: outputs };
        let pack_group = |group: usize| {
            let len = packed_len(isa, shape).ok_or(TENSOR_TOO_LARGE)?;
            let layout = match filter.order {
                FilterOrder::Gio => PackedLayout::Q8Gio,
                FilterOrder::Goi | FilterOrder::Depthwise => PackedLayout::Q8Goi,
            };
            let all = filter.weights;
            let column = |col: usize, first: usize, to: &mut [i8]| match filter.order {
                FilterOrder::Depthwise => {
                    for (tap, to) in (first..).zip(to) {
                        *to = all[(tap * groups + group) * outputs + col];
                    }
                }
                FilterOrder::Gio => {
                    (first..).zip(to).for_each(|(k, to)| *to = all[k * outputs + col]);
                }
                FilterOrder::Goi => {
                    let from = (group * outputs + col) * inner + first;
                    to.copy_from_slice(&all[from..][..to.len()]);
                }
            };
            let weights = packer.get_or_pack(layout, &[group, inputs, outputs], len, |to| {
                pack(isa, shape, column, to);
                Ok(())
            })?;
            let channels = group * outputs..(group + 1) * outputs;
            Ok(Group {
                weights,
                scale: interleave_columns(packer, &filter.scales[channels.clone()])?,
                int_bias: match bias {
                    BiasQ8::Int32(bias) => interleave_columns(packer, &bias[channels.clone()])?,
                    _ => vec![],
                },
                bias: match bias {
                    BiasQ8::None => interleave_columns(packer, &vec![0.0; outputs])?,
                    BiasQ8::Int32(_) => vec![],
                    BiasQ8::F32(bias) => interleave_columns(packer, &bias[channels])?,
                },
            })
        };
        packer.reserve::<Group>(groups)?;
        let groups = (0..groups).map(pack_group).collect::<Result<_, Error>>()?;
        Ok(Self { dims, groups })
    }

    /// Packed weights of a GEMM without groups, and its static epilogue.
    pub(crate) fn single_group(
        &self,
        quantization: &StaticQuantization,
    ) -> Result<(&[i8], RequantizeInt8<'_>), Error> {
        let group = self.groups.first().ok_or(SHAPE_MISMATCH)?;
        Ok((&group.weights, group.static_epilogue(quantization)))
    }

    /// Computes an int8 output from an int8 input.
    pub(crate) fn run_static(
        &self,
        cx: &mut RunContext<'_>,
        (x, input_rows): (&[i8], InputRows<'_>),
        quantization: &StaticQuantization,
        out: &mut [i8],
    ) -> Result<(), Error> {
        let zero_point = ZeroPoint::PerTensor(quantization.input_zero_point);
        for (number, group) in self.groups.iter().enumerate() {
            let epilogue = group.static_epilogue(quantization);
            self.gemm(cx, (x, zero_point, input_rows), number, &epilogue, out)?;
        }
        Ok(())
    }

    /// Computes an f32 output from an f32 input that consists of `slices` slices of equal length,
    /// each quantized with its own parameters.
    pub(crate) fn run_dynamic(
        &self,
        cx: &mut RunContext<'_>,
        (x, input_rows): (&[f32], InputRows<'_>),
        slices: usize,
        clamp: (f32, f32),
        out: &mut [f32],
    ) -> Result<(), Error> {
        let GemmDims { groups, outputs, .. } = self.dims;
        let rows = out.len() / (groups * outputs);
        if slices == 0 || rows == 0 || x.is_empty() {
            return if out.is_empty() { Ok(()) } else { Err(SHAPE_MISMATCH) };
        }
        // The GEMM borrows the scratch memory: its input moves out of it.
        let mut input = DynamicInput::take(cx.scratch);
        let result = match input.quantize(cx, x, slices, rows) {
            Ok(()) => self.run_quantized(cx, &input, (x.len(), input_rows), clamp, out),
            Err(error) => Err(error),
        };
        input.restore(cx.scratch);
        result
    }

    /// Computes an f32 output from the first `len` elements of a quantized input.
    fn run_quantized(
        &self,
        cx: &mut RunContext<'_>,
        input: &DynamicInput,
        (len, input_rows): (usize, InputRows<'_>),
        clamp: (f32, f32),
        out: &mut [f32],
    ) -> Result<(), Error> {
        let rows = out.len() / (self.dims.groups * self.dims.outputs);
        let (x, zero_points) = (&input.quantized[..len], &input.zero_points[..rows]);
        let row_scale = &input.scales[..rows];
        let mut result = Ok(());
        for (number, group) in self.groups.iter().enumerate() {
            let (scale, bias) = (&group.scale[..], &group.bias[..]);
            let epilogue = DequantizeF32 { row_scale, scale, bias, clamp };
            let zero_point = ZeroPoint::PerRow(zero_points);
            result = result.and(self.gemm(cx, (x, zero_point, input_rows), number, &epilogue, out));
        }
        result
    }

    /// Computes the output channels of one group.
    fn gemm<E: Epilogue>(
        &self,
        cx: &mut RunContext<'_>,
        (x, zero_point, input_rows): (&[i8], ZeroPoint<'_>, InputRows<'_>),
        group: usize,
        epilogue: &E,
        out: &mut [E::Out],
    ) -> Result<(), Error> {
        let GemmDims { groups, outputs, taps, inputs } = self.dims;
        let row_stride = groups * outputs;
        let rows = out.len() / row_stride;
        let threads = parallel::threads(cx.workers);
        let shape = WeightShape { inner: taps * inputs, cols: outputs };
        let len = scratch_len(cx.isa, shape, rows, threads);
        let gemm = Q8Gemm {
            x: x.get(group * inputs..).unwrap_or_default(),
            is_prepared: false,
            zero_point,
            input_rows,
            rows,
            channels: inputs,
            weights: &self.groups[group].weights,
            cols: outputs,
        };
        let out = OutputRows { data: out, offset: group * outputs, row_stride };
        let words = grow(&mut cx.scratch.words, len, &mut cx.scratch.budget)?;
        gemm.run(cx.isa, epilogue, out, words, cx.workers).or(Err(SHAPE_MISMATCH))
    }
}

/// Dynamically quantized input, in buffers of the scratch memory.
struct DynamicInput {
    quantized: Vec<i8>,
    /// Per row of the GEMM.
    zero_points: Vec<i8>,
    /// Per row of the GEMM.
    scales: Vec<f32>,
}

impl DynamicInput {
    fn take(scratch: &mut Scratch) -> Self {
        Self {
            quantized: std::mem::take(&mut scratch.quantized),
            zero_points: std::mem::take(&mut scratch.zero_points),
            scales: std::mem::take(&mut scratch.floats),
        }
    }

    fn restore(self, scratch: &mut Scratch) {
        let Self { quantized, zero_points, scales } = self;
        (scratch.quantized, scratch.zero_points, scratch.floats) = (quantized, zero_points, scales);
    }

    /// Quantizes each of the `slices` slices of `x`, which together produce `rows` rows.
    fn quantize(
        &mut self,
        cx: &mut RunContext<'_>,
        x: &[f32],
        slices: usize,
        rows: usize,
    ) -> Result<(), Error> {
        let budget = &mut cx.scratch.budget;
        let quantized = grow(&mut self.quantized, x.len(), budget)?;
        let zero_points = grow(&mut self.zero_points, rows, budget)?;
        let scales = grow(&mut self.scales, rows, budget)?;
        let (len, slice_rows) = (x.len() / slices, rows / slices);
        for (slice, x) in x.chunks_exact(len).enumerate() {
            let to = &mut quantized[slice * len..][..len];
            let params = cx.isa.call(|| quantize_dynamic(x, to));
            zero_points[slice * slice_rows..][..slice_rows].fill(params.zero_point as i8);
            scales[slice * slice_rows..][..slice_rows].fill(params.scale);
        }
        Ok(())
    }
}

impl Group {
    fn static_epilogue(&self, quantization: &StaticQuantization) -> RequantizeInt8<'_> {
        let &StaticQuantization { clamp, output_zero_point, .. } = quantization;
        RequantizeInt8 {
            bias: &self.int_bias,
            scale: &self.scale,
            clamp,
            zero_point: output_zero_point,
        }
    }
}

impl FilterOrder {
    /// Filter order of a convolution.
    pub(crate) fn of(params: &Conv2dParams) -> Self {
        if params.kind == Conv2dKind::Depthwise { Self::Depthwise } else { Self::Goi }
    }
}
