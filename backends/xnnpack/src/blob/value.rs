//! Parses the values of a subgraph.

use afferent_core::{Error, bf16};
use afferent_flatbuffer::{Field, Table};

use super::{
    entry::Entry,
    reader::Reader,
    schema::{
        CHANNEL_BUFFER, CHANNEL_COUNT, DATATYPES, GROUP_BUFFER, GROUP_COUNT, GROUP_SIZE,
        INVALID_VALUE_ID, QUANT_DIM, QUANT_SCALE, QUANT_ZERO_POINT, QUANTIZED_PARAMS,
        QUANTIZED_TYPE, QUANTIZED_VALUE, TOKEN_DIMS, UNION_TYPE, UNION_VALUE, VALUE_BUFFER,
        VALUE_DATATYPE, VALUE_DIMS, VALUE_DYNAMIC, VALUE_EXTERNAL, VALUE_FLAGS, VALUE_ID,
    },
};
use crate::{
    shape::{MAX_TENSOR_DIMS, Shape},
    subgraph::{Datatype, Quantization, Role, Value},
};

/// `XNN_VALUE_FLAG_EXTERNAL_INPUT`.
const FLAG_INPUT: u32 = 1;
/// `XNN_VALUE_FLAG_EXTERNAL_OUTPUT`.
const FLAG_OUTPUT: u32 = 2;

/// Reads a value and registers its id.
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
            let tensor = at.read(union.table(QUANTIZED_VALUE))?;
            let kind = at.read(union.scalar::<u8>(QUANTIZED_TYPE))?;
            let params = at.read(union.table(QUANTIZED_PARAMS))?;
            let params = at.read(QUANTIZED_PARAMS.required(params))?;
            (at.read(QUANTIZED_VALUE.required(tensor))?, Some((kind, params)))
        }
        _ => return Err(at.invalid(UNION_TYPE, "is not a known value type")),
    };
    let shape = shape(at, &tensor)?;
    let code = at.read(tensor.scalar::<i16>(VALUE_DATATYPE))?;
    let datatype = datatype(at, code)?;
    let index = at.read(tensor.scalar::<u32>(VALUE_BUFFER))?;
    let data = reader.constants.get(&mut reader.constant_use, at, VALUE_BUFFER, index)?;
    let quantization = match params {
        Some((kind, params)) => quantization(reader, at, kind, &params, &shape)?,
        None => Quantization::None,
    };
    at.expect(is_allowed(datatype, &quantization), QUANTIZED_TYPE, "does not match the datatype")?;
    let data = match data {
        Some(data) => {
            let bytes = constant_bytes(datatype, &shape)?;
            let reason = "is shared by too many values";
            at.expect(reader.constant_use.count(data), VALUE_BUFFER, reason)?;
            let bytes = data.get(..bytes);
            Some(bytes.ok_or(at.invalid(VALUE_BUFFER, "has fewer bytes than `dims` requires"))?)
        }
        None => None,
    };
    let role = role(at, &tensor)?;
    check_role(at, datatype, data, role)?;
    let dynamic = at.read(tensor.scalar::<i16>(VALUE_DYNAMIC))?;
    at.expect(matches!(dynamic, 0 | 3), VALUE_DYNAMIC, "must be qint8")?;
    at.expect(
        dynamic == 0
            || matches!((role, datatype), (Role::Input(_), Datatype::Fp32 | Datatype::Fp16)),
        VALUE_DYNAMIC,
        "is set for a value that is not an fp32 or fp16 input",
    )?;
    let id = at.read(tensor.scalar::<u32>(VALUE_ID))?;
    let index = reader.values.len();
    let is_new = id != INVALID_VALUE_ID && reader.ids.insert(id, index).is_none();
    at.expect(is_new, VALUE_ID, "is not unique")?;
    let is_dynamically_quantized = dynamic != 0;
    Ok(Value { datatype, shape, data, quantization, role, is_dynamically_quantized })
}

/// Checks the combinations of datatype, constant data and role.
fn check_role(at: Entry, datatype: Datatype, data: Option<&[u8]>, role: Role) -> Result<(), Error> {
    let is_internal = role == Role::Internal;
    at.expect(data.is_none() || is_internal, VALUE_FLAGS, "make a constant an input or an output")?;
    if data.is_none() && datatype == Datatype::Qint4 {
        return Err(
            at.unsupported("datatype", "qcint4 or qbint4 of a value that is not a constant")
        );
    }
    at.expect(
        data.is_none() || datatype != Datatype::Qdint8,
        VALUE_BUFFER,
        "is set for a value of datatype qdint8",
    )?;
    if datatype == Datatype::Qdint8 && !is_internal {
        return Err(at.unsupported("datatype", "qdint8 of an input or an output"));
    }
    Ok(())
}

