//! Any operation on integers, by way of `f32`: what integers stand for is computed with, and the
//! result rounded to the nearest integer again.
//!
//! Tolerance: one quantum of the result.

use afferent_core::Error;

use super::{
    Cx, Input, Op,
    bytes::{Dequantise, Quantise, Quantum, Rounded},
    some,
};
use crate::{
    graph::{Quant, Value},
    shape::{MISFIT, Room, Shape},
};

/// The most operands.
pub(crate) const MOST_INPUTS: usize = 5;

/// What integers of a tensor stand for: scale and zero point, none for numbers.
pub(crate) type Steps = Option<Quantum>;

/// The steps of a value.
pub(crate) fn steps(value: &Value<'_>) -> Steps {
    match value.quant {
        Quant::Tensor { scale, zero_point } => Some((scale, zero_point)),
        _ => None,
    }
}

/// The integer that stands for `x`.
pub(crate) fn to_integer(x: f32, scale: f32, zero_point: i32) -> i8 {
    ((x / scale).round_ties_even() + zero_point as f32).clamp(-128.0, 127.0) as i8
}

/// Bounds as integers without the zero point.
pub(crate) fn bounds(clamp: (f32, f32), scale: f32, zero_point: i32) -> (f32, f32) {
    let bound = |x: f32| f32::from(to_integer(x, scale, zero_point)) - zero_point as f32;
    (bound(clamp.0), bound(clamp.1))
}

/// An operation on `f32`, with operands and results that may be integers.
pub(crate) struct ByNumbers {
    pub(crate) inner: Box<dyn Op>,
    pub(crate) inputs: Vec<Steps>,
    pub(crate) output: Steps,
}

impl Op for ByNumbers {
    fn shape(&mut self, inputs: &[Shape], room: &mut Room) -> Result<Shape, Error> {
        self.inner.shape(inputs, room)
    }

    fn run(&self, cx: &mut Cx<'_>, inputs: &[Input<'_>], out: &mut [u8]) -> Result<(), Error> {
        let mut numbers = std::mem::take(&mut cx.scratch.outer);
        let result = self.run_with(cx, inputs, out, &mut numbers);
        cx.scratch.outer = numbers;
        result
    }
}

impl ByNumbers {
    fn run_with(
        &self,
        cx: &mut Cx<'_>,
        inputs: &[Input<'_>],
        out: &mut [u8],
        numbers: &mut Vec<f32>,
    ) -> Result<(), Error> {
        let len = |steps: &Steps, bytes: &[u8]| if steps.is_some() { bytes.len() } else { 0 };
        let wanted: usize =
            self.inputs.iter().zip(inputs).map(|(steps, input)| len(steps, input.bytes)).sum();
        let mut rest = some(numbers, wanted + len(&self.output, out), &mut cx.scratch.room)?;
        if inputs.len() > MOST_INPUTS {
            return Err(MISFIT);
        }
        let mut operands = [Input::NONE; MOST_INPUTS];
        for ((operand, input), steps) in operands.iter_mut().zip(inputs).zip(&self.inputs) {
            *operand = *input;
            let Some(from) = *steps else { continue };
            let (mine, more) = rest.split_at_mut(input.bytes.len());
            rest = more;
            Dequantise { from }.run(cx, &[*input], bytemuck::cast_slice_mut(mine))?;
            operand.bytes = bytemuck::cast_slice(mine);
        }
        let operands = &operands[..inputs.len()];
        let Some(quantum) = self.output else {
            return self.inner.run(cx, operands, out);
        };
        let results = &mut rest[..out.len()];
        self.inner.run(cx, operands, bytemuck::cast_slice_mut(results))?;
        let results = Input { bytes: bytemuck::cast_slice(results), ..Input::NONE };
        Quantise { to: Rounded { quantum, bounds: (-128.0, 127.0) } }.run(cx, &[results], out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        graph::{OPEN, Unary},
        op::{trial, unary::Map},
    };

    #[test]
    fn results_are_rounded_as_conversions_round() {
        let inner = Box::new(Map { function: Unary::Copy, clamp: OPEN });
        let mut op = ByNumbers { inner, inputs: vec![None], output: Some((2.0, 3)) };
        let x = [f32::NAN, 3.0, 5.0, -4.0, f32::INFINITY, -1e9];
        let (found, _) = trial::run(&mut op, &x, Shape::of([x.len()]), 0_i8, 1);
        assert_eq!(found, [-128, 5, 5, 1, 127, -128]);
    }
}
