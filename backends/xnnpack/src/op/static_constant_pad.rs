//! Static constant pad: surrounds a tensor with a constant value.

use afferent_core::Error;

use crate::{
    error::SHAPE_MISMATCH,
    memory::MemoryBudget,
    operator::{Input, Operator, RunContext, output_as, unary_input},
    shape::Shape,
    strided_copy::{StridedCopy, contiguous_strides},
};

/// Value of the padding.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fill {
    /// 1-byte elements.
    I8(i8),
    /// 4-byte elements. An int32 value is passed by its bits.
    F32(f32),
}

impl Fill {
    /// Bytes of an element.
    pub(crate) fn element_size(self) -> usize {
        match self {
            Self::I8(_) => 1,
            Self::F32(_) => 4,
        }
    }
}

pub(crate) struct StaticConstantPad {
    /// Padding before each dimension.
    before: Shape,
    /// Padding after each dimension.
    after: Shape,
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
        match self.fill {
            Fill::I8(value) => output_as::<i8>(out)?.fill(value),
            Fill::F32(value) => output_as::<f32>(out)?.fill(value),
        }
        self.copy.run(cx.isa, inputs, self.fill.element_size(), out)
    }
}
