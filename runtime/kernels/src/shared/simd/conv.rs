//! Convolution of `f32` by the SIMD kernels.

use afferent_core::{Error, KernelContext};
use afferent_simd::{conv::Conv, parallel};

use crate::shared::{
    accumulator::Operand,
    conv::{Geometry, Operands, Strides},
    simd::{as_f32, as_f32_mut, isa_or_fallback},
};

/// Writes a convolution. Returns `None` if the dtype is not `f32` or only portable code supports
/// the strides.
pub(crate) fn try_convolution<T: Operand>(
    cx: &mut KernelContext<'_>,
    g: &Geometry,
    tensors: &Operands<'_, T>,
    out: &mut [T],
    to: Strides,
) -> Option<Result<(), Error>> {
    let conv = Conv {
        geometry: *g,
        x: as_f32(tensors.x)?,
        x_strides: tensors.x_strides,
        weight: as_f32(tensors.weight)?,
        weight_strides: tensors.weight_strides,
        bias: match tensors.bias {
            Some(bias) => Some(as_f32(bias)?),
            None => None,
        },
        clamp: None,
    };
    let (isa, workers) = (isa_or_fallback(), cx.workers());
    match cx.scratch(conv.scratch_len(isa, to, parallel::threads(workers))?) {
        Ok(scratch) => conv.run(isa, as_f32_mut(out)?, to, scratch, workers).ok().map(Ok),
        Err(error) => Some(Err(error)),
    }
}
