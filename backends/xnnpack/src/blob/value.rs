//! Values of a graph.

use afferent_core::{Error, bf16};
use afferent_flatbuffer::{Field, Table};

use super::{Entry, NONE, Reader, schema::*};
use crate::{
    graph::{Dtype, Quant, Role, Value},
    shape::{MOST_DIMS, Shape},
};

const FLAG_INPUT: u32 = 1;
const FLAG_OUTPUT: u32 = 2;

/// Reads a value and gives it its number.
pub(super) fn read<'a>(
    reader: &mut Reader<'a, '_>,
    at: Entry,
    table: &Table<'a>,
) -> Result<Value<'a>, Error> {
    let union = at.read(table.table(UNION_VALUE))?;
    let union = at.read(UNION_VALUE.required(union))?;
    let (tensor, params) = match at.read(table.scalar::<u8>(UNION_TYPE))? {
        1 => (union, None),
        2 => {
            let tensor = at.read(union.table(QUANTISED_VALUE))?;
            let kind = at.read(union.scalar::<u8>(QUANTISED_TYPE))?;
            let params = at.read(union.table(QUANTISED_PARAMS))?;
            let params = at.read(QUANTISED_PARAMS.required(params))?;
            (at.read(QUANTISED_VALUE.required(tensor))?, Some((kind, params)))
        }
        _ => return Err(at.fault(UNION_TYPE, "is of no known kind")),
    };
    let shape = shape(at, &tensor)?;
    let code = at.read(tensor.scalar::<i16>(VALUE_DATATYPE))?;
    let dtype = dtype(at, code)?;
    let index = at.read(tensor.scalar::<u32>(VALUE_BUFFER))?;
    let data = reader.constants.get(&mut reader.budget, at, VALUE_BUFFER, index)?;
    let quant = match params {
        Some((kind, params)) => quant(reader, at, kind, &params, &shape)?,
        None => Quant::None,
    };
    at.expect(fits(dtype, &quant), QUANTISED_TYPE, "does not belong to the datatype")?;
    let data = match data {
        Some(data) => {
            let bytes = constant_bytes(dtype, &shape)?;
            at.expect(reader.budget.pay(data), VALUE_BUFFER, "is used too often")?;
            let bytes = data.get(..bytes);
            Some(bytes.ok_or(at.fault(VALUE_BUFFER, "has fewer bytes than its dims say"))?)
        }
        None => None,
    };
    let role = role(at, &tensor)?;
    let is_inner = role == Role::Inner;
    at.expect(data.is_none() || is_inner, VALUE_FLAGS, "make an argument of a constant")?;
    if data.is_none() && dtype == Dtype::I4 {
        return Err(at.unsupported("integers of 4 bits that are no constant"));
    }
    at.expect(
        data.is_none() || dtype != Dtype::Dynamic,
        VALUE_BUFFER,
        "makes a constant of dynamic integers",
    )?;
    if dtype == Dtype::Dynamic && !is_inner {
        return Err(at.unsupported("dynamically quantised arguments"));
    }
    let dynamic = at.read(tensor.scalar::<i16>(VALUE_DYNAMIC))?;
    at.expect(matches!(dynamic, 0 | 3), VALUE_DYNAMIC, "is not qint8")?;
    at.expect(
        dynamic == 0 || matches!((role, dtype), (Role::Input(_), Dtype::F32 | Dtype::F16)),
        VALUE_DYNAMIC,
        "is for inputs only",
    )?;
    let id = at.read(tensor.scalar::<u32>(VALUE_ID))?;
    let place = reader.values.len();
    at.expect(id != NONE && reader.ids.insert(id, place).is_none(), VALUE_ID, "is not unique")?;
    Ok(Value { dtype, shape, data, quant, role, quantised: dynamic != 0 })
}

fn shape(at: Entry, tensor: &Table<'_>) -> Result<Shape, Error> {
    let dims = at.read(tensor.vector::<u32>(VALUE_DIMS))?;
    let mut sizes = [0; MOST_DIMS];
    let mut rank = 0;
    for dim in dims.iter().flat_map(|dims| dims.iter()) {
        at.expect(rank < MOST_DIMS, VALUE_DIMS, "are more than six")?;
        sizes[rank] = dim as usize;
        rank += 1;
    }
    let shape = Shape::new(&sizes[..rank]).unwrap_or_default();
    shape.numel().map_err(|_| at.fault(VALUE_DIMS, "are too large"))?;
    Ok(shape)
}

fn dtype(at: Entry, code: i16) -> Result<Dtype, Error> {
    Ok(match code {
        1 => Dtype::F32,
        2 => Dtype::F16,
        3 | 6 => Dtype::I8,
        5 | 7 | 12 => Dtype::I32,
        8 | 10 => Dtype::I4,
        9 => Dtype::Dynamic,
        14 => Dtype::Bf16,
        code => {
            let name = usize::try_from(code).ok().and_then(|code| DATATYPES.get(code));
            return Err(at.unsupported(name.unwrap_or(&"an unknown datatype")));
        }
    })
}

/// Whether elements of this type can have these parameters.
fn fits(dtype: Dtype, quant: &Quant) -> bool {
    match dtype {
        Dtype::F32 | Dtype::F16 | Dtype::Bf16 => *quant == Quant::None,
        Dtype::I8 => matches!(quant, Quant::Tensor { .. } | Quant::Channel { .. }),
        Dtype::I32 => matches!(quant, Quant::None | Quant::Tensor { .. } | Quant::Channel { .. }),
        Dtype::I4 => matches!(quant, Quant::Blocks { .. } | Quant::Channel { .. }),
        Dtype::Dynamic => matches!(quant, Quant::Dynamic { .. }),
    }
}

