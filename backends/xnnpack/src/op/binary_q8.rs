//! Add, subtract and multiply with broadcasting, int8.
//!
//! Tolerance: one quantization step of the output.

use afferent_core::Error;

use super::binary::{Broadcast, MapRow};
use crate::{
    memory::MemoryBudget,
    operator::{Input, Operator, RunContext, binary_inputs, output_as},
    quantization::{OutputQuantization, QuantizationParams, clamp_nan_to_low, round_to_i8},
    shape::Shape,
    subgraph::BinaryOperator,
};

pub(crate) struct BinaryQ8 {
    operator: BinaryOperator,
    inputs: [QuantizationParams; 2],
    output: OutputQuantization,
    broadcast: Broadcast,
}

impl BinaryQ8 {
    /// `operator` must be add, subtract or multiply.
    pub(crate) fn new(
        operator: BinaryOperator,
        inputs: [QuantizationParams; 2],
        output: OutputQuantization,
    ) -> Self {
        Self { operator, inputs, output, broadcast: Broadcast::default() }
    }
}

impl Operator for BinaryQ8 {
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
        let (a, b) = (a.data::<i8>()?, b.data::<i8>()?);
        let [a_params, b_params] = self.inputs;
        let (p, q, scale) = (a_params.scale, b_params.scale, self.output.params.scale);
        let zero_point = self.output.params.zero_point;
        let (zero_a, zero_b) = (a_params.zero_point as f32, b_params.zero_point as f32);
        let zero = zero_point as f32;
        let (low, high) = self.output.range;
        let finish = move |x: f32| round_to_i8(clamp_nan_to_low(x, low, high), 0.0);
        self.broadcast.for_each_row(a, b, output_as::<i8>(out)?, |a, b, out| {
            if self.operator == BinaryOperator::Multiply {
                let factor = p * q / scale;
                let f = move |a: i8, b: i8| {
                    finish((f32::from(a) - zero_a) * (f32::from(b) - zero_b) * factor + zero)
                };
                return cx.isa.run(MapRow { a, b, out, f });
            }
            let sign = if self.operator == BinaryOperator::Subtract { -1.0 } else { 1.0 };
            let (p, q) = (p / scale, sign * q / scale);
            let terms = [(p, a_params.zero_point), (q, b_params.zero_point)];
            if let Some(sum) = FixedPointSum::new(terms) {
                let (low, high) = (low as i32, high as i32);
                // The range comes from the blob. `clamp` would panic if low exceeds high.
                let f = move |a: i8, b: i8| {
                    let sum = sum.compute(i32::from(a), i32::from(b));
                    (sum + zero_point).max(low).min(high) as i8
                };
                return cx.isa.run(MapRow { a, b, out, f });
            }
            let rest = zero - p * zero_a - q * zero_b;
            let f = move |a: i8, b: i8| finish(f32::from(a) * p + f32::from(b) * q + rest);
            cx.isa.run(MapRow { a, b, out, f });
        })
    }
}

/// Weighted sum of two integers in fixed point.
///
/// Factors have 21 significant bits and ties are rounded up, which reproduces XNNPACK exactly. A
/// sum that differs by one step would grow to two steps after a few convolutions.
#[derive(Clone, Copy)]
struct FixedPointSum {
    factors: [i32; 2],
    /// Rounding term minus the contribution of the zero points.
    bias: i32,
    shift: u32,
}

impl FixedPointSum {
    /// Takes factor and zero point of both operands. Returns `None` if the larger factor is not
    /// between 2^-10 and 2^8.
    fn new(operands: [(f32, i32); 2]) -> Option<Self> {
        let largest = operands[0].0.abs().max(operands[1].0.abs());
        if !(2.0_f32.powi(-10)..2.0_f32.powi(8)).contains(&largest) {
            return None;
        }
        let shift = 20 + 127 - (largest.to_bits() >> 23);
        let factor = |x: f32| (f64::from(x) * f64::from(1_u32 << shift)).round_ties_even() as i32;
        let factors = operands.map(|(x, _)| factor(x));
        let zeros = factors[0] * operands[0].1 + factors[1] * operands[1].1;
        Some(Self { factors, bias: (1 << (shift - 1)) - zeros, shift })
    }

    #[inline(always)]
    fn compute(self, a: i32, b: i32) -> i32 {
        (self.bias + a * self.factors[0] + b * self.factors[1]) >> self.shift
    }
}
