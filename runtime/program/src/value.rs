//! The values of a method.

use crate::{
    error::{Fault, Read},
    plan::MethodPlan,
    schema::*,
    tensor::TensorMeta,
};
use afferent_flatbuffer::{Field, List, Number, Table, to_u32};

/// A value of a method as the file describes it, as ExecuTorch `EValue`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// An absent optional, or a number that is known only when the method runs.
    None,
    /// An integer.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// A floating-point number.
    Double(f64),
    /// A tensor.
    Tensor(TensorMeta<'a>),
    /// A string.
    Str(&'a str),
    /// Integers: numbers of values that are an int, a bool or none.
    IntList(List<'a, u32>),
    /// Floating-point numbers.
    DoubleList(List<'a, f64>),
    /// Truth values, one byte each, true when it is not zero.
    BoolList(&'a [u8]),
    /// Tensors: numbers of values that are tensors.
    TensorList(List<'a, u32>),
    /// Tensors, some absent: numbers of values that are a tensor or none, or `EValue::ABSENT`.
    OptionalTensorList(List<'a, u32>),
}

impl<'a> Value<'a> {
    /// All of it is checked but the entries of lists.
    pub(crate) fn read(plan: &MethodPlan<'a>, index: usize) -> Read<Self> {
        let evalue = plan.value_tables().get(index)?;
        let kind = Kind::of(&evalue)?;
        if kind == Kind::None {
            return Ok(Self::None);
        }
        let table = EVALUE_VAL.required(evalue.table(EVALUE_VAL)?)?;
        Ok(match kind {
            Kind::None => Self::None,
            Kind::Int => Self::Int(table.number(INT_VAL)?),
            Kind::Bool => Self::Bool(table.number::<u8>(BOOL_VAL)? != 0),
            Kind::Double => Self::Double(table.number(DOUBLE_VAL)?),
            Kind::Tensor => Self::Tensor(TensorMeta::read(plan, &table)?),
            Kind::Str => Self::Str(STRING_VAL.required(table.text(STRING_VAL)?)?),
            Kind::IntList => Self::IntList(list::<i64>(&table, INT_LIST_ITEMS)?.convert(to_u32)),
            Kind::DoubleList => Self::DoubleList(list(&table, DOUBLE_LIST_ITEMS)?),
            Kind::BoolList => {
                Self::BoolList(BOOL_LIST_ITEMS.required(table.bytes(BOOL_LIST_ITEMS)?)?)
            }
            Kind::TensorList => {
                Self::TensorList(list::<i32>(&table, TENSOR_LIST_ITEMS)?.convert(to_u32))
            }
            Kind::OptionalTensorList => {
                let items = list::<i32>(&table, OPTIONAL_TENSOR_LIST_ITEMS)?;
                Self::OptionalTensorList(items.convert(to_u32))
            }
        })
    }
}

pub(crate) fn list<'a, T: Number>(table: &Table<'a>, field: Field) -> Read<List<'a, T>> {
    field.required(table.list(field)?)
}

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
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

impl Kind {
    /// The kind of the value at `index`.
    pub(crate) fn read(plan: &MethodPlan<'_>, index: u32) -> Read<Self> {
        Self::of(&plan.value_tables().get(index as usize)?)
    }

    pub(crate) fn of(evalue: &Table<'_>) -> Read<Self> {
        Ok(match evalue.number::<u8>(EVALUE_TYPE)? {
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
            code => return Err(EVALUE_TYPE.fault(Fault::UnknownCode { code: code.into() })),
        })
    }

    /// Whether it is a number or none: an instruction may replace one such by another.
    pub(crate) const fn is_scalar(self) -> bool {
        matches!(self, Self::None | Self::Int | Self::Bool | Self::Double)
    }
}
