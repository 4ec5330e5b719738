//! Checks for table tests of pointwise kernels.

use afferent_core::{Argument, Bool, Call, Element, Error, Kernel, Scalar, Tensor};

use crate::shared::dtype::Number;

/// An argument of a kernel under test.
pub(crate) enum Value {
    /// A tensor.
    Tensor(Tensor),
    /// A scalar.
    Scalar(Scalar),
    /// A string.
    Str(&'static str),
    /// An absent optional argument.
    None,
}

/// 1-D tensor.
pub(crate) fn tensor<T: Element>(data: &[T]) -> Value {
    Value::Tensor(Tensor::from_slice(data))
}

/// Tensor of `sizes`.
pub(crate) fn shaped<T: Element>(sizes: &[usize], data: &[T]) -> Value {
    Value::Tensor(Tensor::new(sizes, data).unwrap())
}

/// Elements of a `bool` tensor.
pub(crate) fn bools(values: &[bool]) -> Vec<Bool> {
    values.iter().copied().map(Bool::from).collect()
}

/// Runs `kernel` with `inputs` and a final output argument of dtype `T`, and compares the result.
/// The output has the largest rank of the inputs. Relative tolerance of floating point: 1e-6.
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
    let is_equal = match (found, expected) {
        (Ok(found), Ok(expected)) => {
            found.len() == expected.len()
                && found.iter().zip(expected).all(|(&a, &b)| is_close(a.to_f64(), b.to_f64()))
        }
        (Err(found), Err(expected)) => found == expected,
        _ => false,
    };
    assert!(is_equal, "{}: found {found:?}, expected {expected:?}", kernel.name);
}

fn is_close(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-6 * b.abs()
}