/// Bytes of a constant.
fn constant_bytes(dtype: Dtype, shape: &Shape) -> Result<usize, Error> {
    let numel = shape.numel()?;
    Ok(match dtype {
        Dtype::F32 | Dtype::I32 => numel * 4,
        Dtype::F16 | Dtype::Bf16 => numel * 2,
        Dtype::I8 | Dtype::Dynamic => numel,
        Dtype::I4 => {
            let row = shape.last().copied().unwrap_or(1);
            numel.checked_div(row).unwrap_or(0) * row.div_ceil(2)
        }
    })
}

fn role(at: Entry, tensor: &Table<'_>) -> Result<Role, Error> {
    let external = at.read(tensor.scalar::<u32>(VALUE_EXTERNAL))? as usize;
    match at.read(tensor.scalar::<u32>(VALUE_FLAGS))? {
        0 => Ok(Role::Inner),
        FLAG_INPUT => Ok(Role::Input(external)),
        FLAG_OUTPUT => Ok(Role::Output(external)),
        _ => Err(at.fault(VALUE_FLAGS, "are neither of an input nor of an output")),
    }
}

fn quant<'a>(
    reader: &mut Reader<'a, '_>,
    at: Entry,
    kind: u8,
    params: &Table<'a>,
    shape: &Shape,
) -> Result<Quant, Error> {
    match kind {
        1 => {
            let dim = at.read(params.scalar::<i32>(QUANT_DIM))?;
            let dim = usize::try_from(dim).ok().filter(|dim| *dim < shape.len());
            let dim = dim.ok_or(at.fault(QUANT_DIM, "is no dimension"))?;
            let buffer = (CHANNEL_BUFFER, CHANNEL_COUNT, false);
            let scales = scales(reader, at, params, buffer, shape[dim])?;
            Ok(Quant::Channel { scales, dim })
        }
        2 => {
            let scale = at.read(params.scalar::<f32>(QUANT_SCALE))?;
            at.expect(is_scale(scale), QUANT_SCALE, "is not a positive number")?;
            let zero_point = at.read(params.scalar::<i32>(QUANT_ZERO_POINT))?;
            let fits = i8::try_from(zero_point).is_ok();
            at.expect(fits, QUANT_ZERO_POINT, "is outside of the range of int8")?;
            Ok(Quant::Tensor { scale, zero_point })
        }
        3 => {
            let dims = at.read(params.scalar::<i32>(TOKEN_DIMS))?;
            let dims = usize::try_from(dims).ok().filter(|dims| (1..=shape.len()).contains(dims));
            Ok(Quant::Dynamic { dims: dims.ok_or(at.fault(TOKEN_DIMS, "is no count of dims"))? })
        }
        4 => {
            let size = at.read(params.scalar::<i32>(GROUP_SIZE))?;
            let &[rows, cols] = &**shape else {
                return Err(at.fault(VALUE_DIMS, "are not rows and columns"));
            };
            let size = usize::try_from(size)
                .ok()
                .filter(|size| *size > 0 && size.is_multiple_of(2) && cols.is_multiple_of(*size));
            let size = size.ok_or(at.fault(GROUP_SIZE, "does not divide a row"))?;
            let count = rows.checked_mul(cols / size);
            let count = count.ok_or(at.fault(VALUE_DIMS, "are too large"))?;
            let scales = scales(reader, at, params, (GROUP_BUFFER, GROUP_COUNT, true), count)?;
            Ok(Quant::Blocks { scales, size })
        }
        _ => Err(at.fault(QUANTISED_TYPE, "is of no known kind")),
    }
}

fn is_scale(scale: f32) -> bool {
    scale.is_finite() && scale > 0.0
}

/// `count` scales: of the list, or of a constant of `f32` or `bf16`.
fn scales<'a>(
    reader: &mut Reader<'a, '_>,
    at: Entry,
    params: &Table<'a>,
    (buffer, number, is_half): (Field, Field, bool),
    count: usize,
) -> Result<Vec<f32>, Error> {
    let index = at.read(params.scalar::<u32>(buffer))?;
    let scales: Vec<f32> = match reader.constants.get(&mut reader.budget, at, buffer, index)? {
        Some(bytes) => {
            let width = if is_half { 2 } else { 4 };
            let stated = at.read(params.scalar::<u32>(number))? as usize;
            at.expect(stated == count, number, "differs from the dims")?;
            let bytes = count.checked_mul(width).and_then(|len| bytes.get(..len));
            let bytes = bytes.ok_or(at.fault(buffer, "has fewer scales than the dims say"))?;
            at.expect(reader.budget.pay(bytes), buffer, "is used too often")?;
            if is_half {
                let (halves, _) = bytes.as_chunks();
                halves.iter().map(|half| bf16::from_le_bytes(*half).to_f32()).collect()
            } else {
                let (words, _) = bytes.as_chunks();
                words.iter().map(|word| f32::from_le_bytes(*word)).collect()
            }
        }
        None => {
            let place = at.read(params.vector_bytes(QUANT_SCALE, 4))?;
            let bytes = place.map_or(&[][..], |(_, bytes)| bytes);
            at.expect(bytes.len() / 4 == count, QUANT_SCALE, "has another length than the dims")?;
            at.expect(reader.budget.pay(bytes), QUANT_SCALE, "is used too often")?;
            let (words, _) = bytes.as_chunks();
            let scales = words.iter().map(|word| f32::from_le_bytes(*word));
            scales
                .map(|scale| if is_half { bf16::from_f32(scale).to_f32() } else { scale })
                .collect()
        }
    };
    let fine = scales.iter().all(|scale| scale.is_finite());
    at.expect(fine, QUANT_SCALE, "holds what is no number")?;
    Ok(scales)
}
