//! Functions of two numbers, with broadcasting and bounds.

use afferent_core::Error;
use afferent_simd::Isa;

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

/// Calls `row` with the operands of each row of `out`; one that is a single number is repeated.
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
    let mut at = [0; MOST_DIMS - 1];
    let mut start = [0_usize; 2];
    for out in out.chunks_exact_mut(len) {
        let operand = |side: usize, data: &[T]| -> Option<(usize, usize)> {
            let from = start[side];
            let len = if steps[side] == 0 { 1 } else { len };
            (from.checked_add(len)? <= data.len()).then_some((from, len))
        };
        let (Some((i, m)), Some((j, n))) = (operand(0, a), operand(1, b)) else {
            return Err(MISFIT);
        };
        row(&a[i..i + m], &b[j..j + n], out);
        advance(&of.loops[..MOST_DIMS - 1], &mut at, &mut start);
    }
    Ok(())
}

/// One row; an operand of one number is repeated.
fn combine(isa: Isa, function: Binary, a: &[f32], b: &[f32], out: &mut [f32]) {
    macro_rules! each {
        ($f:expr) => {
            isa.call(|| match (a, b) {
                ([a], b) if out.len() > 1 => {
                    let a = *a;
                    if let [b] = b {
                        out.fill($f(a, *b));
                    } else {
                        b.iter().zip(&mut *out).for_each(|(b, out)| *out = $f(a, *b));
                    }
                }
                (a, [b]) if out.len() > 1 => {
                    let b = *b;
                    a.iter().zip(&mut *out).for_each(|(a, out)| *out = $f(*a, b));
                }
                _ => a.iter().zip(b).zip(&mut *out).for_each(|((a, b), out)| *out = $f(*a, *b)),
            })
        };
    }
    match function {
        Binary::Add => each!(|a: f32, b: f32| a + b),
        Binary::Divide => each!(|a: f32, b: f32| a / b),
        Binary::Maximum => each!(|a: f32, b: f32| if a > b || a.is_nan() { a } else { b }),
        Binary::Minimum => each!(|a: f32, b: f32| if a < b || a.is_nan() { a } else { b }),
        Binary::Multiply => each!(|a: f32, b: f32| a * b),
        Binary::Prelu => each!(|a: f32, b: f32| if a < 0.0 { a * b } else { a }),
        Binary::Subtract => each!(|a: f32, b: f32| a - b),
    }
}
