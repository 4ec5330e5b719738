//! Static transpose: permutes dimensions.

use afferent_core::Error;

use crate::{
    error::SHAPE_MISMATCH,
    memory::MemoryBudget,
    operator::{Input, Operator, RunContext, unary_input},
    shape::Shape,
    strided_copy::{StridedCopy, contiguous_strides},
};

pub(crate) struct StaticTranspose {
    /// Input dimension of each output dimension.
    perm: Vec<usize>,
    element_size: usize,
    copy: StridedCopy,
}

impl StaticTranspose {
    pub(crate) fn new(perm: Vec<usize>, element_size: usize) -> Self {
        Self { perm, element_size, copy: StridedCopy::default() }
    }
}

impl Operator for StaticTranspose {
    fn reshape(&mut self, inputs: &[Shape], _: &mut MemoryBudget) -> Result<Shape, Error> {
        let input = unary_input(inputs)?;
        input.numel()?;
        let sizes: Option<Vec<usize>> =
            self.perm.iter().map(|dim| input.get(*dim).copied()).collect();
        let sizes = sizes.filter(|_| self.perm.len() == input.len());
        let out = sizes.and_then(|sizes| Shape::new(&sizes)).ok_or(SHAPE_MISMATCH)?;
        let strides = contiguous_strides(input);
        let from: Vec<usize> = self.perm.iter().map(|dim| strides[*dim]).collect();
        self.copy = StridedCopy::new(&out, &from, &contiguous_strides(&out), [0, 0]);
        out.numel()?;
        Ok(out)
    }

    fn run(
        &self,
        cx: &mut RunContext<'_>,
        inputs: &[Input<'_>],
        out: &mut [u8],
    ) -> Result<(), Error> {
        self.copy.run(cx.isa, inputs, self.element_size, out)
    }
}
