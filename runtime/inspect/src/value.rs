//! Owned inputs and outputs of a method.

use afferent_core::{Bool, Dynamism, Error, ScalarType, Tensor};
use afferent_runtime::{
    Input, Output,
    program::{MethodPlan, TensorMeta, TestValue, Value},
};

use crate::npy::row_major;

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

    /// Scalar tensor of a number or a boolean, as NPY files hold it; `None` for other values.
    pub fn of_scalar(output: Output<'_>) -> Option<Tensor> {
        match output {
            Output::Int(value) => Tensor::new(&[], &[value]).ok(),
            Output::Double(value) => Tensor::new(&[], &[value]).ok(),
            Output::Bool(value) => Tensor::new(&[], &[Bool::from(value)]).ok(),
            _ => None,
        }
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

/// Tensor with the same elements, in memory in `dim_order`.
///
/// # Errors
/// [`Error::InvalidTensor`] if `dim_order` is not a permutation of the dimensions.
pub fn in_dim_order(tensor: &Tensor, dim_order: &[u8]) -> Result<Tensor, Error> {
    let mut to = tensor.clone();
    to.set_dim_order(dim_order)?;
    let targets = row_major(&to.view());
    let (size, view) = (tensor.dtype().size(), tensor.view());
    let elements = |at: usize| at * size..(at + 1) * size;
    for (from, target) in row_major(&view).into_iter().zip(targets) {
        to.bytes_mut()[elements(target)].copy_from_slice(&view.bytes()[elements(from)]);
    }
    Ok(to)
}

/// Difference of a tensor from the one that a method takes: its dtype, rank or a size.
pub fn mismatch(tensor: &Tensor, meta: &TensorMeta<'_>) -> Option<String> {
    let (found, planned) = (tensor.sizes(), meta.layout.sizes);
    let fits = |found: usize, planned: usize| match meta.dynamism {
        Dynamism::Static => found == planned,
        Dynamism::Bounded => found <= planned,
        Dynamism::Unbounded => true,
    };
    let has_sizes = found.len() == planned.len()
        && found.iter().zip(planned.iter()).all(|(found, planned)| fits(*found, planned));
    let has_dtype = tensor.dtype() == meta.layout.dtype;
    (!has_sizes || !has_dtype).then(|| type_text(tensor.dtype(), found.iter().copied()))
}

/// Dtype and sizes, for example `f32[1, 576]`.
fn type_text(dtype: ScalarType, sizes: impl Iterator<Item = usize>) -> String {
    let sizes: Vec<String> = sizes.map(|size| size.to_string()).collect();
    format!("{dtype}[{}]", sizes.join(", "))
}

/// Describes a value of a method in words, for example `f32[1, 576]`.
pub fn describe(plan: &MethodPlan<'_>, value: u32) -> String {
    match plan.value(value as usize) {
        Value::Tensor(meta) => {
            let text = type_text(meta.layout.dtype, meta.layout.sizes.iter());
            let dynamism = match meta.dynamism {
                Dynamism::Static => "",
                Dynamism::Bounded => " at most",
                Dynamism::Unbounded => " unbounded",
            };
            let order = meta.layout.dim_order;
            let order =
                if order.is_sorted() { String::new() } else { format!(" dim order {order:?}") };
            format!("{text}{dynamism}{order}")
        }
        Value::Int(value) => format!("int {value}"),
        Value::Double(value) => format!("double {value}"),
        Value::Bool(value) => format!("bool {value}"),
        Value::Str(text) => format!("string {text:?}"),
        Value::None => "any int, or none".to_owned(),
        _ => "list".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_keep_their_index_in_another_dim_order() {
        let data: Vec<i16> = (0..2 * 3 * 4 * 5).collect();
        let plain = Tensor::new(&[2, 3, 4, 5], &data).unwrap();
        let last = in_dim_order(&plain, &[0, 2, 3, 1]).unwrap();
        assert_eq!((last.sizes(), last.dim_order()), (&[2, 3, 4, 5][..], &[0, 2, 3, 1][..]));
        for (at, found) in last.data::<i16>().unwrap().iter().enumerate() {
            let (n, h, w, c) = (at / 60, at / 15 % 4, at / 3 % 5, at % 3);
            assert_eq!(*found, data[((n * 3 + c) * 4 + h) * 5 + w]);
        }
        let again = in_dim_order(&last, &[0, 1, 2, 3]).unwrap();
        assert_eq!(again.data::<i16>().unwrap(), data);
        assert!(in_dim_order(&plain, &[0, 1, 2]).is_err());
    }
}
