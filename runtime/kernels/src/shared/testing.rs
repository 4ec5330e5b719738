//! What the tests of data movement share.

use std::vec::Vec;

use afferent_core::{Argument, Call, Error, Kernel, ScalarType, Tensor};

/// The integers from 0 on.
pub(crate) fn iota(sizes: &[usize]) -> Tensor {
    let mut tensor = Tensor::zeros(ScalarType::Int, sizes);
    for (at, element) in (0..).zip(tensor.data_mut::<i32>().unwrap()) {
        *element = at;
    }
    tensor
}

/// Integers of an argument.
pub(crate) fn ints(items: &[i64]) -> Argument<'static> {
    Argument::Ints(items.to_vec())
}

/// Runs `kernel` with `inputs` and an `i32` tensor to write, and compares sizes and elements.
#[track_caller]
pub(crate) fn check(
    kernel: &Kernel,
    inputs: Vec<Argument<'_>>,
    expected: Result<(&[usize], &[i32]), Error>,
) {
    // A refused call may still have had to resize its output.
    let first = inputs.iter().find_map(|input| match input {
        Argument::Tensor(tensor) => Some(tensor.sizes().len()),
        _ => None,
    });
    let rank = expected.map_or(first.unwrap_or(1), |(sizes, _)| sizes.len());
    let mut out = Tensor::zeros(ScalarType::Int, &[1; 16][..rank]);
    let mut arguments = inputs;
    arguments.push(Argument::Out(&mut out));
    let result = Call::new(kernel).run(&mut arguments);
    drop(arguments);
    assert_eq!(result.map(|()| (out.sizes(), out.data().unwrap())), expected);
}
