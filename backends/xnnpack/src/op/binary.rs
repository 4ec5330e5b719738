//! Binary elementwise operators with broadcasting, f32.

use afferent_core::Error;
use afferent_simd::{Isa, Routine, Simd, math};

use super::unary::clamp_slice;
use crate::{
    error::SHAPE_MISMATCH,
    loop_nest::{Loop, advance},
    memory::MemoryBudget,
    operator::{Input, Operator, RunContext, binary_inputs, output_as},
    shape::{MAX_TENSOR_DIMS, Shape},
    subgraph::BinaryOperator,
};

pub(crate) struct Binary {
    operator: BinaryOperator,
    clamp: (f32, f32),
    broadcast: Broadcast,
}

impl Binary {
    pub(crate) fn new(operator: BinaryOperator, clamp: (f32, f32)) -> Self {
        Self { operator, clamp, broadcast: Broadcast::default() }
    }
}

impl Operator for Binary {
    fn reshape(&mut self, inputs: &[Shape], _: &mut MemoryBudget) -> Result<Shape, Error> {
        let [a, b] = binary_inputs(inputs)?;
        self.broadcast.reshape(a, b)
    }

    fn run(
        &self,
        cx: &mut RunContext<'_>,
        inputs: &[Input<'_>],
        out: &mut [u8],
    ) -> Result<(), Error> {
        let [a, b] = binary_inputs(inputs)?;
        let (a, b) = (a.data::<f32>()?, b.data::<f32>()?);
        self.broadcast.for_each_row(a, b, output_as(out)?, |a, b, out| {
            compute_row(cx.isa, self.operator, a, b, out);
            clamp_slice(cx.isa, self.clamp, out);
        })
    }
}

/// Loops over the operands of a binary operator, outermost first. The strides are those of both
/// operands; 0 for a broadcast dimension.
pub(crate) struct Broadcast {
    loops: [Loop; MAX_TENSOR_DIMS],
}

impl Default for Broadcast {
    fn default() -> Self {
        Self { loops: [Loop::ONCE; MAX_TENSOR_DIMS] }
    }
}

impl Broadcast {
    /// Returns the broadcast shape and prepares the loops.
    pub(crate) fn reshape(&mut self, a: &Shape, b: &Shape) -> Result<Shape, Error> {
        let rank = a.len().max(b.len());
        let size = |shape: &Shape, dim: usize| {
            (dim + shape.len()).checked_sub(rank).map_or(1, |dim| shape[dim])
        };
        let mut out = [0; MAX_TENSOR_DIMS];
        self.loops = [Loop::ONCE; MAX_TENSOR_DIMS];
        let (mut dense, mut depth) = ([1, 1], MAX_TENSOR_DIMS);
        for dim in (0..rank).rev() {
            let (m, n) = (size(a, dim), size(b, dim));
            if m != n && m != 1 && n != 1 {
                return Err(SHAPE_MISMATCH);
            }
            out[dim] = if m == 1 { n } else { m };
            let strides = [if m == 1 { 0 } else { dense[0] }, if n == 1 { 0 } else { dense[1] }];
            dense = [dense[0] * m, dense[1] * n];
            if out[dim] == 1 {
                continue;
            }
            // Dimensions that both operands traverse alike are merged into one loop.
            if let Some(inner) = self.loops.get_mut(depth)
                && strides[0] == inner.strides[0] * inner.len
                && strides[1] == inner.strides[1] * inner.len
            {
                inner.len *= out[dim];
                continue;
            }
            depth -= 1;
            self.loops[depth] = Loop { len: out[dim], strides };
        }
        let out = Shape::new(&out[..rank]).ok_or(SHAPE_MISMATCH)?;
        out.numel()?;
        Ok(out)
    }

