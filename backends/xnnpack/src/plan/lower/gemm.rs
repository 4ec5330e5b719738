//! Lowers convolutions and fully connected layers.

use std::borrow::Cow;

use afferent_core::Error;
use afferent_simd::igemm::WeightShape;

use super::{gemm_q8, node::NodeContext};
use crate::{
    conv2d_params::{Conv2dKind, Conv2dParams},
    op::{
        batch_matrix_multiply::BatchMatrixMultiply,
        conv2d::Conv2d,
        conv2d_few_channels::{self, Conv2dFewChannels},
        depthwise_conv2d::DepthwiseConv2d,
        fully_connected::FullyConnected,
        grouped_conv2d::{self, GroupedConv2d},
    },
    operator::Operator,
    pack::{
        constant::dequantize,
        depthwise::DepthwiseF32,
        f32::{FullyConnectedFilter, PackedF32},
    },
    subgraph::{Datatype, Value},
};

/// Returns the operator of a fully connected layer, and the number of inputs that it reads at run
/// time.
pub(super) fn lower_fully_connected(
    cx: &NodeContext<'_, '_>,
    transposed: bool,
) -> Result<(Box<dyn Operator>, usize), Error> {
    let (input, filter) = (cx.input(0), cx.input(1));
    let &[m, n] = &*filter.shape else {
        return Err(cx.invalid("needs a filter with 2 dimensions"));
    };
    let (inner, cols) = if transposed { (m, n) } else { (n, m) };
    if cx.inputs().skip(1).any(|value| value.data.is_none()) {
        return Ok((lower_computed_operands(cx, transposed)?, cx.node.inputs.len()));
    }
    if m.min(n) == 0 {
        return Err(cx.invalid("has an empty filter"));
    }
    if is_quantized_gemm(cx) {
        return Ok((gemm_q8::lower_fully_connected(cx, transposed, (inner, cols))?, 1));
    }
    cx.expect_f32()?;
    let (weights, bias) = (dequantize(filter)?, cx.bias(cols)?);
    let (max_rows, ..) = input.shape.split_around(input.shape.len().saturating_sub(1));
    let shape = WeightShape { inner, cols };
    let filter = FullyConnectedFilter { weights: &weights, transposed, shape, max_rows };
    let packed = PackedF32::pack_fully_connected(&cx.packer(), filter, bias.as_deref())?;
    Ok((Box::new(FullyConnected { packed, activation: cx.node.activation() }), 1))
}

/// Lowers a fully connected layer whose filter or bias is not a constant. As in XNNPACK, all of its
/// values must be floating-point numbers.
fn lower_computed_operands(
    cx: &NodeContext<'_, '_>,
    transposed: bool,
) -> Result<Box<dyn Operator>, Error> {
    let is_plain_float = |value: &Value<'_>| value.is_float() && !value.is_dynamically_quantized;
    if !cx.inputs().chain([cx.output()]).all(is_plain_float) {
        let what = "with a computed filter or bias and quantized values; make both constants or \
                    do not quantize the layer";
        return Err(cx.unsupported(what));
    }
    Ok(Box::new(BatchMatrixMultiply::fully_connected(!transposed, cx.node.clamp)))
}

pub(super) fn lower_conv2d(cx: &NodeContext<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    if cx.inputs().skip(1).any(|value| value.data.is_none()) {
        let what = "with a computed filter or bias, which XNNPACK does not support; make both \
                    constants or exclude the convolution from the XNNPACK partition";
        return Err(cx.unsupported(what));
    }
    if is_quantized_gemm(cx) {
        return gemm_q8::lower_conv2d(cx);
    }
    let weights = Conv2dF32::of(cx)?;
    let params = &weights.params;
    Ok(if params.kind == Conv2dKind::Depthwise && params.group_output_channels == 1 {
        Box::new(weights.depthwise(cx)?)
    } else if grouped_conv2d::is_supported(params, &weights.filter) {
        Box::new(GroupedConv2d(weights.grouped(cx)?))
    } else if conv2d_few_channels::is_supported(params, conv2d_few_channels::MAX_CHANNELS) {
        Box::new(Conv2dFewChannels::new(weights.standard(cx)?))
    } else {
        Box::new(weights.standard(cx)?)
    })
}

/// Lowers an f32 convolution.
pub(super) fn lower_conv2d_f32(cx: &NodeContext<'_, '_>) -> Result<Conv2d, Error> {
    Conv2dF32::of(cx)?.standard(cx)
}

/// Lowers an f32 depthwise convolution without depth multiplier.
pub(super) fn lower_depthwise_f32(cx: &NodeContext<'_, '_>) -> Result<DepthwiseConv2d, Error> {
    Conv2dF32::of(cx)?.depthwise(cx)
}

/// Parameters and weights of an f32 convolution.
struct Conv2dF32<'v> {
    params: Conv2dParams,
    filter: Cow<'v, [f32]>,
    bias: Option<Cow<'v, [f32]>>,
}

impl<'v> Conv2dF32<'v> {
    fn of(cx: &NodeContext<'_, 'v>) -> Result<Self, Error> {
        let params = cx.conv2d_params()?;
        cx.expect_f32()?;
        let (filter, bias) = (dequantize(cx.input(1))?, cx.bias(params.output_channels())?);
        Ok(Self { params, filter, bias })
    }

    fn standard(self, cx: &NodeContext<'_, '_>) -> Result<Conv2d, Error> {
        let activation = cx.node.activation();
        Conv2d::new(&cx.packer(), self.params, &self.filter, self.bias.as_deref(), activation)
    }

    fn depthwise(self, cx: &NodeContext<'_, '_>) -> Result<DepthwiseConv2d, Error> {
        let bias = self.bias.as_deref();
        let packed = DepthwiseF32::new(&cx.packer(), &self.params, &self.filter, bias)?;
        Ok(DepthwiseConv2d { params: self.params, packed, activation: cx.node.activation() })
    }

    /// Depthwise convolution with the weights of a [`GroupedConv2d`].
    fn grouped(self, cx: &NodeContext<'_, '_>) -> Result<DepthwiseConv2d, Error> {
        let bias = self.bias.as_deref();
        let packed = DepthwiseF32::grouped(&cx.packer(), &self.params, &self.filter, bias)?;
        Ok(DepthwiseConv2d { params: self.params, packed, activation: cx.node.activation() })
    }
}

/// True if the GEMM multiplies integers.
fn is_quantized_gemm(cx: &NodeContext<'_, '_>) -> bool {
    let (input, filter) = (cx.input(0), cx.input(1));
    let is_dynamic = input.datatype == Datatype::Qdint8 || input.is_dynamically_quantized;
    matches!(filter.datatype, Datatype::Qint8 | Datatype::Qint4)
        && (is_dynamic || input.datatype == Datatype::Qint8)
}
