//! Table tests of pointwise kernels.

use afferent_core::{Argument, Bool, Call, Element, Error, Kernel, Scalar, Tensor};

use crate::shared::dtype::Number;

/// An argument of a kernel under test.
pub(crate) enum Value {
    /// A tensor.
    Tensor(Tensor),
    /// A number.
    Scalar(Scalar),
    /// A string.
    Str(&'static str),
    /// An absent optional.
    None,
}

/// A tensor with one dimension.
pub(crate) fn tensor<T: Element>(data: &[T]) -> Value {
    Value::Tensor(Tensor::from_slice(data))
}

/// A tensor of `sizes`.
pub(crate) fn shaped<T: Element>(sizes: &[usize], data: &[T]) -> Value {
    Value::Tensor(Tensor::new(sizes, data).unwrap())
}

/// Elements of a `bool` tensor.
pub(crate) fn bools(values: &[bool]) -> Vec<Bool> {
    values.iter().copied().map(Bool::from).collect()
}

/// Calls `kernel` on `inputs` and a last output of dtype `T`, which has the rank of the tensor
/// with the most dimensions; floating-point numbers may differ by 1e-6 relative.
#[track_caller]
pub(crate) fn check<T: Number, const N: usize>(
    kernel: &Kernel,
    inputs: [Value; N],
    expected: Result<&[T], Error>,
) {
    let mut rank = 0;
    let mut arguments = Vec::new();
    for input in &inputs {
        arguments.push(match input {
            Value::Tensor(tensor) => {
                rank = rank.max(tensor.sizes().len());
                Argument::Tensor(tensor)
            }
            Value::Scalar(scalar) => Argument::Scalar(*scalar),
            Value::Str(text) => Argument::Str(text),
            Value::None => Argument::None,
        });
    }
    let mut out = Tensor::zeros(T::DTYPE, &vec![0; rank]);
    arguments.push(Argument::Out(&mut out));
    let result = Call::new(kernel).run(&mut arguments);
    let found = result.map(|()| out.data::<T>().unwrap());
    let close = match (found, expected) {
        (Ok(found), Ok(expected)) => {
            found.len() == expected.len()
                && found.iter().zip(expected).all(|(&a, &b)| is_close(a.to_f64(), b.to_f64()))
        }
        (Err(found), Err(expected)) => found == expected,
        _ => false,
    };
    assert!(close, "{}: {found:?} instead of {expected:?}", kernel.name);
}

fn is_close(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-6 * b.abs()
}
