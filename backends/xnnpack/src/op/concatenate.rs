//! Concatenation along a dimension, for elements of any size.

use afferent_core::Error;

use crate::{
    error::SHAPE_MISMATCH,
    memory::MemoryBudget,
    operator::{Input, Operator, RunContext, output_as, unary_input},
    shape::Shape,
    strided_copy::interleave,
};

pub(crate) struct Concatenate {
    pub(crate) axis: usize,
    /// Bytes of an element.
    pub(crate) element_size: usize,
}

impl Operator for Concatenate {
    fn reshape(&mut self, inputs: &[Shape], _: &mut MemoryBudget) -> Result<Shape, Error> {
        let first = unary_input(inputs)?;
        let mut total = 0_usize;
        for input in inputs {
            let size = *input.get(self.axis).ok_or(SHAPE_MISMATCH)?;
            if input.with(self.axis, 0) != first.with(self.axis, 0) {
                return Err(SHAPE_MISMATCH);
            }
            total = total.checked_add(size).ok_or(SHAPE_MISMATCH)?;
        }
        let out = first.with(self.axis, total);
        out.numel()?;
        Ok(out)
    }

    fn run(
        &self,
        cx: &mut RunContext<'_>,
        inputs: &[Input<'_>],
        out: &mut [u8],
    ) -> Result<(), Error> {
        let (outer, ..) = unary_input(inputs)?.shape.split_around(self.axis);
        if out.is_empty() {
            return Ok(());
        }
        // Rotary embeddings interleave single numbers of two tensors.
        if let ([a, b], 4) = (inputs, self.element_size)
            && [a, b].iter().all(|input| input.bytes.len() == 4 * outer)
        {
            let (pair, out) = ([a.data::<f32>()?, b.data()?], output_as(out)?);
            cx.isa.call(|| interleave(pair, out));
            return Ok(());
        }
        let mut start = 0;
        let out_stride = out.len() / outer;
        for input in inputs {
            let (_, size, inner) = input.shape.split_around(self.axis);
            let len = size * inner * self.element_size;
            if len == 0 {
                continue;
            }
            for (from, to) in input.bytes.chunks_exact(len).zip(out.chunks_exact_mut(out_stride)) {
                to.get_mut(start..start + len).ok_or(SHAPE_MISMATCH)?.copy_from_slice(from);
            }
            start += len;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::run_inputs;

    #[test]
    fn inputs_follow_each_other_along_the_axis() {
        // `outer` rows; `lens` is the row length of each input.
        let check = |outer: usize, lens: &[usize]| {
            let part = |at: usize, len: usize| -> Vec<f32> {
                (0..outer * len).map(|number| (100 * at + number) as f32).collect()
            };
            let parts: Vec<_> = lens.iter().enumerate().map(|(at, len)| part(at, *len)).collect();
            let shapes: Vec<_> = lens.iter().map(|len| Shape::of([outer, *len])).collect();
            let mut op = Concatenate { axis: 1, element_size: 4 };
            let to = op.reshape(&shapes, &mut MemoryBudget::new(usize::MAX)).unwrap();
            let inputs: Vec<_> = (shapes.iter().zip(&parts))
                .map(|(shape, part)| Input { shape, bytes: bytemuck::cast_slice(part) })
                .collect();
            let rows = (0..outer).flat_map(|row| {
                let row_parts =
                    lens.iter().zip(&parts).map(move |(len, part)| &part[row * len..][..*len]);
                row_parts.flatten().copied()
            });
            let expected: Vec<f32> = rows.collect();
            assert_eq!(run_inputs(&op, &inputs, to, f32::NAN, 1), expected, "{outer} {lens:?}");
        };
        for outer in [1, 2, 7, 40] {
            [&[1, 1][..], &[1], &[1, 1, 1], &[2, 2], &[1, 2], &[3, 1], &[0, 2], &[5, 4, 1]]
                .iter()
                .for_each(|lens| check(outer, lens));
        }
    }
}
