//! Parses one value.

use afferent_core::Error;
use afferent_flatbuffer::{ErrorKind, Scalar, Table, Vector};

use super::{
    constants::Constants,
    entry::Entry,
    schema::{
        BOOL, BOOL_LIST, CONTENT, DOUBLE, DOUBLE_LIST, INT, INT_LIST, NULL, STRING, SYM_INT,
        TENSOR, TENSOR_CONSTANT, TENSOR_DATATYPE, TENSOR_DIMS, VALUE, VALUE_LIST, VALUE_TYPE,
    },
};
use crate::{
    graph::{DataType, TensorSpec, Value},
    shape::{MAX_RANK, numel},
};

/// Parses the value at `index` of `count` values.
pub(super) fn read<'a>(
    constants: &mut Constants<'a, '_>,
    index: usize,
    count: usize,
    value: &Table<'a>,
) -> Result<Value<'a>, Error> {
    let at = Entry::value(index);
    let kind: u8 = at.read(value.scalar(VALUE_TYPE))?;
    let table = at.read(value.table(VALUE))?;
    if kind == NULL {
        return Ok(Value::Null);
    }
    let table = at.read(VALUE.required(table))?;
    Ok(match kind {
        INT => Value::Int(at.read(table.scalar(CONTENT))?),
        DOUBLE => Value::Double(at.read(table.scalar(CONTENT))?),
        BOOL => Value::Bool(at.read(table.scalar::<u8>(CONTENT))? != 0),
        TENSOR => Value::Tensor(tensor(constants, at, &table)?),
        INT_LIST => Value::IntList(list(at, &table, |list| list.iter().collect())?),
        DOUBLE_LIST => Value::DoubleList(list(at, &table, |list| list.iter().collect())?),
        BOOL_LIST => {
            let bytes = at.read(table.bytes(CONTENT))?.unwrap_or_default();
            Value::BoolList(bytes.iter().map(|byte| *byte != 0).collect())
        }
        VALUE_LIST => {
            let items: Vec<i32> = list(at, &table, |list| list.iter().collect())?;
            let items = items.iter().map(|item| at.read(CONTENT.index(*item, count)));
            let items: Result<Vec<u32>, Error> = items.collect();
            Value::List(items?.into_iter().map(|item| item as usize).collect())
        }
        STRING => Value::Str(at.read(table.name(CONTENT))?.unwrap_or_default()),
        SYM_INT => Value::SymInt(at.read(table.scalar::<i32>(CONTENT))?.into()),
        code => {
            let kind = ErrorKind::UnknownCode { code: code.into() };
            return at.read(Err(VALUE_TYPE.error(kind)));
        }
    })
}

fn list<'a, T: Scalar, R: Default>(
    at: Entry,
    table: &Table<'a>,
    collect: impl FnOnce(Vector<'a, T>) -> R,
) -> Result<R, Error> {
    Ok(at.read(table.vector::<T>(CONTENT))?.map(collect).unwrap_or_default())
}

fn tensor<'a>(
    constants: &mut Constants<'a, '_>,
    at: Entry,
    table: &Table<'a>,
) -> Result<TensorSpec<'a>, Error> {
    let datatype = match at.read(table.scalar::<u8>(TENSOR_DATATYPE))? {
        0 => DataType::Bool,
        1 => DataType::U8,
        2 => DataType::I8,
        3 => DataType::I32,
        4 => DataType::F16,
        5 => DataType::F32,
        6 => DataType::F64,
        7 => DataType::I64,
        _ => return Err(at.invalid(TENSOR_DATATYPE.1, "is no element type of this schema")),
    };
    let dims = at.read(table.vector::<u32>(TENSOR_DIMS))?;
    let dims: Vec<usize> = dims.into_iter().flatten().map(|dim| dim as usize).collect();
    at.expect(dims.len() <= MAX_RANK, TENSOR_DIMS, "has more than eight dimensions")?;
    let numel = numel(&dims).ok_or(at.invalid(TENSOR_DIMS.1, "exceed four gigabytes"))?;
    // An absent field is constant 0; a tensor that is no constant has -1.
    let id: i32 = at.read(table.scalar(TENSOR_CONSTANT))?;
    let constant = match usize::try_from(id) {
        Err(_) => None,
        Ok(id) => {
            let bytes = constants.get(at, TENSOR_CONSTANT, id)?;
            let needed = numel.saturating_mul(datatype.constant_bytes());
            // The exporter may pad constants.
            let bytes = bytes.get(..needed);
            Some(bytes.ok_or(at.invalid(TENSOR_CONSTANT.1, "has fewer bytes than its dims need"))?)
        }
    };
    Ok(TensorSpec { datatype, dims, constant })
}
