//! Batch matrix multiply, f32, and fully connected layer with computed weights.

use afferent_core::Error;
use afferent_simd::{
    gemm::{Addend, Dim, Gemm, MatrixStrides, Output, StridedOperand},
    parallel,
};

use crate::{
    error::SHAPE_MISMATCH,
    loop_nest::{Loop, advance},
    memory::{MemoryBudget, grow},
    operator::{Input, Operator, RunContext, binary_inputs, output_as},
    shape::{MAX_TENSOR_DIMS, Shape},
};

/// Maximum number of batch dimensions.
const MAX_BATCH_DIMS: usize = MAX_TENSOR_DIMS - 2;

pub(crate) struct BatchMatrixMultiply {
    /// True if the right operand is `[.., columns, inner]`.
    transposed: bool,
    /// True if the right operand has no batch dimensions: it is the filter of a fully connected
    /// layer.
    is_fully_connected: bool,
    bias: Option<Vec<f32>>,
    clamp: (f32, f32),
    sizes: Sizes,
}

/// Sizes of the matrices.
#[derive(Clone, Copy)]
struct Sizes {
    rows: usize,
    inner: usize,
    cols: usize,
    /// Loops over the batch.
    batch: [Loop; MAX_BATCH_DIMS],
}

impl BatchMatrixMultiply {
    pub(crate) fn new(transposed: bool, clamp: (f32, f32)) -> Self {
        Self { transposed, is_fully_connected: false, bias: None, clamp, sizes: Sizes::EMPTY }
    }

    /// Fully connected layer whose filter is the second input.
    pub(crate) fn fully_connected(
        transposed: bool,
        bias: Option<Vec<f32>>,
        clamp: (f32, f32),
    ) -> Self {
        Self { is_fully_connected: true, bias, ..Self::new(transposed, clamp) }
    }

    /// Product of a vector and a matrix.
    fn reshape_vector(&mut self, a: &Shape, b: &Shape) -> Result<Shape, Error> {
        let (&[inner], &[m, n]) = (&**a, &**b) else { return Err(SHAPE_MISMATCH) };
        let (k, cols) = if self.transposed { (n, m) } else { (m, n) };
        if k != inner {
            return Err(SHAPE_MISMATCH);
        }
        self.sizes = Sizes { rows: 1, inner, cols, ..Sizes::EMPTY };
        Ok(Shape::of([cols]))
    }
}

impl Sizes {
    const EMPTY: Self = Self { rows: 0, inner: 0, cols: 0, batch: [Loop::ONCE; MAX_BATCH_DIMS] };
}

impl Operator for BatchMatrixMultiply {
    fn reshape(&mut self, inputs: &[Shape], _: &mut MemoryBudget) -> Result<Shape, Error> {
        let [a, b] = binary_inputs(inputs)?;
        let (&[.., rows, inner], &[.., m, n]) = (&**a, &**b) else {
            return self.reshape_vector(a, b);
        };
        let (k, cols) = if self.transposed { (n, m) } else { (m, n) };
        if k != inner || (self.is_fully_connected && b.len() != 2) {
            return Err(SHAPE_MISMATCH);
        }
        let mut sizes = Sizes { rows, inner, cols, ..Sizes::EMPTY };
        if self.is_fully_connected {
            let (rows, ..) = a.split_around(a.len() - 1);
            self.sizes = Sizes { rows, ..sizes };
            return a.fully_connected(inner, cols);
        }
        let rank = a.len().max(b.len());
        let mut out = [1; MAX_TENSOR_DIMS];
        let size = |shape: &Shape, dim: usize| {
            (dim + shape.len()).checked_sub(rank).map_or(1, |dim| shape[dim])
        };
        let mut strides = [rows * inner, m * n];
        for dim in (0..rank - 2).rev() {
            let (i, j) = (size(a, dim), size(b, dim));
            if i != j && i != 1 && j != 1 {
                return Err(SHAPE_MISMATCH);
            }
            out[dim] = if i == 1 { j } else { i };
            let broadcast =
                [if i == 1 { 0 } else { strides[0] }, if j == 1 { 0 } else { strides[1] }];
            sizes.batch[dim + MAX_TENSOR_DIMS - rank] = Loop { len: out[dim], strides: broadcast };
            strides = [strides[0] * i, strides[1] * j];
        }
        (out[rank - 2], out[rank - 1]) = (rows, cols);
        self.sizes = sizes;
        let out = Shape::new(&out[..rank]).ok_or(SHAPE_MISMATCH)?;
        out.numel()?;
        Ok(out)
    }

