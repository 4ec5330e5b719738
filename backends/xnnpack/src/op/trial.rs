//! Operations run by themselves, for their tests.

use afferent_core::Element;
use afferent_simd::{Isa, pool};

use super::{Cx, Input, Op, Scratch, conv::Sizes};
use crate::{
    graph::ConvKind,
    shape::{Room, Shape, Window},
};

/// Numbers from -1 to 1.
pub(crate) fn numbers(len: usize) -> Vec<f32> {
    (0..len).map(|at| ((at * 7919 + 13) % 1009) as f32 / 504.0 - 1.0).collect()
}

/// Windows one after the other, inside the picture.
pub(crate) fn window(kernel: [usize; 2]) -> Window {
    let (zeros, ones) = ([0; 2], [1; 2]);
    Window { kernel, stride: ones, dilation: ones, before: zeros, after: zeros }
}

/// A convolution with a kernel of 3 x 3 that may be filtered, with other borders on each side.
pub(crate) fn filterable(inputs: usize, outputs: usize) -> Sizes {
    let window =
        Window { kernel: [3; 2], stride: [1; 2], dilation: [1; 2], before: [1, 0], after: [1, 2] };
    Sizes { kind: ConvKind::Plain, window, groups: 1, inputs, outputs }
}

/// The result of `op` for `x`, and its shape; what is not written of it stays `blank`.
pub(crate) fn run<T: Element, O: Element>(
    op: &mut dyn Op,
    x: &[T],
    shape: Shape,
    blank: O,
    threads: usize,
) -> (Vec<O>, Shape) {
    let to = op.shape(&[shape], &mut Room::of(usize::MAX)).unwrap();
    (computed(op, x, [shape, to], blank, threads), to)
}

/// The same when the operation has seen these shapes, of `x` and of the result.
pub(crate) fn computed<T: Element, O: Element>(
    op: &dyn Op,
    x: &[T],
    [shape, to]: [Shape; 2],
    blank: O,
    threads: usize,
) -> Vec<O> {
    computed_of(op, &[Input { shape: &shape, bytes: bytemuck::cast_slice(x) }], to, blank, threads)
}

/// The same of several operands.
pub(crate) fn computed_of<O: Element>(
    op: &dyn Op,
    inputs: &[Input<'_>],
    to: Shape,
    blank: O,
    threads: usize,
) -> Vec<O> {
    let mut out = vec![blank; to.numel().unwrap()];
    let mut scratch = Scratch { room: Room::of(usize::MAX), ..Scratch::default() };
    let workers = pool::workers(threads);
    let mut cx = Cx { isa: Isa::best(), workers, scratch: &mut scratch, from_end: false };
    op.run(&mut cx, inputs, bytemuck::cast_slice_mut(&mut out)).unwrap();
    out
}