fn shape(at: Entry, tensor: &Table<'_>) -> Result<Shape, Error> {
    let dims = at.read(tensor.vector::<u32>(VALUE_DIMS))?;
    let mut sizes = [0; MAX_TENSOR_DIMS];
    let mut rank = 0;
    for dim in dims.iter().flat_map(|dims| dims.iter()) {
        at.expect(rank < MAX_TENSOR_DIMS, VALUE_DIMS, "has more than 6 sizes")?;
        sizes[rank] = dim as usize;
        rank += 1;
    }
    let shape = Shape::new(&sizes[..rank]).unwrap_or_default();
    shape.numel().map_err(|_| at.invalid(VALUE_DIMS, "is too large"))?;
    Ok(shape)
}

fn datatype(at: Entry, code: i16) -> Result<Datatype, Error> {
    Ok(match code {
        1 => Datatype::Fp32,
        2 => Datatype::Fp16,
        3 | 6 => Datatype::Qint8,
        5 | 7 | 12 => Datatype::Int32,
        8 | 10 => Datatype::Qint4,
        9 => Datatype::Qdint8,
        14 => Datatype::Bf16,
        code => {
            let name = usize::try_from(code).ok().and_then(|code| DATATYPES.get(code));
            return Err(at.unsupported("datatype", name.unwrap_or(&"of unknown number")));
        }
    })
}

/// Returns true if the datatype allows this quantization.
fn is_allowed(datatype: Datatype, quantization: &Quantization) -> bool {
    use Quantization::{Blockwise, Dynamic, None, PerChannel, PerTensor};
    match datatype {
        Datatype::Fp32 | Datatype::Fp16 | Datatype::Bf16 => *quantization == None,
        Datatype::Qint8 => matches!(quantization, PerTensor { .. } | PerChannel { .. }),
        Datatype::Int32 => matches!(quantization, None | PerTensor { .. } | PerChannel { .. }),
        Datatype::Qint4 => matches!(quantization, Blockwise { .. } | PerChannel { .. }),
        Datatype::Qdint8 => matches!(quantization, Dynamic { .. }),
    }
}

/// Bytes of a constant.
fn constant_bytes(datatype: Datatype, shape: &Shape) -> Result<usize, Error> {
    let numel = shape.numel()?;
    Ok(match datatype {
        Datatype::Fp32 | Datatype::Int32 => numel * 4,
        Datatype::Fp16 | Datatype::Bf16 => numel * 2,
        Datatype::Qint8 | Datatype::Qdint8 => numel,
        // Each row starts at a byte.
        Datatype::Qint4 => {
            let row = shape.last().copied().unwrap_or(1);
            numel.checked_div(row).unwrap_or(0) * row.div_ceil(2)
        }
    })
}

fn role(at: Entry, tensor: &Table<'_>) -> Result<Role, Error> {
    let external = at.read(tensor.scalar::<u32>(VALUE_EXTERNAL))? as usize;
    match at.read(tensor.scalar::<u32>(VALUE_FLAGS))? {
        0 => Ok(Role::Internal),
        FLAG_INPUT => Ok(Role::Input(external)),
        FLAG_OUTPUT => Ok(Role::Output(external)),
        _ => Err(at.invalid(VALUE_FLAGS, "must be 0, 1 (input) or 2 (output)")),
    }
}

