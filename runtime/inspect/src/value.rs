//! Owned inputs and outputs of a method.

use afferent_core::{Dynamism, Error, Tensor};
use afferent_runtime::{
    Input, Output,
    program::{MethodPlan, TestValue, Value},
};

/// Owned input or output of a method.
#[derive(Debug, Clone)]
pub enum OwnedValue {
    /// A tensor.
    Tensor(Tensor),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Double(f64),
    /// A boolean.
    Bool(bool),
    /// An absent optional.
    None,
}

impl OwnedValue {
    /// Copies a value of a bundled test case.
    ///
    /// # Errors
    /// [`Error::InvalidTensor`] if the layout does not match the data.
    pub fn from_test_value(value: TestValue<'_>) -> Result<Self, Error> {
        Ok(match value {
            TestValue::Tensor(layout, data) => {
                let sizes: Vec<usize> = layout.sizes.iter().collect();
                let tensor = Tensor::from_bytes(layout.dtype, &sizes, layout.dim_order, data);
                Self::Tensor(tensor?)
            }
            TestValue::Int(value) => Self::Int(value),
            TestValue::Bool(value) => Self::Bool(value),
            TestValue::Double(value) => Self::Double(value),
        })
    }

    /// Borrows the value as an input.
    pub fn as_input(&self) -> Input<'_> {
        match self {
            Self::Tensor(tensor) => Input::Tensor(tensor.view()),
            Self::Int(value) => Input::Int(*value),
            Self::Double(value) => Input::Double(*value),
            Self::Bool(value) => Input::Bool(*value),
            Self::None => Input::None,
        }
    }

    /// Borrows the value as an output, for example an expected one.
    pub fn as_output(&self) -> Output<'_> {
        match self {
            Self::Tensor(tensor) => Output::Tensor(tensor.view()),
            Self::Int(value) => Output::Int(*value),
            Self::Double(value) => Output::Double(*value),
            Self::Bool(value) => Output::Bool(*value),
            Self::None => Output::None,
        }
    }
}

/// Describes a value of a method in words, for example `f32[1, 576]`.
pub fn describe(plan: &MethodPlan<'_>, value: u32) -> String {
    match plan.value(value as usize) {
        Value::Tensor(meta) => {
            let sizes: Vec<String> = meta.layout.sizes.iter().map(|n| n.to_string()).collect();
            let dynamism = match meta.dynamism {
                Dynamism::Static => "",
                Dynamism::Bounded => " at most",
                Dynamism::Unbounded => " unbounded",
            };
            let order = meta.layout.dim_order;
            let order =
                if order.is_sorted() { String::new() } else { format!(" dim order {order:?}") };
            format!("{}[{}]{dynamism}{order}", meta.layout.dtype, sizes.join(", "))
        }
        Value::Int(value) => format!("int {value}"),
        Value::Double(value) => format!("double {value}"),
        Value::Bool(value) => format!("bool {value}"),
        Value::Str(text) => format!("string {text:?}"),
        Value::None => "any int, or none".to_owned(),
        _ => "list".to_owned(),
    }
}
