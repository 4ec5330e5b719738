//! Products of a matrix and a vector, at the speed of the memory.

use super::{Addend, Gemm, Lines, Target};
use crate::{Float, Isa, Routine, Simd};

/// Rows that are read at the same time.
const ROWS: usize = 4;

impl Gemm<'_, Lines<'_>, Lines<'_>> {
    /// Whether [`Gemm::write_vector`] computes this product.
    pub fn is_vector(&self) -> bool {
        self.cols == 1 && self.inner > 0 && self.a.k_step == 1 && self.b.k_step == 1
    }

    /// Writes the product with a vector. `None` where [`Gemm::write`] would give that, or when the
    /// product is none with a vector.
    pub fn write_vector(&self, isa: Isa, out: Target<'_>) -> Option<()> {
        if self.rows == 0 {
            return Some(());
        }
        self.fits(&out)?;
        self.is_vector().then(|| isa.run(Rows { product: self, out }))
    }
}

struct Rows<'r, 'd> {
    product: &'r Gemm<'d, Lines<'d>, Lines<'d>>,
    out: Target<'r>,
}

impl Routine for Rows<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { product, out } = self;
        let Gemm { a, rows, inner, .. } = *product;
        let vector = &product.b.data[..inner];
        let whole = rows - rows % ROWS;
        let row = |i: usize| &a.data[i * a.step..][..inner];
        for i in (0..whole).step_by(ROWS) {
            let sums = dots(simd, [row(i), row(i + 1), row(i + 2), row(i + 3)], vector);
            for (i, sum) in (i..).zip(sums) {
                out.data[i * out.row] = finish(product, i, sum);
            }
        }
        for i in whole..rows {
            let [sum] = dots(simd, [row(i)], vector);
            out.data[i * out.row] = finish(product, i, sum);
        }
    }
}

/// The products of rows and a vector of the same length.
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
        let x = simd.load_first(&vector[k..]);
        for (sums, row) in sums.iter_mut().zip(rows) {
            sums[0] = simd.load_first(&row[k..]).mul_add(x, sums[0]);
        }
    }
    sums.map(|[a, b]| (a + b).sum())
}

#[inline(always)]
fn finish(product: &Gemm<'_, Lines<'_>, Lines<'_>>, i: usize, sum: f32) -> f32 {
    let mut sum = product.alpha * sum;
    if let Some(Addend { data, row, beta, .. }) = product.addend {
        sum += beta * data[i * row];
    }
    if let Some((low, high)) = product.clamp {
        sum = if sum < low { low } else { sum };
        sum = if sum > high { high } else { sum };
    }
    sum
}
