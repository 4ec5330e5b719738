//! Constants of the subgraph as f32 or int8.

use std::borrow::Cow;

use afferent_core::{Error, bf16, f16};

use crate::{
    error::SHAPE_MISMATCH,
    subgraph::{Datatype, Quantization, Value},
};

/// Integers of a `qint8` or `qint4` constant; the zero point of `qint4`, 8, is subtracted.
pub(crate) fn integers<'a>(value: &Value<'a>) -> Result<Cow<'a, [i8]>, Error> {
    let data = value.data.ok_or(SHAPE_MISMATCH)?;
    match value.datatype {
        Datatype::Qint8 => Ok(Cow::Borrowed(bytemuck::cast_slice(data))),
        Datatype::Qint4 => {
            let row = value.shape.last().copied().unwrap_or(1).max(1);
            let unpack = |byte: &u8, half: usize| ((byte >> (4 * half)) & 15) as i8 - 8;
            let rows = data.chunks_exact(row.div_ceil(2));
            let all = rows.flat_map(|bytes| (0..row).map(|at| unpack(&bytes[at / 2], at % 2)));
            Ok(Cow::Owned(all.collect()))
        }
        _ => Err(SHAPE_MISMATCH),
    }
}

/// Borrows the data of an fp32 constant; `None` if it must be converted or copied.
pub(crate) fn borrow_f32<'a>(value: &Value<'a>) -> Option<&'a [f32]> {
    let is_native = cfg!(target_endian = "little") && value.datatype == Datatype::Fp32;
    bytemuck::try_cast_slice(value.data.filter(|_| is_native)?).ok()
}

/// Constant as f32, converted or dequantized if necessary.
pub(crate) fn dequantize<'a>(value: &Value<'a>) -> Result<Cow<'a, [f32]>, Error> {
    if let Some(floats) = borrow_f32(value) {
        return Ok(Cow::Borrowed(floats));
    }
    let data = value.data.ok_or(SHAPE_MISMATCH)?;
    let halves = || data.as_chunks::<2>().0.iter();
    match value.datatype {
        Datatype::Fp32 => {
            Ok(data.as_chunks().0.iter().map(|word| f32::from_le_bytes(*word)).collect())
        }
        Datatype::Fp16 => Ok(halves().map(|half| f16::from_le_bytes(*half).to_f32()).collect()),
        Datatype::Bf16 => Ok(halves().map(|half| bf16::from_le_bytes(*half).to_f32()).collect()),
        Datatype::Int32 => {
            let words = data.as_chunks().0.iter().map(|word| i32::from_le_bytes(*word) as f32);
            Ok(apply_scales(value, words).collect())
        }
        Datatype::Qint8 | Datatype::Qint4 => {
            let all = integers(value)?;
            Ok(apply_scales(value, all.iter().map(|x| f32::from(*x))).collect())
        }
        Datatype::Qdint8 => Err(SHAPE_MISMATCH),
    }
}

/// Dequantizes the elements of a constant, which come in memory order.
fn apply_scales(
    value: &Value<'_>,
    integers: impl Iterator<Item = f32>,
) -> impl Iterator<Item = f32> {
    let row = value.shape.last().copied().unwrap_or(1).max(1);
    integers.enumerate().map(move |(at, x)| match &value.quantization {
        Quantization::PerTensor { scale, zero_point } => (x - *zero_point as f32) * scale,
        Quantization::PerChannel { scales, dim } => {
            let (_, len, inner) = value.shape.split_around(*dim);
            x * scales[at / inner.max(1) % len.max(1)]
        }
        Quantization::Blockwise { scales, block_size } => {
            x * scales[at / row * (row / block_size) + at % row / block_size]
        }
        Quantization::None | Quantization::Dynamic { .. } => x,
    })
}
