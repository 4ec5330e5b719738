//! Values of a method.

/// A value of a loaded method, as in ExecuTorch `EValue`.
///
/// Lists of integers and of tensors hold value indices, because their elements may be computed
/// while the method runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum EValue<'a> {
    /// An absent optional.
    None,
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Double(f64),
    /// A boolean.
    Bool(bool),
    /// A string.
    Str(&'a str),
    /// A tensor: index into the tensor slots of the method.
    Tensor(u32),
    /// Integers: indices of the values that hold them.
    IntList(&'a [u32]),
    /// Floating-point numbers.
    DoubleList(&'a [f64]),
    /// Booleans, one byte each; nonzero means true.
    BoolList(&'a [u8]),
    /// Tensors: indices of the values that hold them.
    TensorList(&'a [u32]),
    /// As `TensorList`; [`EValue::ABSENT`] marks an element that is `None`.
    OptionalTensorList(&'a [u32]),
}

impl EValue<'_> {
    /// Index that marks an absent element of an [`EValue::OptionalTensorList`].
    pub const ABSENT: u32 = u32::MAX;

    /// Name of the kind, for error messages.
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
    /// A boolean.
    Bool(bool),
}

impl Scalar {
    /// Converts to a floating-point number.
    #[inline]
    pub fn to_f64(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::Double(value) => value,
            Self::Bool(value) => f64::from(u8::from(value)),
        }
    }

    /// Converts to an integer: truncates toward zero and saturates.
    #[inline]
    pub fn to_i64(self) -> i64 {
        match self {
            Self::Int(value) => value,
            Self::Double(value) => value as i64,
            Self::Bool(value) => i64::from(value),
        }
    }

    /// Converts to a boolean: true if the number is not zero.
    #[inline]
    pub fn to_bool(self) -> bool {
        match self {
            Self::Int(value) => value != 0,
            Self::Double(value) => value != 0.0,
            Self::Bool(value) => value,
        }
    }

    /// Converts to a value of a method.
    pub const fn to_value(self) -> EValue<'static> {
        match self {
            Self::Int(value) => EValue::Int(value),
            Self::Double(value) => EValue::Double(value),
            Self::Bool(value) => EValue::Bool(value),
        }
    }
}
