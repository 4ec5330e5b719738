//! Checks for table tests of data movement kernels.

use std::vec::Vec;

use afferent_core::{Argument, Call, Error, Kernel, ScalarType, Tensor};

/// `i32` tensor with the elements 0, 1, 2 and so on.
pub(crate) fn iota(sizes: &[usize]) -> Tensor {
    let mut tensor = Tensor::zeros(ScalarType::Int, sizes);
    for (at, element) in (0..).zip(tensor.data_mut::<i32>().unwrap()) {
        *element = at;
    }
    tensor
}

/// Integer list argument.
pub(crate) fn ints(items: &[i64]) -> Argument<'static> {
    Argument::Ints(items.to_vec())
}

/// Runs `kernel` with `inputs` and a final `i32` output argument, and compares sizes and elements.
#[track_caller]
pub(crate) fn check(
    kernel: &Kernel,
    inputs: Vec<Argument<'_>>,
    expected: Result<(&[usize], &[i32]), Error>,
) {
    // A call that fails may resize its output first.
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
