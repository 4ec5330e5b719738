//! Global average pooling of NHWC images, f32.

use afferent_core::Error;

use super::unary::clamp_slice;
use crate::{
    memory::MemoryBudget,
    operator::{Input, Operator, RunContext, output_as, unary_input},
    shape::Shape,
};

pub(crate) struct GlobalAvgPooling2d {
    pub(crate) keeps_dims: bool,
    pub(crate) clamp: (f32, f32),
}

/// Output shape: `[batch, 1, 1, channels]`, or `[batch, channels]` without `keeps_dims`.
pub(crate) fn output_shape(input: &Shape, keeps_dims: bool) -> Result<Shape, Error> {
    let [batch, _, _, channels] = input.nhwc()?;
    Ok(if keeps_dims { Shape::of([batch, 1, 1, channels]) } else { Shape::of([batch, channels]) })
}

impl Operator for GlobalAvgPooling2d {
    fn reshape(&mut self, inputs: &[Shape], _: &mut MemoryBudget) -> Result<Shape, Error> {
        output_shape(unary_input(inputs)?, self.keeps_dims)
    }

    fn run(
        &self,
        cx: &mut RunContext<'_>,
        inputs: &[Input<'_>],
        out: &mut [u8],
    ) -> Result<(), Error> {
        let input = unary_input(inputs)?;
        let [_, height, width, channels] = input.shape.nhwc()?;
        let (x, out) = (input.data::<f32>()?, output_as::<f32>(out)?);
        let len = height * width * channels;
        out.fill(if len == 0 { f32::NAN } else { 0.0 });
        if len == 0 {
            return Ok(());
        }
        let factor = 1.0 / (height * width) as f32;
        for (x, out) in x.chunks_exact(len).zip(out.chunks_exact_mut(channels)) {
            cx.isa.call(|| {
                for x in x.chunks_exact(channels) {
                    x.iter().zip(&mut *out).for_each(|(x, out)| *out += *x);
                }
                out.iter_mut().for_each(|out| *out *= factor);
            });
        }
        clamp_slice(cx.isa, self.clamp, out);
        Ok(())
    }
}
