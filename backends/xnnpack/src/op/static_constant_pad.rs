//! Static constant pad: surrounds a tensor with a constant value.

use afferent_core::Error;

use crate::{
    error::SHAPE_MISMATCH,
    memory::MemoryBudget,
    operator::{Input, Operator, RunContext, unary_input},
    shape::Shape,
    strided_copy::{Fill, StridedCopy, contiguous_strides},
};

pub(crate) struct StaticConstantPad {
    /// Padding before each dimension.
    before: Shape,
    /// Padding after each dimension.
    after: Shape,
    /// Value of the padding.
    fill: Fill,
    copy: StridedCopy,
}

impl StaticConstantPad {
    pub(crate) fn new(before: Shape, after: Shape, fill: Fill) -> Self {
        Self { before, after, fill, copy: StridedCopy::default() }
    }
}

impl Operator for StaticConstantPad {
    fn reshape(&mut self, inputs: &[Shape], _: &mut MemoryBudget) -> Result<Shape, Error> {
        let input = unary_input(inputs)?;
        input.numel()?;
        let Self { before, after, .. } = self;
        if before.len() != input.len() || after.len() != input.len() {
            return Err(SHAPE_MISMATCH);
        }
        let mut out = *input;
        for dim in 0..input.len() {
            let padding = before[dim].checked_add(after[dim]);
            let size = padding.and_then(|padding| padding.checked_add(input[dim]));
            out = out.with(dim, size.ok_or(SHAPE_MISMATCH)?);
        }
        out.numel()?;
        let to = contiguous_strides(&out);
        let start = (0..input.len()).map(|dim| before[dim] * to[dim]).sum();
        self.copy = StridedCopy::new(input, &contiguous_strides(input), &to, [0, start]);
        Ok(out)
    }

    fn run(
        &self,
        cx: &mut RunContext<'_>,
        inputs: &[Input<'_>],
        out: &mut [u8],
    ) -> Result<(), Error> {
        self.copy.run(cx.isa, inputs, (self.fill, true), out)
    }
}
