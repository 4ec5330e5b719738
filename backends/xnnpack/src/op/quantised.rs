//! Any operation on integers, by way of `f32`: what integers stand for is computed with, and the
//! result rounded to the nearest integer again.
//!
//! Tolerance: one quantum of the result.

use afferent_core::Error;

use super::{Cx, Input, Op, elements, some};
use crate::{
    graph::{Quant, Value},
    shape::{MISFIT, Room, Shape},
};

/// The most operands.
pub(crate) const MOST_INPUTS: usize = 5;

/// What integers of a tensor stand for: scale and zero point, none for numbers.
pub(crate) type Steps = Option<(f32, i32)>;

/// The steps of a value.
pub(crate) fn steps(value: &Value<'_>) -> Option<(f32, i32)> {
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
        let mut operands = [Input { shape: Shape::default(), bytes: &[] }; MOST_INPUTS];
        for ((operand, input), steps) in operands.iter_mut().zip(inputs).zip(&self.inputs) {
            *operand = *input;
            let Some((scale, zero_point)) = *steps else { continue };
            let (mine, more) = rest.split_at_mut(input.bytes.len());
            rest = more;
            let (from, zero_point) = (input.data::<i8>()?, zero_point as f32);
            cx.isa.call(|| {
                from.iter()
                    .zip(&mut *mine)
                    .for_each(|(x, to)| *to = (f32::from(*x) - zero_point) * scale);
            });
            operand.bytes = bytemuck::cast_slice(mine);
        }
        let operands = &operands[..inputs.len()];
        let Some((scale, zero_point)) = self.output else {
            return self.inner.run(cx, operands, out);
        };
        let results = &mut rest[..out.len()];
        self.inner.run(cx, operands, bytemuck::cast_slice_mut(results))?;
        let out = elements::<i8>(out)?;
        let (factor, zero_point) = (1.0 / scale, zero_point as f32);
        let (low, high) = (-128.0 - zero_point, 127.0 - zero_point);
        cx.isa.call(|| {
            for (x, to) in results.iter().zip(out) {
                *to = ((x * factor).clamp(low, high).round_ties_even() + zero_point) as i8;
            }
        });
        Ok(())
    }
}
