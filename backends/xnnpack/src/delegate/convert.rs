//! Conversion between arguments and values in memory.

use afferent_core::{Error, ScalarType, TensorMut, TensorView, bf16, f16};

use crate::{error::SHAPE_MISMATCH, plan::ComputeType, subgraph::Datatype};

pub(super) fn scalar_type(compute_type: ComputeType) -> ScalarType {
    match compute_type {
        ComputeType::F32 => ScalarType::Float,
        ComputeType::I8 => ScalarType::Char,
        ComputeType::I32 => ScalarType::Int,
    }
}

/// Copies an input argument to memory; fp16 and bf16 become f32.
pub(super) fn load_input(
    view: &TensorView<'_>,
    datatype: Datatype,
    to: &mut [u8],
) -> Result<(), Error> {
    match (datatype, view.dtype()) {
        (Datatype::Fp16, ScalarType::Half) => {
            let to: &mut [f32] = bytemuck::cast_slice_mut(to);
            view.data::<f16>()?.iter().zip(to).for_each(|(from, to)| *to = from.to_f32());
        }
        (Datatype::Bf16, ScalarType::BFloat16) => {
            let to: &mut [f32] = bytemuck::cast_slice_mut(to);
            view.data::<bf16>()?.iter().zip(to).for_each(|(from, to)| *to = from.to_f32());
        }
        (Datatype::Int32, ScalarType::Int) => to.copy_from_slice(view.bytes()),
        (datatype, found) => {
            let expected = match datatype {
                Datatype::Fp16 => ScalarType::Half,
                Datatype::Bf16 => ScalarType::BFloat16,
                _ => ScalarType::Int,
            };
            return Err(Error::DtypeMismatch { expected, found });
        }
    }
    Ok(())
}

/// Copies a value from memory to an output argument, converted to its dtype.
pub(super) fn store_output(
    from: &[u8],
    compute_type: ComputeType,
    out: &mut TensorMut<'_, '_>,
) -> Result<(), Error> {
    match (compute_type, out.dtype()) {
        (ComputeType::F32, ScalarType::Half) => {
            let from: &[f32] = bytemuck::cast_slice(from);
            let to = out.data_mut::<f16>()?;
            from.iter().zip(to).for_each(|(from, to)| *to = f16::from_f32(*from));
        }
        (ComputeType::F32, ScalarType::BFloat16) => {
            let from: &[f32] = bytemuck::cast_slice(from);
            let to = out.data_mut::<bf16>()?;
            from.iter().zip(to).for_each(|(from, to)| *to = bf16::from_f32(*from));
        }
        (ComputeType::I32, ScalarType::Long) => {
            let from: &[i32] = bytemuck::cast_slice(from);
            let to = out.data_mut::<i64>()?;
            from.iter().zip(to).for_each(|(from, to)| *to = i64::from(*from));
        }
        (compute_type, found) if scalar_type(compute_type) == found => {
            let to = out.bytes_mut()?;
            if to.len() != from.len() {
                return Err(SHAPE_MISMATCH);
            }
            to.copy_from_slice(from);
        }
        (compute_type, found) => {
            return Err(Error::DtypeMismatch { expected: scalar_type(compute_type), found });
        }
    }
    Ok(())
}
