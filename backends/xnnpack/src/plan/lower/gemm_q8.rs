//! Lowers convolutions and fully connected layers with quantized weights.

use afferent_core::Error;
use afferent_simd::qgemm::q4::CHUNK_LEN;

use super::node::NodeContext;
use crate::{
    conv2d_params::Conv2dKind,
    op::{
        conv2d_few_channels::{self, Conv2dFewChannels},
        conv2d_q8::{Conv2dQ8, StripConv2dQ8},
        depthwise_conv2d_q8::DepthwiseConv2dQ8,
        fully_connected_q4::FullyConnectedQ4,
        fully_connected_q8::FullyConnectedQ8,
    },
    operator::Operator,
    pack::{
        constant::integers,
        depthwise::DepthwiseFilterQ8,
        q4::{FilterQ4, PackedQ4},
        q8::{
            BiasQ8, FilterOrder, FilterQ8, GemmDims, PackedQ8, QuantizationMode, StaticQuantization,
        },
    },
    plan::value::ComputeType,
    shape::Shape,
    subgraph::{Datatype, Quantization},
};

/// Scales of a filter.
struct FilterScales {
    scales: Vec<f32>,
    /// Input channels per scale; `None` if there is one scale per output channel.
    block_size: Option<usize>,
}

/// Static quantization of a node, with the scales and the bias of its accumulators.
struct StaticGemm {
    quantization: StaticQuantization,
    /// Input scale times filter scale over output scale, per output channel.
    scales: Vec<f32>,
    bias: Vec<i32>,
}

pub(super) fn lower_fully_connected(
    cx: &NodeContext<'_, '_>,
    transposed: bool,
    (inner, cols): (usize, usize),
) -> Result<Box<dyn Operator>, Error> {
    let filter = filter_scales(cx, usize::from(transposed), cols)?;
    if let (Some(_), true) = (filter.block_size, transposed) {
        return Err(unsupported_scales(cx));
    }
    if let Some(dims) = dynamic_dims(cx) {
        expect_dynamic(cx, dims == 1)?;
        return lower_dynamic_rows(cx, transposed, (inner, cols), &filter);
    }
    let gemm = lower_static(cx, cols, inner, &filter)?;
    let weights = integers(cx.input(1))?;
    let filter = FilterQ8 { weights: &weights, scales: &gemm.scales, order: order(transposed) };
    let dims = GemmDims { groups: 1, outputs: cols, taps: 1, inputs: inner };
    let bias = BiasQ8::Int32(&gemm.bias);
    let packed = PackedQ8::new(&cx.packer(), dims, &filter, &bias)?;
    Ok(Box::new(FullyConnectedQ8 { packed, mode: QuantizationMode::Static(gemm.quantization) }))
}

pub(super) fn lower_conv2d(cx: &NodeContext<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    let params = cx.conv2d_params()?;
    let (inner, outputs) = (params.group_input_channels, params.output_channels());
    let channel_dim = if params.kind == Conv2dKind::Depthwise { 3 } else { 0 };
    let filter = filter_scales(cx, channel_dim, outputs)?;
    if filter.block_size.is_some() {
        return Err(unsupported_scales(cx));
    }
    let packer = cx.packer();
    if let Some(dims) = dynamic_dims(cx) {
        expect_dynamic(cx, dims == 3)?;
        // As in XNNPACK, each pixel of a pointwise convolution is quantized as a row of its own.
        if (params.kind, params.groups) == (Conv2dKind::Standard, 1) && params.is_pointwise() {
            return lower_dynamic_rows(cx, false, (inner, params.group_output_channels), &filter);
        }
        let bias = cx.bias(outputs)?;
        let bias = bias.as_deref().map_or(BiasQ8::None, BiasQ8::F32);
        let weights = integers(cx.input(1))?;
        let mode = QuantizationMode::Dynamic { clamp: cx.node.clamp };
        let filter = (&*weights, &*filter.scales);
        return Ok(Box::new(Conv2dQ8::new(&packer, params, filter, &bias, mode)?));
    }
    let StaticGemm { quantization, scales, bias } = lower_static(cx, outputs, inner, &filter)?;
    let weights = integers(cx.input(1))?;
    if params.kind == Conv2dKind::Depthwise && params.group_output_channels == 1 {
        let filter = DepthwiseFilterQ8 { weights: &weights, scales: &scales, bias: &bias };
        return Ok(Box::new(DepthwiseConv2dQ8::new(&packer, params, &filter, quantization)?));
    }
    let (filter, bias) = ((&*weights, &*scales), BiasQ8::Int32(&bias));
    if conv2d_few_channels::is_supported(&params, StripConv2dQ8::max_channels(&params)) {
        let conv = StripConv2dQ8::new(&packer, params, filter, &bias, quantization)?;
        return Ok(Box::new(Conv2dFewChannels::new(conv)));
    }
    let mode = QuantizationMode::Static(quantization);
    Ok(Box::new(Conv2dQ8::new(&packer, params, filter, &bias, mode)?))
}

fn order(transposed: bool) -> FilterOrder {
    if transposed { FilterOrder::Gio } else { FilterOrder::Goi }
}

fn unsupported_scales(cx: &NodeContext<'_, '_>) -> Error {
    cx.unsupported("with filter scales along this dimension; quantize per output channel")
}

