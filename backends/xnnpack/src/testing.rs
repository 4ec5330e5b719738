//! Runs single operators in unit tests.

use afferent_core::Element;
use afferent_simd::{Isa, pool};

use crate::{
    conv2d_params::{Conv2dKind, Conv2dParams},
    memory::MemoryBudget,
    operator::{Input, Operator, RunContext, Scratch},
    shape::Shape,
    window::Window,
};

/// Deterministic test data from -1 to 1.
pub(crate) fn floats(len: usize) -> Vec<f32> {
    (0..len).map(|at| ((at * 7919 + 13) % 1009) as f32 / 504.0 - 1.0).collect()
}

/// Asserts equality within 1e-4.
pub(crate) fn close(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4;
    assert!(found.iter().zip(expected).all(close));
}

/// Window with stride 1 and no padding.
pub(crate) fn valid_window(kernel: [usize; 2]) -> Window {
    let (zeros, ones) = ([0; 2], [1; 2]);
    Window { kernel, stride: ones, dilation: ones, padding_before: zeros, padding_after: zeros }
}

/// Square window padded by half of the kernel on each side.
pub(crate) fn same_window(kernel: usize, stride: usize) -> Window {
    let (kernel, padding) = ([kernel; 2], [kernel / 2; 2]);
    let (padding_before, padding_after) = (padding, padding);
    Window { kernel, stride: [stride; 2], dilation: [1; 2], padding_before, padding_after }
}

/// 3×3 convolution that supports Winograd, with different padding on each side.
pub(crate) fn winograd_params(inputs: usize, outputs: usize) -> Conv2dParams {
    let window = Window { padding_before: [1, 0], padding_after: [1, 2], ..valid_window([3; 2]) };
    Conv2dParams {
        kind: Conv2dKind::Standard,
        window,
        groups: 1,
        group_input_channels: inputs,
        group_output_channels: outputs,
    }
}

/// Reshapes `op` for `x` and runs it. Returns the output and its shape. Elements that the operator
/// does not write stay `blank`.
pub(crate) fn run<T: Element, O: Element>(
    op: &mut dyn Operator,
    x: &[T],
    shape: Shape,
    blank: O,
    threads: usize,
) -> (Vec<O>, Shape) {
    let to = op.reshape(&[shape], &mut MemoryBudget::new(usize::MAX)).unwrap();
    (run_reshaped(op, x, [shape, to], blank, threads), to)
}

/// Runs an operator that has been reshaped. The shapes are those of the input and the output.
pub(crate) fn run_reshaped<T: Element, O: Element>(
    op: &dyn Operator,
    x: &[T],
    [shape, to]: [Shape; 2],
    blank: O,
    threads: usize,
) -> Vec<O> {
    run_inputs(op, &[Input { shape: &shape, bytes: bytemuck::cast_slice(x) }], to, blank, threads)
}

/// As [`run_reshaped`], with several inputs.
pub(crate) fn run_inputs<O: Element>(
    op: &dyn Operator,
    inputs: &[Input<'_>],
    to: Shape,
    blank: O,
    threads: usize,
) -> Vec<O> {
    let mut out = vec![blank; to.numel().unwrap()];
    let mut scratch = Scratch { budget: MemoryBudget::new(usize::MAX), ..Scratch::default() };
    let workers = pool::workers(threads);
    let mut cx =
        RunContext { isa: Isa::best(), workers, scratch: &mut scratch, reverse_panels: false };
    op.run(&mut cx, inputs, bytemuck::cast_slice_mut(&mut out)).unwrap();
    out
}
