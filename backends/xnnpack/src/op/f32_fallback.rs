//! Fallback for operators without an int8 implementation: dequantizes the inputs, runs the f32
//! operator, and quantizes the output.
//!
//! Tolerance: one quantization step of the output.

use afferent_core::Error;

use super::convert::{Dequantize, Quantize};
use crate::{
    error::SHAPE_MISMATCH,
    memory::{MemoryBudget, grow},
    operator::{Input, MAX_INPUTS, Operator, RunContext},
    quantization::{INT8_RANGE, OutputQuantization, QuantizationParams},
    shape::Shape,
};

pub(crate) struct F32Fallback {
    /// The f32 operator.
    pub(crate) inner: Box<dyn Operator>,
    /// Quantization of each input; `None` if it is f32.
    pub(crate) inputs: Vec<Option<QuantizationParams>>,
    /// Quantization of the output; `None` if it is f32.
    pub(crate) output: Option<QuantizationParams>,
}

impl Operator for F32Fallback {
    fn reshape(&mut self, inputs: &[Shape], budget: &mut MemoryBudget) -> Result<Shape, Error> {
        self.inner.reshape(inputs, budget)
    }

    fn run(
        &self,
        cx: &mut RunContext<'_>,
        inputs: &[Input<'_>],
        out: &mut [u8],
    ) -> Result<(), Error> {
        // The inner operator borrows the scratch memory: the buffer moves out of it.
        let mut buffer = std::mem::take(&mut cx.scratch.dequantized);
        let result = self.run_with(cx, inputs, out, &mut buffer);
        cx.scratch.dequantized = buffer;
        result
    }
}

impl F32Fallback {
    fn run_with(
        &self,
        cx: &mut RunContext<'_>,
        inputs: &[Input<'_>],
        out: &mut [u8],
        buffer: &mut Vec<f32>,
    ) -> Result<(), Error> {
        let len = |params: &Option<QuantizationParams>, bytes: &[u8]| {
            if params.is_some() { bytes.len() } else { 0 }
        };
        let inputs_len: usize =
            self.inputs.iter().zip(inputs).map(|(params, input)| len(params, input.bytes)).sum();
        let total_len = inputs_len + len(&self.output, out);
        let mut rest = grow(buffer, total_len, &mut cx.scratch.budget)?;
        if inputs.len() > MAX_INPUTS {
            return Err(SHAPE_MISMATCH);
        }
        let mut operands = [Input::EMPTY; MAX_INPUTS];
        for ((operand, input), params) in operands.iter_mut().zip(inputs).zip(&self.inputs) {
            *operand = *input;
            let Some(from) = *params else { continue };
            let (floats, more) = rest.split_at_mut(input.bytes.len());
            rest = more;
            Dequantize { from }.run(cx, &[*input], bytemuck::cast_slice_mut(floats))?;
            operand.bytes = bytemuck::cast_slice(floats);
        }
        let operands = &operands[..inputs.len()];
        let Some(params) = self.output else {
            return self.inner.run(cx, operands, out);
        };
        let result = &mut rest[..out.len()];
        self.inner.run(cx, operands, bytemuck::cast_slice_mut(result))?;
        let result = Input { bytes: bytemuck::cast_slice(result), ..Input::EMPTY };
        Quantize { to: OutputQuantization { params, range: INT8_RANGE } }.run(cx, &[result], out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        op::unary::Unary,
        subgraph::{UNCLAMPED, UnaryOperator},
        testing::run,
    };

    #[test]
    fn output_rounds_like_a_conversion() {
        let inner = Box::new(Unary { operator: UnaryOperator::Copy, clamp: UNCLAMPED });
        let output = Some(QuantizationParams { scale: 2.0, zero_point: 3 });
        let mut op = F32Fallback { inner, inputs: vec![None], output };
        let x = [f32::NAN, 3.0, 5.0, -4.0, f32::INFINITY, -1e9];
        let (found, _) = run(&mut op, &x, Shape::of([x.len()]), 0_i8, 1);
        assert_eq!(found, [-128, 5, 5, 1, 127, -128]);
    }
}
