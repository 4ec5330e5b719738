//! Batch matrix multiply, f32, and fully connected layer with computed weights or a computed bias.

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
    /// layer. A third input is the bias.
    is_fully_connected: bool,
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
        Self { transposed, is_fully_connected: false, clamp, sizes: Sizes::EMPTY }
    }

    /// Fully connected layer whose inputs are input, filter, and optionally bias.
    pub(crate) fn fully_connected(transposed: bool, clamp: (f32, f32)) -> Self {
        Self { is_fully_connected: true, ..Self::new(transposed, clamp) }
    }

    /// Splits the inputs into both operands and the bias.
    fn operands<'i, T>(&self, inputs: &'i [T]) -> Result<([&'i T; 2], Option<&'i T>), Error> {
        match inputs {
            [a, b, bias] if self.is_fully_connected => Ok(([a, b], Some(bias))),
            inputs => Ok((binary_inputs(inputs)?, None)),
        }
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
        let ([a, b], bias) = self.operands(inputs)?;
        if let Some(bias) = bias {
            let cols = if self.transposed { b.first() } else { b.last() };
            if bias.len() != 1 || bias.first() != cols {
                return Err(SHAPE_MISMATCH);
            }
        }
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
        let ([a, b], bias) = self.operands(inputs)?;
        let bias = bias.map(Input::data::<f32>).transpose()?;
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
    use crate::testing::{close, floats, run_inputs};

    /// Runs `x` `[rows, inner]` times a filter, plus a bias.
    fn fully_connected(transposed: bool, [rows, inner, cols]: [usize; 3], clamp: (f32, f32)) {
        let x = floats(rows * inner);
        let filter: Vec<f32> = floats(inner * cols + 1).split_off(1);
        for bias in [None, Some(floats(cols))] {
            let mut layer = BatchMatrixMultiply::fully_connected(transposed, clamp);
            let filter_sizes = if transposed { [cols, inner] } else { [inner, cols] };
            let mut shapes = vec![Shape::of([rows, inner]), Shape::of(filter_sizes)];
            let mut data = vec![&x[..], &filter];
            if let Some(bias) = &bias {
                shapes.push(Shape::of([cols]));
                data.push(bias);
            }
            let to = layer.reshape(&shapes, &mut MemoryBudget::new(usize::MAX)).unwrap();
            let bytes = |data| bytemuck::cast_slice::<f32, u8>(data);
            let inputs = shapes.iter().zip(data);
            let inputs: Vec<_> =
                inputs.map(|(shape, data)| Input { shape, bytes: bytes(data) }).collect();
            let found = run_inputs(&layer, &inputs, to, f32::NAN, 1);
            let expected: Vec<f32> = (0..rows * cols)
                .map(|at| {
                    let (row, col) = (at / cols, at % cols);
                    let weight =
                        |k| filter[if transposed { col * inner + k } else { k * cols + col }];
                    let sum: f32 = (0..inner).map(|k| x[row * inner + k] * weight(k)).sum();
                    (sum + bias.as_ref().map_or(0.0, |bias| bias[col])).clamp(clamp.0, clamp.1)
                })
                .collect();
            close(&found, &expected);
        }
    }

    #[test]
    fn computed_weights_and_bias_match_the_definition() {
        for transposed in [false, true] {
            for dims in [[1, 1, 1], [1, 300, 17], [2, 0, 3], [3, 32, 16], [17, 5, 70], [40, 9, 1]] {
                fully_connected(transposed, dims, (f32::NEG_INFINITY, f32::INFINITY));
                fully_connected(transposed, dims, (-0.5, 0.25));
            }
        }
    }

    #[test]
    fn bias_of_another_length_is_rejected() {
        for (transposed, filter) in [(false, [4, 3]), (true, [3, 4])] {
            for bias in [&[4][..], &[], &[1], &[1, 3]] {
                let mut layer = BatchMatrixMultiply::fully_connected(transposed, (-1.0, 1.0));
                let bias = Shape::new(bias).unwrap();
                let shapes = [Shape::of([2, 4]), Shape::of(filter), bias];
                let found = layer.reshape(&shapes, &mut MemoryBudget::new(usize::MAX));
                assert_eq!(found, Err(SHAPE_MISMATCH));
            }
        }
    }
}