    /// Calls `compute` with the operands of each row of `out`. An operand that is shorter than the
    /// row is repeated.
    pub(crate) fn for_each_row<T, O>(
        &self,
        a: &[T],
        b: &[T],
        out: &mut [O],
        compute: impl Fn(&[T], &[T], &mut [O]),
    ) -> Result<(), Error> {
        let Loop { len, strides } = self.loops[MAX_TENSOR_DIMS - 1];
        if out.is_empty() {
            return Ok(());
        }
        let mut lens = strides.map(|stride| if stride == 0 { 1 } else { len });
        let (mut len, mut depth) = (len, MAX_TENSOR_DIMS - 1);
        // An operand that is the same for all iterations of the next loop is repeated within one
        // long row.
        let Loop { len: rows, strides: outer } = self.loops[depth - 1];
        if strides == [1, 1] && (outer == [0, len] || outer == [len, 0]) {
            lens = outer.map(|stride| if stride == 0 { len } else { rows * len });
            (len, depth) = (rows * len, depth - 1);
        }
        let mut indices = [0; MAX_TENSOR_DIMS - 1];
        let mut offsets = [0_usize; 2];
        for out in out.chunks_exact_mut(len) {
            let a = a.get(offsets[0]..).and_then(|a| a.get(..lens[0])).ok_or(SHAPE_MISMATCH)?;
            let b = b.get(offsets[1]..).and_then(|b| b.get(..lens[1])).ok_or(SHAPE_MISMATCH)?;
            compute(a, b, out);
            advance(&self.loops[..depth], &mut indices[..depth], &mut offsets);
        }
        Ok(())
    }
}

/// Applies `f` to the operands of a row. A shorter operand is repeated.
pub(crate) struct MapRow<'d, T, O, F> {
    pub(crate) a: &'d [T],
    pub(crate) b: &'d [T],
    pub(crate) out: &'d mut [O],
    pub(crate) f: F,
}

impl<T: Copy, O: Copy, F: Fn(T, T) -> O> Routine for MapRow<'_, T, O, F> {
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
                    let (a, b) = (repeated_row(a, row, len), repeated_row(b, row, len));
                    a.iter().zip(b).zip(out).for_each(|((a, b), out)| *out = f(*a, *b));
                }
            }
        }
    }
}

/// Row of an operand; the only one if the operand is repeated.
#[inline(always)]
fn repeated_row<T>(all: &[T], row: usize, len: usize) -> &[T] {
    let start = if all.len() > len { row * len } else { 0 };
    &all[start..][..len]
}

/// Computes one row. A shorter operand is repeated.
fn compute_row(isa: Isa, operator: BinaryOperator, a: &[f32], b: &[f32], out: &mut [f32]) {
    macro_rules! map {
        ($f:expr) => {
            isa.run(MapRow { a, b, out, f: $f })
        };
    }
    match operator {
        BinaryOperator::Add => map!(|a: f32, b: f32| a + b),
        BinaryOperator::Divide => map!(|a: f32, b: f32| a / b),
        BinaryOperator::Maximum => map!(|a: f32, b: f32| if a > b || a.is_nan() { a } else { b }),
        BinaryOperator::Minimum => map!(|a: f32, b: f32| if a < b || a.is_nan() { a } else { b }),
        BinaryOperator::Multiply => map!(|a: f32, b: f32| a * b),
        BinaryOperator::Prelu => map!(|a: f32, b: f32| if a < 0.0 { a * b } else { a }),
        BinaryOperator::SiluMultiply => silu_multiply(isa, a, b, out),
        BinaryOperator::Subtract => map!(|a: f32, b: f32| a - b),
    }
}

/// `silu(a) * b`. A shorter operand is repeated.
fn silu_multiply(isa: Isa, a: &[f32], b: &[f32], out: &mut [f32]) {
    let len = a.len().min(b.len());
    for (row, out) in out.chunks_exact_mut(len).enumerate() {
        math::silu_mul(isa, repeated_row(a, row, len), repeated_row(b, row, len), out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        op::unary::compute_unary,
        subgraph::{UNCLAMPED, UnaryOperator},
        testing::{floats, run_inputs},
    };

    #[test]
    fn silu_multiply_matches_silu_then_multiply() {
        for (left, right) in
            [([3, 40], [3, 40]), ([1, 40], [3, 40]), ([3, 1], [3, 40]), ([3, 40], [1, 1])]
        {
            let shapes = [left, right].map(|sizes| Shape::new(&sizes).unwrap());
            let [a, b] = shapes.map(|shape| floats(shape.numel().unwrap()));
            let mut silu = vec![0.0; a.len()];
            compute_unary(Isa::best(), UnaryOperator::Silu, UNCLAMPED, &a, &mut silu);
            let compute = |operator, a: &[f32]| {
                let mut op = Binary::new(operator, (-0.2, 0.2));
                let to = op.reshape(&shapes, &mut MemoryBudget::new(usize::MAX)).unwrap();
                let operands = [a, &b].map(bytemuck::cast_slice);
                let inputs = [0, 1].map(|at| Input { shape: &shapes[at], bytes: operands[at] });
                run_inputs(&op, &inputs, to, f32::NAN, 1)
            };
            let expected = compute(BinaryOperator::Multiply, &silu);
            assert_eq!(compute(BinaryOperator::SiluMultiply, &a), expected, "{left:?} {right:?}");
        }
    }
}
