//! Where vectorised arithmetic on `f32` takes over: with the feature `std`.

use afferent_core::{Error, KernelContext, ScalarType, Workers};
use afferent_simd::{
    conv::Conv,
    gemm::{Addend, Gemm, Lines, Target},
};

use crate::{
    accumulator::{Accumulator, Operand},
    conv::{Geometry, Operands, Steps},
    matmul::{Matrix, Product},
    vectors::{isa, only_isa},
};

/// The elements as `f32`, if they are that and vectorised code is there.
fn single<T: Operand>(data: &[T]) -> Option<&[f32]> {
    bytemuck::try_cast_slice(data).ok().filter(|_| is_single::<T>())
}

fn single_mut<T: Operand>(data: &mut [T]) -> Option<&mut [f32]> {
    bytemuck::try_cast_slice_mut(data).ok().filter(|_| is_single::<T>())
}

fn is_single<T: Operand>() -> bool {
    isa().is_some() && T::DTYPE == ScalarType::Float
}

/// The lines of `matrix`: rows or columns.
fn lines<T: Operand>(
    matrix: Matrix<'_, T>,
    lines: (usize, usize),
    elements: (usize, usize),
) -> Option<Lines<'_>> {
    Lines::new(single(matrix.data)?, lines, elements)
}

fn threads(workers: Option<&dyn Workers>) -> usize {
    workers.map_or(1, Workers::threads)
}

/// Writes a product as [`Product::write`] does; `None` when it is not one of `f32` or does not fit.
pub(crate) fn write_product<T: Operand>(
    cx: &mut KernelContext<'_>,
    product: &Product<'_, T>,
    out: &mut [T],
    row: usize,
    col: usize,
) -> Option<Result<(), Error>> {
    let Product { a, b, rows, inner, cols, .. } = *product;
    let addend = match product.addend {
        Some((matrix, beta)) => Some(Addend {
            data: single(matrix.data)?,
            row: matrix.row,
            col: matrix.col,
            beta: beta.element(),
        }),
        None => None,
    };
    let a = lines(a, (rows, a.row), (inner, a.col))?;
    let b = lines(b, (cols, b.col), (inner, b.row))?;
    let alpha = product.alpha.element();
    let product = Gemm { a, b, rows, inner, cols, alpha, addend, clamp: None };
    let data = single_mut(out)?;
    let isa = only_isa();
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

/// Writes a convolution; `None` when it is not one of `f32` or has strides that only portable code
/// computes.
pub(crate) fn write_convolution<T: Operand>(
    cx: &mut KernelContext<'_>,
    g: &Geometry,
    tensors: &Operands<'_, T>,
    out: &mut [T],
    to: Steps,
) -> Option<Result<(), Error>> {
    let conv = Conv {
        geometry: *g,
        x: single(tensors.x)?,
        x_steps: tensors.x_steps,
        weight: single(tensors.weight)?,
        w_steps: tensors.w_steps,
        bias: match tensors.bias {
            Some(bias) => Some(single(bias)?),
            None => None,
        },
        clamp: None,
    };
    let (isa, workers) = (only_isa(), cx.workers());
    match cx.scratch(conv.scratch_len(isa, to, threads(workers))?) {
        Ok(scratch) => conv.write(isa, single_mut(out)?, to, scratch, workers).map(Ok),
        Err(error) => Some(Err(error)),
    }
}
