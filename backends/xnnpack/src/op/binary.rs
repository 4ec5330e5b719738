//! Functions of two numbers, with broadcasting and bounds.

use afferent_core::Error;
use afferent_simd::{Isa, Routine, Simd, math};

use super::{Cx, Input, Op, both, elements, unary::bound};
use crate::{
    graph::Binary,
    shape::{MISFIT, MOST_DIMS, Room, Shape, advance},
};

/// A function of two numbers.
pub(crate) struct Combine {
    function: Binary,
    clamp: (f32, f32),
    /// Sizes of the loops, the innermost last, and steps of both operands.
    loops: [(usize, [usize; 2]); MOST_DIMS],
}

impl Combine {
    pub(crate) fn new(function: Binary, clamp: (f32, f32)) -> Self {
        Self { function, clamp, loops: [(1, [0; 2]); MOST_DIMS] }
    }
}

impl Op for Combine {
    fn shape(&mut self, inputs: &[Shape], _: &mut Room) -> Result<Shape, Error> {
        let [a, b] = both(inputs)?;
        let rank = a.len().max(b.len());
        let size = |shape: &Shape, dim: usize| {
            (dim + shape.len()).checked_sub(rank).map_or(1, |dim| shape[dim])
        };
        let mut out = [0; MOST_DIMS];
        self.loops = [(1, [0; 2]); MOST_DIMS];
        let (mut steps, mut depth) = ([1, 1], MOST_DIMS);
        for dim in (0..rank).rev() {
            let (m, n) = (size(a, dim), size(b, dim));
            if m != n && m != 1 && n != 1 {
                return Err(MISFIT);
            }
            out[dim] = if m == 1 { n } else { m };
            let here = [if m == 1 { 0 } else { steps[0] }, if n == 1 { 0 } else { steps[1] }];
            steps = [steps[0] * m, steps[1] * n];
            if out[dim] == 1 {
                continue;
            }
            // Dimensions that both operands walk through alike are one loop.
            if let Some((len, inner)) = self.loops.get_mut(depth)
                && here[0] == inner[0] * *len
                && here[1] == inner[1] * *len
            {
                *len *= out[dim];
                continue;
            }
            depth -= 1;
            self.loops[depth] = (out[dim], here);
        }
        let out = Shape::new(&out[..rank]).ok_or(MISFIT)?;
        out.numel()?;
        Ok(out)
    }

    fn run(&self, cx: &mut Cx<'_>, inputs: &[Input<'_>], out: &mut [u8]) -> Result<(), Error> {
        let [a, b] = both(inputs)?;
        let (a, b) = (a.data::<f32>()?, b.data::<f32>()?);
        operands(self, a, b, elements(out)?, |a, b, out| {
            combine(cx.isa, self.function, a, b, out);
            bound(cx.isa, self.clamp, out);
        })
    }
}

/// Calls `row` with the operands of each row of `out`; an operand that is shorter is repeated.
pub(crate) fn operands<T, O>(
    of: &Combine,
    a: &[T],
    b: &[T],
    out: &mut [O],
    row: impl Fn(&[T], &[T], &mut [O]),
) -> Result<(), Error> {
    let (len, steps) = of.loops[MOST_DIMS - 1];
    if out.is_empty() {
        return Ok(());
    }
    let mut lens = steps.map(|step| if step == 0 { 1 } else { len });
    let (mut len, mut depth) = (len, MOST_DIMS - 1);
    // Rows that one operand has in common are one row of the other.
    let (rows, around) = of.loops[depth - 1];
    if steps == [1, 1] && (around == [0, len] || around == [len, 0]) {
        lens = around.map(|step| if step == 0 { len } else { rows * len });
        (len, depth) = (rows * len, depth - 1);
    }
    let mut at = [0; MOST_DIMS - 1];
    let mut start = [0_usize; 2];
    for out in out.chunks_exact_mut(len) {
        let a = a.get(start[0]..).and_then(|a| a.get(..lens[0])).ok_or(MISFIT)?;
        let b = b.get(start[1]..).and_then(|b| b.get(..lens[1])).ok_or(MISFIT)?;
        row(a, b, out);
        advance(&of.loops[..depth], &mut at[..depth], &mut start);
    }
    Ok(())
}

