//! The values of a method.

/// A value of a loaded method, as in ExecuTorch `EValue`.
///
/// Lists of integers and of tensors hold the numbers of other values, because their elements may
/// be computed while the method runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum EValue<'a> {
    /// An absent optional.
    None,
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Double(f64),
    /// A truth value.
    Bool(bool),
    /// A string.
    Str(&'a str),
    /// A tensor: its place among the tensor slots of the method.
    Tensor(u32),
    /// Integers: the numbers of the values that hold them.
    IntList(&'a [u32]),
    /// Floating-point numbers.
    DoubleList(&'a [f64]),
    /// Truth values, one byte each, true when it is not zero.
    BoolList(&'a [u8]),
    /// Tensors: the numbers of the values that hold them.
    TensorList(&'a [u32]),
    /// As `TensorList`, but an element may be `None`, written as [`EValue::ABSENT`].
    OptionalTensorList(&'a [u32]),
}

impl EValue<'_> {
    /// Stands for `None` in an [`EValue::OptionalTensorList`].
    pub const ABSENT: u32 = u32::MAX;

    /// Name of the kind, for messages.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Int(_) => "an int",
            Self::Double(_) => "a double",
            Self::Bool(_) => "a bool",
            Self::Str(_) => "a string",
            Self::Tensor(_) => "a tensor",
            Self::IntList(_) => "a list of ints",
            Self::DoubleList(_) => "a list of doubles",
            Self::BoolList(_) => "a list of bools",
            Self::TensorList(_) => "a list of tensors",
            Self::OptionalTensorList(_) => "a list of optional tensors",
        }
    }
}

/// A number of any kind, as ATen `Scalar`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scalar {
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Double(f64),
    /// A truth value.
    Bool(bool),
}

impl Scalar {
    /// As a floating-point number.
    pub fn to_f64(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::Double(value) => value,
            Self::Bool(value) => f64::from(u8::from(value)),
        }
    }

    /// As an integer, truncated; a number out of range becomes the nearest one in range.
    pub fn to_i64(self) -> i64 {
        match self {
            Self::Int(value) => value,
            Self::Double(value) => value as i64,
            Self::Bool(value) => i64::from(value),
        }
    }

    /// As a truth value: whether it is not zero.
    pub fn to_bool(self) -> bool {
        match self {
            Self::Int(value) => value != 0,
            Self::Double(value) => value != 0.0,
            Self::Bool(value) => value,
        }
    }

    /// As the value of a method.
    pub const fn to_value(self) -> EValue<'static> {
        match self {
            Self::Int(value) => EValue::Int(value),
            Self::Double(value) => EValue::Double(value),
            Self::Bool(value) => EValue::Bool(value),
        }
    }
}
