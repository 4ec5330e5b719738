//! GEMV: the product of a matrix with a vector, bound by memory bandwidth.

use super::{Addend, Gemm, Output, StridedOperand};
use crate::{Float, Isa, Routine, Simd, SizeError, epilogue::clamp_scalar};

/// Rows that are read in parallel.
const TILE_ROWS: usize = 4;

impl Gemm<'_, StridedOperand<'_>, StridedOperand<'_>> {
    /// True if [`Gemm::run_gemv`] computes this product: one column, and contiguous vectors.
    pub fn is_gemv(&self) -> bool {
        self.cols == 1 && self.inner > 0 && self.a.k_stride == 1 && self.b.k_stride == 1
    }

    /// Computes the product and writes it to `out`.
    ///
    /// # Errors
    /// [`SizeError`] as [`Gemm::run`], or if [`Gemm::is_gemv`] returns false.
    pub fn run_gemv(&self, isa: Isa, out: Output<'_>) -> Result<(), SizeError> {
        if self.rows == 0 {
            return Ok(());
        }
        self.check(&out)?;
        SizeError::check_parameter("cols", "1, of contiguous operands", self.is_gemv())?;
        isa.run(Rows { product: self, out });
        Ok(())
    }
}

struct Rows<'r, 'd> {
    product: &'r Gemm<'d, StridedOperand<'d>, StridedOperand<'d>>,
    out: Output<'r>,
}

impl Routine for Rows<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { product, out } = self;
        let Gemm { a, rows, inner, .. } = *product;
        let vector = &product.b.data[..inner];
        let whole = rows - rows % TILE_ROWS;
        let row = |i: usize| &a.data[i * a.stride..][..inner];
        for i in (0..whole).step_by(TILE_ROWS) {
            let sums = dots(simd, [row(i), row(i + 1), row(i + 2), row(i + 3)], vector);
            for (i, sum) in (i..).zip(sums) {
                out.data[i * out.strides.row] = finish(product, i, sum);
            }
        }
        for i in whole..rows {
            let [sum] = dots(simd, [row(i)], vector);
            out.data[i * out.strides.row] = finish(product, i, sum);
        }
    }
}

/// Dot products of `R` rows with a vector of the same length.
#[inline(always)]
fn dots<S: Simd, const R: usize>(simd: S, rows: [&[f32]; R], vector: &[f32]) -> [f32; R] {
    let step = 2 * S::LANES;
    let whole = vector.len() - vector.len() % step;
    let mut sums = [[simd.zero(); 2]; R];
    for k in (0..whole).step_by(step) {
        let (x, y) = (simd.load(&vector[k..]), simd.load(&vector[k + S::LANES..]));
        for (sums, row) in sums.iter_mut().zip(rows) {
            let row = &row[k..k + step];
            sums[0] = simd.load(row).mul_add(x, sums[0]);
            sums[1] = simd.load(&row[S::LANES..]).mul_add(y, sums[1]);
        }
    }
    for k in (whole..vector.len()).step_by(S::LANES) {
        let x = simd.load_partial(&vector[k..]);
        for (sums, row) in sums.iter_mut().zip(rows) {
            sums[0] = simd.load_partial(&row[k..]).mul_add(x, sums[0]);
        }
    }
    sums.map(|[a, b]| (a + b).sum())
}

/// Applies `alpha`, the addend and the clamp to the dot product of row `i`.
#[inline(always)]
fn finish(
    product: &Gemm<'_, StridedOperand<'_>, StridedOperand<'_>>,
    i: usize,
    mut sum: f32,
) -> f32 {
    sum *= product.alpha;
    if let Some(Addend { data, strides, beta }) = product.addend {
        sum += beta * data[i * strides.row];
    }
    product.clamp.map_or(sum, |bounds| clamp_scalar(sum, bounds))
}
