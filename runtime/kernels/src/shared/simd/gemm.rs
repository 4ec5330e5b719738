//! Matrix multiplication of `f32` by the SIMD GEMM.

use afferent_core::{Error, KernelContext};
use afferent_simd::gemm::{Addend, Gemm, Lines, Target};

use crate::shared::{
    accumulator::{Accumulator, Operand},
    matmul::{Matmul, Matrix},
    simd::{as_f32, as_f32_mut, isa_or_fallback, threads},
};

/// Rows or columns of `matrix` as operand of a GEMM: counts and strides of the vectors and of their
/// elements.
fn lines<T: Operand>(
    matrix: Matrix<'_, T>,
    lines: (usize, usize),
    elements: (usize, usize),
) -> Option<Lines<'_>> {
    Lines::new(as_f32(matrix.data)?, lines, elements)
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
            row: matrix.row_stride,
            col: matrix.col_stride,
            beta: beta.to_element(),
        }),
        None => None,
    };
    let a = lines(a, (rows, a.row_stride), (inner, a.col_stride))?;
    let b = lines(b, (cols, b.col_stride), (inner, b.row_stride))?;
    let alpha = product.alpha.to_element();
    let product = Gemm { a, b, rows, inner, cols, alpha, addend, clamp: None };
    let data = as_f32_mut(out)?;
    let isa = isa_or_fallback();
    let (product, row, col) = product.oriented(isa, row, col);
    if product.is_vector() {
        return product.write_vector(isa, Target { data, row, col }).map(Ok);
    }
    let workers = cx.workers();
    match cx.scratch(product.scratch_len(isa, threads(workers))) {
        Ok(scratch) => product.write(isa, Target { data, row, col }, scratch, workers).map(Ok),
        Err(error) => Some(Err(error)),
    }
}
