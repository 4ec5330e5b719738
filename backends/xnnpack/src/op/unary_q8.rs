//! Unary elementwise operators, int8: a lookup table, and clamp.
//!
//! Tolerance of the lookup table: one quantization step of the output.

use afferent_core::Error;
use afferent_simd::{Isa, lut::lookup};

use super::unary::compute_unary;
use crate::{
    operator::{Input, Operator, RunContext, output_as, unary_input},
    quantization::QuantizationParams,
    subgraph::UnaryOperator,
};

/// Any unary operator between two per-tensor quantizations.
pub(crate) struct LookupTable {
    /// Output for each input, by the bits of the input.
    outputs: [i8; 256],
}

impl LookupTable {
    pub(crate) fn new(
        operator: UnaryOperator,
        clamp: (f32, f32),
        from: QuantizationParams,
        to: QuantizationParams,
    ) -> Self {
        let inputs: [f32; 256] = std::array::from_fn(|bits| {
            (f32::from(bits as u8 as i8) - from.zero_point as f32) * from.scale
        });
        let mut outputs = [0.0; 256];
        compute_unary(Isa::best(), operator, clamp, &inputs, &mut outputs);
        Self { outputs: outputs.map(|x| to.quantize(x)) }
    }
}

impl Operator for LookupTable {
    fn run(
        &self,
        cx: &mut RunContext<'_>,
        inputs: &[Input<'_>],
        out: &mut [u8],
    ) -> Result<(), Error> {
        lookup(cx.isa, &self.outputs, unary_input(inputs)?.data()?, output_as(out)?);
        Ok(())
    }
}

/// Clamp in quantized units, if input and output have the same quantization.
pub(crate) struct ClampQ8 {
    pub(crate) low: i8,
    pub(crate) high: i8,
}

impl Operator for ClampQ8 {
    fn run(
        &self,
        cx: &mut RunContext<'_>,
        inputs: &[Input<'_>],
        out: &mut [u8],
    ) -> Result<(), Error> {
        let (x, out) = (unary_input(inputs)?.data::<i8>()?, output_as::<i8>(out)?);
        let (low, high) = (self.low, self.high);
        cx.isa.call(|| x.iter().zip(out).for_each(|(x, to)| *to = (*x).max(low).min(high)));
        Ok(())
    }
}
