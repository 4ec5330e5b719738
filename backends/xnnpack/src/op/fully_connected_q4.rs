//! Fully connected layer with 4-bit weights. Each input row is quantized dynamically.

use afferent_core::Error;
use afferent_simd::qgemm::q4::{CHUNK_LEN, Q4Gemm};

use crate::{
    error::SHAPE_MISMATCH,
    memory::{MemoryBudget, grow},
    operator::{Input, Operator, RunContext, Scratch, output_as, unary_input},
    pack::q4::PackedQ4,
    quantization::quantize_dynamic,
    shape::Shape,
};

pub(crate) struct FullyConnectedQ4 {
    pub(crate) packed: PackedQ4,
    pub(crate) clamp: (f32, f32),
}

impl Operator for FullyConnectedQ4 {
    fn reshape(&mut self, inputs: &[Shape], _: &mut MemoryBudget) -> Result<Shape, Error> {
        unary_input(inputs)?.fully_connected(self.packed.inner, self.packed.cols)
    }

    fn run(
        &self,
        cx: &mut RunContext<'_>,
        inputs: &[Input<'_>],
        out: &mut [u8],
    ) -> Result<(), Error> {
        let (x, out) = (unary_input(inputs)?.data::<f32>()?, output_as::<f32>(out)?);
        if out.is_empty() || x.is_empty() {
            return if out.is_empty() { Ok(()) } else { Err(SHAPE_MISMATCH) };
        }
        let PackedQ4 { inner, cols, scales, bias, .. } = &self.packed;
        let (rows, chunks) = (out.len() / cols, inner.div_ceil(CHUNK_LEN));
        let Scratch { words, quantized, floats, budget, .. } = &mut *cx.scratch;
        let len = rows * chunks * CHUNK_LEN;
        let (quantized, padded_row) =
            grow(quantized, len + chunks * CHUNK_LEN, budget)?.split_at_mut(len);
        let chunk_offsets = grow(words, rows * chunks, budget)?;
        let (zero_points, row_scale) = grow(floats, 2 * rows, budget)?.split_at_mut(rows);
        // The GEMM reads the first chunk of all rows, then the second of all rows.
        let chunk_major = quantized.as_chunks_mut::<CHUNK_LEN>().0;
        for (row, x) in x.chunks_exact(*inner).take(rows).enumerate() {
            let params = cx.isa.call(|| {
                padded_row[*inner..].fill(0);
                let params = quantize_dynamic(x, &mut padded_row[..*inner]);
                for (at, chunk) in padded_row.as_chunks::<CHUNK_LEN>().0.iter().enumerate() {
                    let at = at * rows + row;
                    chunk_major[at] = *chunk;
                    // Weights are stored with zero point 8.
                    chunk_offsets[at] = -8 * chunk.iter().map(|x| i32::from(*x)).sum::<i32>();
                }
                params
            });
            (zero_points[row], row_scale[row]) = (params.zero_point as f32, params.scale);
        }
        let (weights, column_sums) = self.packed.panels_and_sums();
        let gemm = Q4Gemm {
            x: quantized,
            chunk_offsets,
            zero_points,
            row_scale,
            chunks,
            cols: *cols,
            weights,
            scale: scales,
            column_sums,
            bias,
            clamp: self.clamp,
        };
        gemm.run(cx.isa, out, cx.workers).or(Err(SHAPE_MISMATCH))
    }
}
