//! 2-D average pooling of NHWC images, f32. Padding does not count.

use afferent_core::Error;

use super::unary::clamp_slice;
use crate::{
    memory::MemoryBudget,
    operator::{Input, Operator, RunContext, output_as, unary_input},
    pooling::for_each_tap,
    shape::Shape,
    window::Window,
};

pub(crate) struct AvgPooling2d {
    pub(crate) window: Window,
    pub(crate) clamp: (f32, f32),
}

impl Operator for AvgPooling2d {
    fn reshape(&mut self, inputs: &[Shape], _: &mut MemoryBudget) -> Result<Shape, Error> {
        self.window.pooled_shape(*unary_input(inputs)?)
    }

    fn run(
        &self,
        cx: &mut RunContext<'_>,
        inputs: &[Input<'_>],
        out: &mut [u8],
    ) -> Result<(), Error> {
        let out = output_as::<f32>(out)?;
        out.fill(0.0);
        for_each_tap(
            &self.window,
            cx.isa,
            unary_input(inputs)?,
            out,
            |to, from: &[f32], _, _| from.iter().zip(to).for_each(|(x, to)| *to += *x),
            |to, count| {
                let factor = 1.0 / count.max(1) as f32;
                to.iter_mut().for_each(|to| *to *= factor);
            },
        )?;
        clamp_slice(cx.isa, self.clamp, out);
        Ok(())
    }
}