/// Scales of the filter, whose output channels are dimension `channel_dim`.
fn filter_scales(
    cx: &NodeContext<'_, '_>,
    channel_dim: usize,
    outputs: usize,
) -> Result<FilterScales, Error> {
    let (scales, zero_point, block_size) = match &cx.input(1).quantization {
        Quantization::PerTensor { scale, zero_point } => (vec![*scale; outputs], *zero_point, None),
        Quantization::PerChannel { scales, dim } if *dim == channel_dim => {
            (scales.clone(), 0, None)
        }
        Quantization::Blockwise { scales, block_size } => (scales.clone(), 0, Some(*block_size)),
        _ => return Err(unsupported_scales(cx)),
    };
    if zero_point != 0 {
        return Err(cx.unsupported("with a nonzero filter zero point; quantize it symmetrically"));
    }
    Ok(FilterScales { scales, block_size })
}

/// Number of trailing dimensions that are quantized together; `None` for static quantization.
fn dynamic_dims(cx: &NodeContext<'_, '_>) -> Option<usize> {
    let input = cx.input(0);
    match (&input.quantization, input.is_dynamically_quantized) {
        (Quantization::Dynamic { dims }, _) => Some(*dims),
        (_, true) => Some(1),
        _ => None,
    }
}

fn expect_dynamic(cx: &NodeContext<'_, '_>, has_supported_dims: bool) -> Result<(), Error> {
    if !has_supported_dims || cx.output_type() != ComputeType::F32 {
        let what = "with this dynamic quantization; quantize rows or images and compute f32";
        return Err(cx.unsupported(what));
    }
    Ok(())
}

/// Lowers a GEMM whose input rows are quantized dynamically.
fn lower_dynamic_rows(
    cx: &NodeContext<'_, '_>,
    transposed: bool,
    (inner, cols): (usize, usize),
    filter: &FilterScales,
) -> Result<Box<dyn Operator>, Error> {
    let packer = cx.packer();
    if cx.input(1).datatype == Datatype::Qint4 {
        return lower_q4(cx, transposed, (inner, cols), filter);
    }
    let bias = cx.bias(cols)?;
    let bias = bias.as_deref().map_or(BiasQ8::None, BiasQ8::F32);
    let weights = integers(cx.input(1))?;
    let filter = FilterQ8 { weights: &weights, scales: &filter.scales, order: order(transposed) };
    let dims = GemmDims { groups: 1, outputs: cols, taps: 1, inputs: inner };
    let packed = PackedQ8::new(&packer, dims, &filter, &bias)?;
    let mode = QuantizationMode::Dynamic { clamp: cx.node.clamp };
    Ok(Box::new(FullyConnectedQ8 { packed, mode }))
}

/// Lowers a fully connected layer with 4-bit weights.
fn lower_q4(
    cx: &NodeContext<'_, '_>,
    transposed: bool,
    (inner, cols): (usize, usize),
    filter: &FilterScales,
) -> Result<Box<dyn Operator>, Error> {
    let block_size = filter.block_size.unwrap_or(inner);
    if block_size != inner && !block_size.is_multiple_of(CHUNK_LEN) {
        return Err(cx.unsupported("with a group_size that is not a multiple of 32"));
    }
    let bytes = cx.input(1).data.unwrap_or_default();
    let filter = FilterQ4 { bytes, scales: &filter.scales, block_size, transposed };
    let bias = cx.bias(cols)?;
    let packed = PackedQ4::new(&cx.packer(), (inner, cols), &filter, bias.as_deref())?;
    let what = "with blockwise scales that are not exact in bf16";
    let packed = packed.ok_or(cx.unsupported(what))?;
    Ok(Box::new(FullyConnectedQ4 { packed, clamp: cx.node.clamp }))
}

/// Static quantization of a GEMM with `outputs` output channels.
fn lower_static(
    cx: &NodeContext<'_, '_>,
    outputs: usize,
    inner: usize,
    filter: &FilterScales,
) -> Result<StaticGemm, Error> {
    let from = cx.quantization_params(cx.input(0))?;
    let reason = "needs an input zero point between -128 and 127";
    let input_zero_point = i8::try_from(from.zero_point).map_err(|_| cx.invalid(reason))?;
    let to = cx.quantization_params(cx.output())?;
    if filter.block_size.is_some_and(|block_size| block_size != inner) {
        let what =
            "with blockwise filter scales and static quantization; quantize the input dynamically";
        return Err(cx.unsupported(what));
    }
    Ok(StaticGemm {
        quantization: StaticQuantization {
            input_zero_point,
            clamp: to.centered_range(cx.node.clamp),
            output_zero_point: to.zero_point,
        },
        scales: filter.scales.iter().map(|scale| from.scale * scale / to.scale).collect(),
        bias: int32_bias(cx, outputs, from.scale, &filter.scales)?,
    })
}

/// Bias in units of input scale times filter scale.
fn int32_bias(
    cx: &NodeContext<'_, '_>,
    outputs: usize,
    input_scale: f32,
    filter_scales: &[f32],
) -> Result<Vec<i32>, Error> {
    let Some(bias) = cx.node.inputs.get(2) else { return Ok(vec![0; outputs]) };
    let value = &cx.subgraph.values[*bias];
    if value.datatype == Datatype::Int32
        && let Some(data) = value.data
    {
        if value.shape != Shape::of([outputs]) {
            return Err(cx.invalid("needs a bias with one element per output channel"));
        }
        return Ok(data.as_chunks().0.iter().map(|word| i32::from_le_bytes(*word)).collect());
    }
    let bias = cx.bias(outputs)?.unwrap_or_default();
    let units = filter_scales.iter().map(|scale| input_scale * scale);
    Ok(bias.iter().zip(units).map(|(bias, unit)| (bias / unit).round_ties_even() as i32).collect())
}
