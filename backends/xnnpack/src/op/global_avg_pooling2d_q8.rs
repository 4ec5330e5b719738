//! Global average pooling of NHWC images, int8.
//!
//! Tolerance: one quantization step of the output.

use afferent_core::Error;

use super::global_avg_pooling2d::output_shape;
use crate::{
    error::{SHAPE_MISMATCH, TENSOR_TOO_LARGE},
    memory::{MemoryBudget, grow},
    operator::{Input, Operator, RunContext, output_as, unary_input},
    quantization::{OutputQuantization, QuantizationParams, clamp_nan_to_low, round_to_i8},
    shape::Shape,
};

/// Maximum pixels of an image: their sum must fit 32 bits.
const MAX_PIXELS: usize = 1 << 24;

pub(crate) struct GlobalAvgPooling2dQ8 {
    pub(crate) keeps_dims: bool,
    pub(crate) from: QuantizationParams,
    pub(crate) to: OutputQuantization,
}

impl Operator for GlobalAvgPooling2dQ8 {
    fn reshape(&mut self, inputs: &[Shape], _: &mut MemoryBudget) -> Result<Shape, Error> {
        let input = unary_input(inputs)?;
        let [_, height, width, _] = input.nhwc()?;
        if height.saturating_mul(width) > MAX_PIXELS {
            return Err(TENSOR_TOO_LARGE);
        }
        output_shape(input, self.keeps_dims)
    }

    fn run(
        &self,
        cx: &mut RunContext<'_>,
        inputs: &[Input<'_>],
        out: &mut [u8],
    ) -> Result<(), Error> {
        let input = unary_input(inputs)?;
        let [_, height, width, channels] = input.shape.nhwc()?;
        let (x, out) = (input.data::<i8>()?, output_as::<i8>(out)?);
        let (len, pixels) = (height * width * channels, height * width);
        if out.is_empty() {
            return Ok(());
        }
        if len == 0 {
            return Err(SHAPE_MISMATCH);
        }
        let QuantizationParams { scale, zero_point } = self.to.params;
        let factor = self.from.scale / (scale * pixels as f32);
        let bias = -(self.from.zero_point as f32) * pixels as f32;
        let (low, high) = self.to.range;
        let sums = grow(&mut cx.scratch.words, channels, &mut cx.scratch.budget)?;
        for (x, out) in x.chunks_exact(len).zip(out.chunks_exact_mut(channels)) {
            sums.fill(0);
            cx.isa.call(|| {
                for x in x.chunks_exact(channels) {
                    x.iter().zip(&mut *sums).for_each(|(x, sum)| *sum += i32::from(*x));
                }
                for (sum, out) in sums.iter().zip(&mut *out) {
                    let value = (*sum as f32 + bias) * factor + zero_point as f32;
                    *out = round_to_i8(clamp_nan_to_low(value, low, high), 0.0);
                }
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantization::INT8_RANGE;

    #[test]
    fn images_whose_sums_may_overflow_are_rejected() {
        let params = QuantizationParams { scale: 1.0, zero_point: 0 };
        let to = OutputQuantization { params, range: INT8_RANGE };
        let mut op = GlobalAvgPooling2dQ8 { keeps_dims: false, from: params, to };
        let mut reshape = |side: usize| {
            op.reshape(&[Shape::of([1, side, side, 1])], &mut MemoryBudget::new(usize::MAX))
        };
        assert_eq!(reshape(4096), Ok(Shape::of([1, 1])));
        assert_eq!(reshape(4097), Err(TENSOR_TOO_LARGE));
    }
}
