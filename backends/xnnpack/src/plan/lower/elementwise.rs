//! Lowers unary, binary, pooling and conversion nodes to q8 operators where they exist, else to f32
//! operators.

use afferent_core::Error;

use super::node::NodeContext;
use crate::{
    op::{
        avg_pooling2d::AvgPooling2d,
        batch_matrix_multiply::BatchMatrixMultiply,
        binary::Binary,
        binary_q8::BinaryQ8,
        concatenate::Concatenate,
        convert::{Dequantize, Quantize},
        f32_fallback::F32Fallback,
        global_avg_pooling2d::GlobalAvgPooling2d,
        global_avg_pooling2d_q8::GlobalAvgPooling2dQ8,
        max_pooling2d::MaxPooling2d,
        softmax::Softmax,
        static_resize_bilinear2d::StaticResizeBilinear2d,
        unary::Unary,
        unary_q8::{ClampQ8, LookupTable},
    },
    operator::Operator,
    plan::value::ComputeType,
    quantization::OutputQuantization,
    subgraph::{BinaryOperator, NodeKind, UNCLAMPED, UnaryOperator, Value},
};

/// Returns the operator that reads or writes int8 without converting whole tensors to f32; `None`
/// if there is none for these datatypes.
pub(super) fn lower_q8(
    cx: &NodeContext<'_, '_>,
    kind: &NodeKind,
) -> Result<Option<Box<dyn Operator>>, Error> {
    let is_int8 = |value: &Value<'_>| ComputeType::of(value) == ComputeType::I8;
    let output_quantization = || {
        let params = cx.quantization_params(cx.output())?;
        Ok::<_, Error>(OutputQuantization { params, range: params.range(cx.node.clamp) })
    };
    let to_int8 = is_int8(cx.output());
    let op: Box<dyn Operator> = match kind {
        NodeKind::Convert if to_int8 && cx.input_type(0) == ComputeType::F32 => {
            Box::new(Quantize { to: output_quantization()? })
        }
        NodeKind::Convert if cx.output_type() == ComputeType::F32 && is_int8(cx.input(0)) => {
            Box::new(Dequantize { from: cx.quantization_params(cx.input(0))? })
        }
        NodeKind::Unary(UnaryOperator::Clamp) if to_int8 && cx.is_same_encoding() => {
            let (low, high) = output_quantization()?.range;
            Box::new(ClampQ8 { low: low as i8, high: high as i8 })
        }
        NodeKind::Unary(_) | NodeKind::Convert if to_int8 && is_int8(cx.input(0)) => {
            let (operator, clamp) = match kind {
                NodeKind::Unary(operator) => (*operator, cx.node.clamp),
                _ => (UnaryOperator::Copy, UNCLAMPED),
            };
            let from = cx.quantization_params(cx.input(0))?;
            let to = cx.quantization_params(cx.output())?;
            Box::new(LookupTable::new(operator, clamp, from, to))
        }
        NodeKind::Binary(
            operator @ (BinaryOperator::Add | BinaryOperator::Subtract | BinaryOperator::Multiply),
        ) if to_int8 && cx.node.inputs.len() == 2 && cx.inputs().all(is_int8) => {
            let inputs =
                [cx.quantization_params(cx.input(0))?, cx.quantization_params(cx.input(1))?];
            Box::new(BinaryQ8::new(*operator, inputs, output_quantization()?))
        }
        NodeKind::GlobalAvgPooling2d { keeps_dims } if to_int8 && cx.inputs().all(is_int8) => {
            Box::new(GlobalAvgPooling2dQ8 {
                keeps_dims: *keeps_dims,
                from: cx.quantization_params(cx.input(0))?,
                to: output_quantization()?,
            })
        }
        _ => return Ok(None),
    };
    Ok(Some(op))
}

/// Returns the f32 operator, with a fallback for int8 operands.
pub(super) fn lower_f32(
    cx: &NodeContext<'_, '_>,
    kind: &NodeKind,
) -> Result<Box<dyn Operator>, Error> {
    let clamp = cx.node.clamp;
    let op: Box<dyn Operator> = match kind {
        NodeKind::Unary(operator) => Box::new(Unary { operator: *operator, clamp }),
        NodeKind::Convert => Box::new(Unary { operator: UnaryOperator::Copy, clamp: UNCLAMPED }),
        NodeKind::Binary(operator) => {
            let clamp = if ignores_clamp(*operator) { UNCLAMPED } else { clamp };
            Box::new(Binary::new(*operator, clamp))
        }
        NodeKind::Softmax => Box::new(Softmax),
        NodeKind::BatchMatrixMultiply { transposed } => {
            Box::new(BatchMatrixMultiply::new(*transposed, clamp))
        }
        NodeKind::AvgPooling2d(window) => Box::new(AvgPooling2d { window: *window, clamp }),
        NodeKind::MaxPooling2d(window) | NodeKind::ArgMaxPooling2d(window) => {
            Box::new(MaxPooling2d::<f32>::new(*window, clamp))
        }
        NodeKind::GlobalAvgPooling2d { keeps_dims } => {
            Box::new(GlobalAvgPooling2d { keeps_dims: *keeps_dims, clamp })
        }
        NodeKind::Concatenate { axis } => {
            Box::new(Concatenate { axis: *axis, element_size: size_of::<f32>() })
        }
        NodeKind::StaticResizeBilinear2d { size, align_corners, half_pixel_centers } => {
            Box::new(StaticResizeBilinear2d::new(*size, *align_corners, *half_pixel_centers))
        }
        _ => return Err(cx.unsupported("as an operator; exclude it from the XNNPACK partition")),
    };
    with_f32_fallback(cx, op)
}

/// True for an operator that XNNPACK does not clamp.
fn ignores_clamp(operator: BinaryOperator) -> bool {
    matches!(operator, BinaryOperator::Maximum | BinaryOperator::Minimum | BinaryOperator::Prelu)
}

/// Wraps an f32 operator if the node has int8 operands.
pub(super) fn with_f32_fallback(
    cx: &NodeContext<'_, '_>,
    inner: Box<dyn Operator>,
) -> Result<Box<dyn Operator>, Error> {
    let params = |value: &Value<'_>| match ComputeType::of(value) {
        ComputeType::F32 => Ok(None),
        ComputeType::I8 => cx.quantization_params(value).map(Some),
        ComputeType::I32 => Err(cx.unsupported("with int32 operands")),
    };
    let inputs = cx.inputs().map(params).collect::<Result<Vec<_>, _>>()?;
    let output = params(cx.output())?;
    if output.is_none() && inputs.iter().all(Option::is_none) {
        return Ok(inner);
    }
    Ok(Box::new(F32Fallback { inner, inputs, output }))
}
