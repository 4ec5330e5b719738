//! Copy and static reshape, for elements of any size.

use afferent_core::Error;

use crate::{
    error::SHAPE_MISMATCH,
    memory::MemoryBudget,
    operator::{Input, Operator, RunContext, unary_input},
    shape::Shape,
    strided_copy::StridedCopy,
};

pub(crate) struct Copy {
    /// Static reshape; `None` if the shape stays. One size may be 0: it is inferred.
    new_shape: Option<Shape>,
    element_size: usize,
    copy: StridedCopy,
}

impl Copy {
    pub(crate) fn new(new_shape: Option<Shape>, element_size: usize) -> Self {
        Self { new_shape, element_size, copy: StridedCopy::default() }
    }
}

impl Operator for Copy {
    fn reshape(&mut self, inputs: &[Shape], _: &mut MemoryBudget) -> Result<Shape, Error> {
        let input = unary_input(inputs)?;
        let numel = input.numel()?;
        self.copy = StridedCopy::contiguous(numel);
        self.new_shape.map_or(Ok(*input), |shape| infer_size(numel, shape))
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

/// Replaces the size 0 of a new shape by the size that yields `numel` elements.
fn infer_size(numel: usize, shape: Shape) -> Result<Shape, Error> {
    let known = shape
        .iter()
        .filter(|size| **size > 0)
        .try_fold(1_usize, |product, size| product.checked_mul(*size));
    let known = known.ok_or(SHAPE_MISMATCH)?;
    let mut zeros = (0..shape.len()).filter(|dim| shape[*dim] == 0);
    let out = match (zeros.next(), zeros.next()) {
        (None, _) => shape,
        (Some(dim), None) => shape.with(dim, numel / known),
        _ => return Err(SHAPE_MISMATCH),
    };
    if out.numel()? == numel { Ok(out) } else { Err(SHAPE_MISMATCH) }
}
