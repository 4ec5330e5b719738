//! Values of a method.

use crate::{
    error::{ErrorKind, FieldResult},
    plan::MethodPlan,
    schema::*,
    tensor::TensorMeta,
};
use afferent_flatbuffer::{Field, Scalar, Table, Vector, to_u32};

/// Value of a method as stored in the file, as ExecuTorch `EValue`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// Absent optional, or a scalar that is computed at run time.
    None,
    /// Integer.
    Int(i64),
    /// Boolean.
    Bool(bool),
    /// Floating-point number.
    Double(f64),
    /// Tensor.
    Tensor(TensorMeta<'a>),
    /// String.
    Str(&'a str),
    /// Integers: indices of values that are an int, a bool or none.
    IntList(Vector<'a, u32>),
    /// Floating-point numbers.
    DoubleList(Vector<'a, f64>),
    /// Booleans, one byte each; any value except 0 is true.
    BoolList(&'a [u8]),
    /// Tensors: indices of values that are tensors.
    TensorList(Vector<'a, u32>),
    /// Optional tensors: indices of values that are a tensor or none, or `EValue::ABSENT`.
    OptionalTensorList(Vector<'a, u32>),
}

impl<'a> Value<'a> {
    /// Checks everything except the entries of lists.
    pub(crate) fn read(plan: &MethodPlan<'a>, index: usize) -> FieldResult<Self> {
        let evalue = plan.value_tables().get(index)?;
        let value_type = ValueType::of(&evalue)?;
        if value_type == ValueType::None {
            return Ok(Self::None);
        }
        let table = EVALUE_VAL.required(evalue.table(EVALUE_VAL)?)?;
        Ok(match value_type {
            ValueType::None => Self::None,
            ValueType::Int => Self::Int(table.scalar(INT_VAL)?),
            ValueType::Bool => Self::Bool(table.scalar::<u8>(BOOL_VAL)? != 0),
            ValueType::Double => Self::Double(table.scalar(DOUBLE_VAL)?),
            ValueType::Tensor => Self::Tensor(TensorMeta::read(plan, &table)?),
            ValueType::Str => Self::Str(STRING_VAL.required(table.string(STRING_VAL)?)?),
            ValueType::IntList => {
                Self::IntList(required_vector::<i64>(&table, INT_LIST_ITEMS)?.convert(to_u32))
            }
            ValueType::DoubleList => Self::DoubleList(required_vector(&table, DOUBLE_LIST_ITEMS)?),
            ValueType::BoolList => {
                Self::BoolList(BOOL_LIST_ITEMS.required(table.bytes(BOOL_LIST_ITEMS)?)?)
            }
            ValueType::TensorList => {
                Self::TensorList(required_vector::<i32>(&table, TENSOR_LIST_ITEMS)?.convert(to_u32))
            }
            ValueType::OptionalTensorList => {
                let items = required_vector::<i32>(&table, OPTIONAL_TENSOR_LIST_ITEMS)?;
                Self::OptionalTensorList(items.convert(to_u32))
            }
        })
    }
}

pub(crate) fn required_vector<'a, T: Scalar>(
    table: &Table<'a>,
    field: Field,
) -> FieldResult<Vector<'a, T>> {
    field.required(table.vector(field)?)
}

/// Type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueType {
    None,
    Int,
    Bool,
    Double,
    Tensor,
    Str,
    IntList,
    DoubleList,
    BoolList,
    TensorList,
    OptionalTensorList,
}

impl ValueType {
    /// Type of the value at `index`.
    pub(crate) fn read(plan: &MethodPlan<'_>, index: u32) -> FieldResult<Self> {
        Self::of(&plan.value_tables().get(index as usize)?)
    }

    pub(crate) fn of(evalue: &Table<'_>) -> FieldResult<Self> {
        Ok(match evalue.scalar::<u8>(EVALUE_TYPE)? {
            1 => Self::None,
            2 => Self::Int,
            3 => Self::Bool,
            4 => Self::Double,
            5 => Self::Tensor,
            6 => Self::Str,
            7 => Self::IntList,
            8 => Self::DoubleList,
            9 => Self::BoolList,
            10 => Self::TensorList,
            11 => Self::OptionalTensorList,
            code => return Err(EVALUE_TYPE.error(ErrorKind::UnknownCode { code: code.into() })),
        })
    }

    /// True for numbers, bools and none. A move may assign any of these types to another.
    pub(crate) const fn is_scalar(self) -> bool {
        matches!(self, Self::None | Self::Int | Self::Bool | Self::Double)
    }
}