/// `f` of both operands of a row; one that is shorter is repeated.
pub(crate) struct Each<'d, T, O, F> {
    pub(crate) a: &'d [T],
    pub(crate) b: &'d [T],
    pub(crate) out: &'d mut [O],
    pub(crate) f: F,
}

impl<T: Copy, O: Copy, F: Fn(T, T) -> O> Routine for Each<'_, T, O, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { a, b, out, f } = self;
        match (a, b) {
            ([a], [b]) => out.fill(f(*a, *b)),
            ([a], b) => b.iter().zip(out).for_each(|(b, out)| *out = f(*a, *b)),
            (a, [b]) => a.iter().zip(out).for_each(|(a, out)| *out = f(*a, *b)),
            _ => {
                let len = a.len().min(b.len());
                for (row, out) in out.chunks_exact_mut(len).enumerate() {
                    let (a, b) = (row_of(a, row, len), row_of(b, row, len));
                    a.iter().zip(b).zip(out).for_each(|((a, b), out)| *out = f(*a, *b));
                }
            }
        }
    }
}

/// A row of an operand, which is the only one if it is repeated.
#[inline(always)]
fn row_of<T>(all: &[T], row: usize, len: usize) -> &[T] {
    let start = if all.len() > len { row * len } else { 0 };
    &all[start..][..len]
}

/// One row; an operand that is shorter is repeated.
fn combine(isa: Isa, function: Binary, a: &[f32], b: &[f32], out: &mut [f32]) {
    macro_rules! each {
        ($f:expr) => {
            isa.run(Each { a, b, out, f: $f })
        };
    }
    match function {
        Binary::Add => each!(|a: f32, b: f32| a + b),
        Binary::Divide => each!(|a: f32, b: f32| a / b),
        Binary::Gate => gate(isa, a, b, out),
        Binary::Maximum => each!(|a: f32, b: f32| if a > b || a.is_nan() { a } else { b }),
        Binary::Minimum => each!(|a: f32, b: f32| if a < b || a.is_nan() { a } else { b }),
        Binary::Multiply => each!(|a: f32, b: f32| a * b),
        Binary::Prelu => each!(|a: f32, b: f32| if a < 0.0 { a * b } else { a }),
        Binary::Subtract => each!(|a: f32, b: f32| a - b),
    }
}

/// Silu of `a` times `b`; an operand that is shorter is repeated.
fn gate(isa: Isa, a: &[f32], b: &[f32], out: &mut [f32]) {
    let len = a.len().min(b.len());
    for (row, out) in out.chunks_exact_mut(len).enumerate() {
        math::silu_mul(isa, row_of(a, row, len), row_of(b, row, len), out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        graph::{OPEN, Unary},
        op::{
            trial::{computed_of, numbers},
            unary::map,
        },
    };

    #[test]
    fn a_gate_is_silu_and_a_product() {
        for (left, right) in
            [([3, 40], [3, 40]), ([1, 40], [3, 40]), ([3, 1], [3, 40]), ([3, 40], [1, 1])]
        {
            let shapes = [left, right].map(|sizes| Shape::new(&sizes).unwrap());
            let [a, b] = shapes.map(|shape| numbers(shape.numel().unwrap()));
            let mut silu = vec![0.0; a.len()];
            map(Isa::best(), Unary::Silu, OPEN, &a, &mut silu);
            let product = |function, a: &[f32]| {
                let mut op = Combine::new(function, (-0.2, 0.2));
                let to = op.shape(&shapes, &mut Room::of(usize::MAX)).unwrap();
                let operands = [a, &b].map(bytemuck::cast_slice);
                let inputs = [0, 1].map(|at| Input { shape: &shapes[at], bytes: operands[at] });
                computed_of(&op, &inputs, to, f32::NAN, 1)
            };
            let expected = product(Binary::Multiply, &silu);
            assert_eq!(product(Binary::Gate, &a), expected, "{left:?} {right:?}");
        }
    }
}
