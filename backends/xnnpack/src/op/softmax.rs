//! Softmax along the last dimension, f32.

use afferent_core::Error;
use afferent_simd::softmax::{Axis, softmax};

use crate::operator::{Input, Operator, RunContext, output_as, unary_input};

pub(crate) struct Softmax;

impl Operator for Softmax {
    fn run(
        &self,
        cx: &mut RunContext<'_>,
        inputs: &[Input<'_>],
        out: &mut [u8],
    ) -> Result<(), Error> {
        let input = unary_input(inputs)?;
        let (from, to) = (input.data::<f32>()?, output_as::<f32>(out)?);
        let len = input.shape.last().copied().unwrap_or(1);
        if len > 0 && !from.is_empty() {
            softmax(cx.isa, Axis { outer: from.len() / len, len, inner: 1 }, from, to);
        }
        Ok(())
    }
}
