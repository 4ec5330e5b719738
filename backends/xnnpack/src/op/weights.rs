//! Constants as the operations take them.

use std::borrow::Cow;

use afferent_core::{Error, bf16, f16};

use crate::{
    graph::{Dtype, Quant, Value},
    shape::MISFIT,
};

/// The integers of a constant, those of 4 bits less their zero; rows are as long as the last size.
pub(crate) fn integers<'a>(value: &Value<'a>) -> Result<Cow<'a, [i8]>, Error> {
    let data = value.data.ok_or(MISFIT)?;
    match value.dtype {
        Dtype::I8 => Ok(Cow::Borrowed(bytemuck::cast_slice(data))),
        Dtype::I4 => {
            let row = value.shape.last().copied().unwrap_or(1).max(1);
            let nibble = |byte: &u8, at: usize| ((byte >> (4 * at)) & 15) as i8 - 8;
            let rows = data.chunks_exact(row.div_ceil(2));
            let all = rows.flat_map(|bytes| (0..row).map(|at| nibble(&bytes[at / 2], at % 2)));
            Ok(Cow::Owned(all.collect()))
        }
        _ => Err(MISFIT),
    }
}

/// The numbers of a constant where they are, if they can be read there.
pub(crate) fn in_place<'a>(value: &Value<'a>) -> Option<&'a [f32]> {
    let can = cfg!(target_endian = "little") && value.dtype == Dtype::F32;
    bytemuck::try_cast_slice(value.data.filter(|_| can)?).ok()
}

/// The numbers of a constant, whatever they are stored as.
pub(crate) fn numbers<'a>(value: &Value<'a>) -> Result<Cow<'a, [f32]>, Error> {
    if let Some(numbers) = in_place(value) {
        return Ok(Cow::Borrowed(numbers));
    }
    let data = value.data.ok_or(MISFIT)?;
    let halves = || data.as_chunks::<2>().0.iter();
    match value.dtype {
        Dtype::F32 => Ok(data.as_chunks().0.iter().map(|word| f32::from_le_bytes(*word)).collect()),
        Dtype::F16 => Ok(halves().map(|half| f16::from_le_bytes(*half).to_f32()).collect()),
        Dtype::Bf16 => Ok(halves().map(|half| bf16::from_le_bytes(*half).to_f32()).collect()),
        Dtype::I32 => {
            let words = data.as_chunks().0.iter().map(|word| i32::from_le_bytes(*word) as f32);
            Ok(scaled(value, words).collect())
        }
        Dtype::I8 | Dtype::I4 => {
            let all = integers(value)?;
            Ok(scaled(value, all.iter().map(|x| f32::from(*x))).collect())
        }
        Dtype::Dynamic => Err(MISFIT),
    }
}

/// Integers of a constant as the numbers that they stand for.
fn scaled(value: &Value<'_>, integers: impl Iterator<Item = f32>) -> impl Iterator<Item = f32> {
    let row = value.shape.last().copied().unwrap_or(1).max(1);
    integers.enumerate().map(move |(at, x)| match &value.quant {
        Quant::Tensor { scale, zero_point } => (x - *zero_point as f32) * scale,
        Quant::Channel { scales, dim } => {
            let (_, len, after) = value.shape.around(*dim);
            x * scales[at / after.max(1) % len.max(1)]
        }
        Quant::Blocks { scales, size } => x * scales[at / row * (row / size) + at % row / size],
        Quant::None | Quant::Dynamic { .. } => x,
    })
}