    fn run(
        &self,
        cx: &mut RunContext<'_>,
        inputs: &[Input<'_>],
        out: &mut [u8],
    ) -> Result<(), Error> {
        let [a, b] = binary_inputs(inputs)?;
        let (a, b, out) = (a.data::<f32>()?, b.data::<f32>()?, output_as::<f32>(out)?);
        let Sizes { rows, inner, cols, batch } = self.sizes;
        if out.is_empty() {
            return Ok(());
        }
        let mut indices = [0; MAX_BATCH_DIMS];
        let mut offsets = [0, 0];
        for out in out.chunks_exact_mut(rows * cols) {
            let a = a.get(offsets[0]..).ok_or(SHAPE_MISMATCH)?;
            let b = b.get(offsets[1]..).ok_or(SHAPE_MISMATCH)?;
            let row_dim = Dim { len: rows, stride: inner };
            let (inner_stride, col_stride) = if self.transposed { (1, inner) } else { (cols, 1) };
            let inner_dim = |stride| Dim { len: inner, stride };
            let col_dim = Dim { len: cols, stride: col_stride };
            let bias = self.bias.as_deref();
            let bias_strides = MatrixStrides { row: 0, col: 1 };
            let gemm = Gemm {
                a: StridedOperand::new(a, row_dim, inner_dim(1)).ok_or(SHAPE_MISMATCH)?,
                b: StridedOperand::new(b, col_dim, inner_dim(inner_stride))
                    .ok_or(SHAPE_MISMATCH)?,
                rows,
                inner,
                cols,
                alpha: 1.0,
                addend: bias.map(|data| Addend { data, strides: bias_strides, beta: 1.0 }),
                clamp: Some(self.clamp),
            };
            let (gemm, strides) = gemm.oriented(cx.isa, MatrixStrides { row: cols, col: 1 });
            let threads = parallel::threads(cx.workers);
            let len = gemm.scratch_len(cx.isa, threads);
            let scratch = grow(&mut cx.scratch.floats, len, &mut cx.scratch.budget)?;
            let out = Output { data: out, strides };
            gemm.run(cx.isa, out, scratch, cx.workers).or(Err(SHAPE_MISMATCH))?;
            advance(&batch, &mut indices, &mut offsets);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::run_inputs;

    #[test]
    fn empty_inner_dimension_yields_the_clamped_bias() {
        for transposed in [false, true] {
            let bias = vec![-3.0, 1.0, 9.0];
            let mut product =
                BatchMatrixMultiply::fully_connected(transposed, Some(bias), (-1.0, 5.0));
            let right = if transposed { [3, 0] } else { [0, 3] };
            let shapes = [Shape::of([2, 0]), Shape::of(right)];
            let to = product.reshape(&shapes, &mut MemoryBudget::new(usize::MAX)).unwrap();
            let empty: &[f32] = &[];
            let inputs =
                shapes.each_ref().map(|shape| Input { shape, bytes: bytemuck::cast_slice(empty) });
            let found = run_inputs(&product, &inputs, to, f32::NAN, 1);
            assert_eq!(found, [-1.0, 1.0, 5.0, -1.0, 1.0, 5.0]);
        }
    }
}