/// Reads the quantization parameters of union type `kind`.
fn quantization<'a>(
    reader: &mut Reader<'a, '_>,
    at: Entry,
    kind: u8,
    params: &Table<'a>,
    shape: &Shape,
) -> Result<Quantization, Error> {
    match kind {
        1 => {
            let dim = at.read(params.scalar::<i32>(QUANT_DIM))?;
            let dim = usize::try_from(dim).ok().filter(|dim| *dim < shape.len());
            let dim = dim.ok_or(at.invalid(QUANT_DIM, "is not a dimension of the tensor"))?;
            let fields =
                ScaleFields { buffer: CHANNEL_BUFFER, count: CHANNEL_COUNT, is_bf16: false };
            let scales = scales(reader, at, params, fields, shape[dim])?;
            Ok(Quantization::PerChannel { scales, dim })
        }
        2 => {
            let scale = at.read(params.scalar::<f32>(QUANT_SCALE))?;
            let is_positive = scale.is_finite() && scale > 0.0;
            at.expect(is_positive, QUANT_SCALE, "must be a positive number")?;
            let zero_point = at.read(params.scalar::<i32>(QUANT_ZERO_POINT))?;
            let is_int8 = i8::try_from(zero_point).is_ok();
            at.expect(is_int8, QUANT_ZERO_POINT, "must be between -128 and 127")?;
            Ok(Quantization::PerTensor { scale, zero_point })
        }
        3 => {
            let dims = at.read(params.scalar::<i32>(TOKEN_DIMS))?;
            let dims = usize::try_from(dims).ok().filter(|dims| (1..=shape.len()).contains(dims));
            let reason = "must be between 1 and the rank of the tensor";
            Ok(Quantization::Dynamic { dims: dims.ok_or(at.invalid(TOKEN_DIMS, reason))? })
        }
        4 => {
            let size = at.read(params.scalar::<i32>(GROUP_SIZE))?;
            let &[rows, cols] = &**shape else {
                return Err(at.invalid(VALUE_DIMS, "must have 2 sizes for blockwise quantization"));
            };
            let size = usize::try_from(size)
                .ok()
                .filter(|size| *size > 0 && size.is_multiple_of(2) && cols.is_multiple_of(*size));
            let reason = "must be even and divide the input channels";
            let block_size = size.ok_or(at.invalid(GROUP_SIZE, reason))?;
            let count = rows.checked_mul(cols / block_size);
            let count = count.ok_or(at.invalid(VALUE_DIMS, "is too large"))?;
            let fields = ScaleFields { buffer: GROUP_BUFFER, count: GROUP_COUNT, is_bf16: true };
            let scales = scales(reader, at, params, fields, count)?;
            Ok(Quantization::Blockwise { scales, block_size })
        }
        _ => Err(at.invalid(QUANTIZED_TYPE, "is not a known quantization")),
    }
}

/// Fields that locate scales outside of the table.
struct ScaleFields {
    buffer: Field,
    count: Field,
    /// True if scales are bf16, false if they are f32.
    is_bf16: bool,
}

/// Reads `count` scales from a constant, or from the list in the table if there is no constant.
fn scales<'a>(
    reader: &mut Reader<'a, '_>,
    at: Entry,
    params: &Table<'a>,
    ScaleFields { buffer, count: count_field, is_bf16 }: ScaleFields,
    count: usize,
) -> Result<Vec<f32>, Error> {
    const SHARED: &str = "is shared by too many values";
    let index = at.read(params.scalar::<u32>(buffer))?;
    let constant = reader.constants.get(&mut reader.constant_use, at, buffer, index)?;
    let scales: Vec<f32> = if let Some(bytes) = constant {
        let width = if is_bf16 { 2 } else { 4 };
        let stated = at.read(params.scalar::<u32>(count_field))? as usize;
        at.expect(stated == count, count_field, "does not match `dims`")?;
        let bytes = count.checked_mul(width).and_then(|len| bytes.get(..len));
        let bytes = bytes.ok_or(at.invalid(buffer, "has fewer scales than `dims` requires"))?;
        at.expect(reader.constant_use.count(bytes), buffer, SHARED)?;
        if is_bf16 {
            let (halves, _) = bytes.as_chunks();
            halves.iter().map(|half| bf16::from_le_bytes(*half).to_f32()).collect()
        } else {
            let (words, _) = bytes.as_chunks();
            words.iter().map(|word| f32::from_le_bytes(*word)).collect()
        }
    } else {
        let list = at.read(params.vector_bytes(QUANT_SCALE, 4))?;
        let bytes = list.map_or(&[][..], |(_, bytes)| bytes);
        at.expect(
            bytes.len() / 4 == count,
            QUANT_SCALE,
            "has a length that does not match `dims`",
        )?;
        at.expect(reader.constant_use.count(bytes), QUANT_SCALE, SHARED)?;
        let (words, _) = bytes.as_chunks();
        let scales = words.iter().map(|word| f32::from_le_bytes(*word));
        scales.map(|scale| if is_bf16 { bf16::from_f32(scale).to_f32() } else { scale }).collect()
    };
    let are_finite = scales.iter().all(|scale| scale.is_finite());
    at.expect(are_finite, QUANT_SCALE, "must be finite numbers")?;
    Ok(scales)
}
