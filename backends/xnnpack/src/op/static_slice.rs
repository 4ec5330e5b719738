//! Static slice: copies a contiguous range of each dimension.

use afferent_core::Error;

use crate::{
    error::SHAPE_MISMATCH,
    memory::MemoryBudget,
    operator::{Input, Operator, RunContext, unary_input},
    shape::{MAX_TENSOR_DIMS, Shape},
    strided_copy::{StridedCopy, contiguous_strides},
};

pub(crate) struct StaticSlice {
    /// A negative offset counts from the end.
    offsets: Vec<i64>,
    /// A size of 0 extends to the end.
    sizes: Vec<usize>,
    element_size: usize,
    copy: StridedCopy,
}

impl StaticSlice {
    pub(crate) fn new(offsets: Vec<i64>, sizes: Vec<usize>, element_size: usize) -> Self {
        Self { offsets, sizes, element_size, copy: StridedCopy::default() }
    }

    /// Output shape, and the offset in each dimension.
    fn resolve(&self, input: &Shape) -> Result<(Shape, [usize; MAX_TENSOR_DIMS]), Error> {
        let Self { offsets, sizes, .. } = self;
        if offsets.len() != input.len() || sizes.len() != input.len() {
            return Err(SHAPE_MISMATCH);
        }
        let (mut out, mut resolved) = (*input, [0; MAX_TENSOR_DIMS]);
        for dim in 0..input.len() {
            let input_size = i64::try_from(input[dim]).map_err(|_| SHAPE_MISMATCH)?;
            let offset = if offsets[dim] < 0 { offsets[dim] + input_size } else { offsets[dim] };
            resolved[dim] = usize::try_from(offset).map_err(|_| SHAPE_MISMATCH)?;
            let remaining = input[dim].checked_sub(resolved[dim]).ok_or(SHAPE_MISMATCH)?;
            let size = if sizes[dim] == 0 { remaining } else { sizes[dim] };
            if size > remaining {
                return Err(SHAPE_MISMATCH);
            }
            out = out.with(dim, size);
        }
        Ok((out, resolved))
    }
}

impl Operator for StaticSlice {
    fn reshape(&mut self, inputs: &[Shape], _: &mut MemoryBudget) -> Result<Shape, Error> {
        let input = unary_input(inputs)?;
        input.numel()?;
        let (out, offsets) = self.resolve(input)?;
        let from = contiguous_strides(input);
        let start = (0..input.len()).map(|dim| offsets[dim] * from[dim]).sum();
        self.copy = StridedCopy::new(&out, &from, &contiguous_strides(&out), [start, 0]);
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
