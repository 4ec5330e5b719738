//! Conversion between f32 and int8 with per-tensor quantization.

use afferent_core::Error;

use crate::{
    operator::{Input, Operator, RunContext, output_as, unary_input},
    quantization::{OutputQuantization, QuantizationParams, quantize_slice},
};

/// f32 to int8.
pub(crate) struct Quantize {
    pub(crate) to: OutputQuantization,
}

impl Operator for Quantize {
    fn run(
        &self,
        cx: &mut RunContext<'_>,
        inputs: &[Input<'_>],
        out: &mut [u8],
    ) -> Result<(), Error> {
        let (x, out) = (unary_input(inputs)?.data::<f32>()?, output_as::<i8>(out)?);
        let OutputQuantization { params, range } = self.to;
        let (inverse_scale, zero_point) = (1.0 / params.scale, params.zero_point as f32);
        cx.isa.call(|| quantize_slice(x, inverse_scale, zero_point, range, out));
        Ok(())
    }
}

/// int8 to f32.
pub(crate) struct Dequantize {
    pub(crate) from: QuantizationParams,
}

impl Operator for Dequantize {
    fn run(
        &self,
        cx: &mut RunContext<'_>,
        inputs: &[Input<'_>],
        out: &mut [u8],
    ) -> Result<(), Error> {
        let (x, out) = (unary_input(inputs)?.data::<i8>()?, output_as::<f32>(out)?);
        let (scale, zero_point) = (self.from.scale, self.from.zero_point as f32);
        cx.isa.call(|| {
            x.iter().zip(out).for_each(|(x, to)| *to = (f32::from(*x) - zero_point) * scale);
        });
        Ok(())
    }
}
