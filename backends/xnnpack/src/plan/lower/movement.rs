//! Lowers nodes that only move elements.

use afferent_core::Error;

use super::{elementwise::with_f32_fallback, node::NodeContext};
use crate::{
    op::{
        concatenate::Concatenate,
        copy::Copy,
        static_constant_pad::{Fill, StaticConstantPad},
        static_slice::StaticSlice,
        static_transpose::StaticTranspose,
    },
    operator::Operator,
    plan::value::ComputeType,
    subgraph::NodeKind,
};

pub(super) fn lower_copy(cx: &NodeContext<'_, '_>) -> Box<dyn Operator> {
    Box::new(Copy::new(None, cx.output_type().size()))
}

pub(super) fn lower_concatenate(axis: usize, compute_type: ComputeType) -> Box<dyn Operator> {
    Box::new(Concatenate { axis, element_size: compute_type.size() })
}

/// Lowers a reshape, transpose, pad or slice. It requantizes if the output has another encoding
/// than the input.
pub(super) fn lower(cx: &NodeContext<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    let padding = match &cx.node.kind {
        NodeKind::StaticConstantPad { value, .. } => *value,
        _ => 0.0,
    };
    if !cx.is_same_encoding() {
        return with_f32_fallback(cx, operator(cx, Fill::F32(padding)));
    }
    let fill = match cx.output_type() {
        ComputeType::I8 => Fill::I8(cx.quantization_params(cx.output())?.quantize(padding)),
        ComputeType::I32 => Fill::F32(f32::from_bits((padding as i32).cast_unsigned())),
        ComputeType::F32 => Fill::F32(padding),
    };
    Ok(operator(cx, fill))
}

fn operator(cx: &NodeContext<'_, '_>, fill: Fill) -> Box<dyn Operator> {
    let size = fill.element_size();
    match &cx.node.kind {
        NodeKind::StaticReshape(shape) => Box::new(Copy::new(Some(*shape), size)),
        NodeKind::StaticTranspose(perm) => Box::new(StaticTranspose::new(perm.clone(), size)),
        NodeKind::StaticConstantPad { before, after, .. } => {
            Box::new(StaticConstantPad::new(*before, *after, fill))
        }
        NodeKind::StaticSlice { offsets, sizes } => {
            Box::new(StaticSlice::new(offsets.clone(), sizes.clone(), size))
        }
        _ => Box::new(Copy::new(None, size)),
    }
}
