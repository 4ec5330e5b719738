//! Matrix multiplication of `f32` by the SIMD GEMM.

use afferent_core::{Error, KernelContext};
use afferent_simd::{
    gemm::{Addend, Dim, Gemm, MatrixStrides, Output, StridedOperand},
    parallel,
};

use crate::shared::{
    accumulator::{Accumulator, Operand},
    matmul::{Matmul, Matrix},
    simd::{as_f32, as_f32_mut, isa_or_fallback},
};

/// Rows or columns of `matrix` as operand of a GEMM.
fn operand<T: Operand>(
    matrix: Matrix<'_, T>,
    vectors: Dim,
    elements: Dim,
) -> Option<StridedOperand<'_>> {
    StridedOperand::new(as_f32(matrix.data)?, vectors, elements)
}

/// Writes a product like [`Matmul::write`]. Returns `None` if the dtype is not `f32` or a matrix
/// exceeds its slice.
pub(crate) fn try_matmul<T: Operand>(
    cx: &mut KernelContext<'_>,
    product: &Matmul<'_, T>,
    out: &mut [T],
    row: usize,
    col: usize,
) -> Option<Result<(), Error>> {
    let Matmul { a, b, rows, inner, cols, .. } = *product;
    let addend = match product.addend {
        Some((matrix, beta)) => Some(Addend {
            data: as_f32(matrix.data)?,
            strides: MatrixStrides { row: matrix.row_stride, col: matrix.col_stride },
            beta: beta.to_element(),
        }),
        None => None,
    };
    let dim = |len, stride| Dim { len, stride };
    let a = operand(a, dim(rows, a.row_stride), dim(inner, a.col_stride))?;
    let b = operand(b, dim(cols, b.col_stride), dim(inner, b.row_stride))?;
    let alpha = product.alpha.to_element();
    let product = Gemm { a, b, rows, inner, cols, alpha, addend, clamp: None };
    let data = as_f32_mut(out)?;
    let isa = isa_or_fallback();
    let (product, strides) = product.oriented(isa, MatrixStrides { row, col });
    if product.is_gemv() {
        return product.run_gemv(isa, Output { data, strides }).ok().map(Ok);
    }
    let workers = cx.workers();
    match cx.scratch(product.scratch_len(isa, parallel::threads(workers))) {
        Ok(scratch) => product.run(isa, Output { data, strides }, scratch, workers).ok().map(Ok),
        Err(error) => Some(Err(error)),
    }
}
