//! Matrix multiplication with any strides: portable code, and dispatch to the SIMD GEMM.

use core::array;

use afferent_core::{Error, KernelContext};

use crate::shared::{
    accumulator::{Accumulator, Operand},
    simd,
};

/// `f32` lanes of a vector register of common processors; fewer where registers are scarce.
const LANES: usize = if cfg!(target_pointer_width = "64") { 8 } else { 4 };

/// Strided matrix: element `(i, j)` is `data[i * row_stride + j * col_stride]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matrix<'a, T> {
    pub(crate) data: &'a [T],
    pub(crate) row_stride: usize,
    pub(crate) col_stride: usize,
}

impl<T> Matrix<'_, T> {
    fn transposed(self) -> Self {
        Self { row_stride: self.col_stride, col_stride: self.row_stride, ..self }
    }

    /// Returns true if all elements of a `rows` × `cols` matrix are in `data`. Both are at least 1.
    fn covers(&self, rows: usize, cols: usize) -> bool {
        let last = |count: usize, stride: usize| (count - 1).checked_mul(stride);
        let last = last(rows, self.row_stride).zip(last(cols, self.col_stride));
        last.and_then(|(row, col)| row.checked_add(col)).is_some_and(|at| at < self.data.len())
    }
}

/// Matrix multiplication `alpha · a · b + beta · addend` of a `rows` × `inner` and an `inner` ×
/// `cols` matrix.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matmul<'a, T: Operand> {
    pub(crate) a: Matrix<'a, T>,
    pub(crate) b: Matrix<'a, T>,
    pub(crate) rows: usize,
    pub(crate) inner: usize,
    pub(crate) cols: usize,
    pub(crate) alpha: T::Acc,
    /// Matrix of the size of the product, and `beta`.
    pub(crate) addend: Option<(Matrix<'a, T>, T::Acc)>,
}

/// Output matrix: element `(i, j)` is `data[i * row_stride + j * col_stride]`.
struct Output<'o, T> {
    data: &'o mut [T],
    row_stride: usize,
    col_stride: usize,
}

impl<T: Operand> Matmul<'_, T> {
    /// Writes the product: element `(i, j)` to `out[i * row_stride + j * col_stride]`.
    pub(crate) fn write(
        &self,
        cx: &mut KernelContext<'_>,
        out: &mut [T],
        row_stride: usize,
        col_stride: usize,
    ) -> Result<(), Error> {
        let written = simd::gemm::try_matmul(cx, self, out, row_stride, col_stride);
        written.unwrap_or_else(|| self.write_portable(out, row_stride, col_stride))
    }

    /// Like [`Matmul::write`], without SIMD code and scratch memory.
    pub(crate) fn write_portable(
        &self,
        out: &mut [T],
        row_stride: usize,
        col_stride: usize,
    ) -> Result<(), Error> {
        let Self { rows, inner, cols, .. } = *self;
        if rows == 0 || cols == 0 {
            return Ok(());
        }
        let is_covered = Matrix { data: &*out, row_stride, col_stride }.covers(rows, cols)
            && (inner == 0 || self.a.covers(rows, inner) && self.b.covers(inner, cols))
            && self.addend.is_none_or(|(matrix, _)| matrix.covers(rows, cols));
        if !is_covered {
            return Err(Error::Internal { reason: "a matrix exceeds its tensor" });
        }
        let target = Output { data: out, row_stride, col_stride };
        if self.a.col_stride == 1 && self.b.row_stride == 1 && inner > 0 {
            self.write_dots(target);
        } else if self.b.col_stride == 1 {
            self.write_tiles(target);
        } else {
            let swapped = Matmul {
                a: self.b.transposed(),
                b: self.a.transposed(),
                rows: cols,
                cols: rows,
                addend: self.addend.map(|(matrix, beta)| (matrix.transposed(), beta)),
                ..*self
            };
            swapped.write_tiles(Output {
                row_stride: col_stride,
                col_stride: row_stride,
                ..target
            });
        }
        Ok(())
    }

    /// Writes the product in tiles of accumulators: elements of `a` times rows of `b`.
    fn write_tiles(&self, mut out: Output<'_, T>) {
        let whole_rows = self.rows - self.rows % 4;
        for j in (0..self.cols).step_by(LANES) {
            for i in (0..whole_rows).step_by(4) {
                let sums = self.tile::<4, LANES>(i, j);
                self.store(&mut out, i, j, &sums);
            }
        }
        for i in whole_rows..self.rows {
            for j in (0..self.cols).step_by(4 * LANES) {
                let sums = self.tile::<1, { 4 * LANES }>(i, j);
                self.store(&mut out, i, j, &sums);
            }
        }
    }

    /// Accumulators of the tile at row `i` and column `j`. [`Matmul::store`] drops the columns past
    /// the last one.
    #[inline(never)]
    fn tile<const R: usize, const C: usize>(&self, i: usize, j: usize) -> [[T::Acc; C]; R] {
        let mut sums = [[T::Acc::default(); C]; R];
        let rows: [&[T]; R] =
            array::from_fn(|r| self.a.data.get((i + r) * self.a.row_stride..).unwrap_or(&[]));
        let left = self.cols - j;
        for k in 0..self.inner {
            let from = k * self.b.row_stride + j * self.b.col_stride;
            let b =
                if let (1, Some(b)) = (self.b.col_stride, self.b.data[from..].first_chunk::<C>()) {
                    // Past the last column follow elements of the next row, which `store` drops.
                    *b
                } else {
                    self.load_partial(from, left)
                };
            let b = b.map(T::widen);
            for (sums, row) in sums.iter_mut().zip(&rows) {
                let a = row[k * self.a.col_stride].widen();
                for (sum, &b) in sums.iter_mut().zip(&b) {
                    *sum = sum.add(a.mul(b));
                }
            }
        }
        sums
    }

    /// Loads up to `left` elements of a row of `b` from offset `from` on; zeros after them.
    #[cold]
    fn load_partial<const C: usize>(&self, from: usize, left: usize) -> [T; C] {
        let mut part = [T::default(); C];
        let rest = self.b.data[from..].iter().step_by(self.b.col_stride.max(1)).take(left);
        for (to, &value) in part.iter_mut().zip(rest) {
            *to = value;
        }
        part
    }

    /// Writes the product as dot products of rows of `a` and columns of `b`, both contiguous.
    fn write_dots(&self, mut out: Output<'_, T>) {
        let (rows, cols) = (self.rows - self.rows % 2, self.cols - self.cols % 4);
        for j in (0..cols).step_by(2) {
            for i in (0..rows).step_by(2) {
                let sums = self.dots::<2, 2>(i, j);
                self.store(&mut out, i, j, &sums);
            }
        }
        if rows < self.rows {
            for j in (0..cols).step_by(4) {
                let sums = self.dots::<1, 4>(rows, j);
                self.store(&mut out, rows, j, &sums);
            }
        }
        for j in cols..self.cols {
            for i in 0..self.rows {
                let sums = self.dots::<1, 1>(i, j);
                self.store(&mut out, i, j, &sums);
            }
        }
    }

    /// Dot products of `R` rows from `i` on and `C` columns from `j` on.
    #[inline(never)]
    fn dots<const R: usize, const C: usize>(&self, i: usize, j: usize) -> [[T::Acc; C]; R] {
        let zero = T::Acc::default();
        let rows: [_; R] = array::from_fn(|r| {
            self.a.data[(i + r) * self.a.row_stride..][..self.inner].as_chunks::<LANES>()
        });
        let cols: [_; C] = array::from_fn(|c| {
            self.b.data[(j + c) * self.b.col_stride..][..self.inner].as_chunks::<LANES>()
        });
        let mut lanes = [[[zero; LANES]; C]; R];
        for k in 0..self.inner / LANES {
            let cols: [[T::Acc; LANES]; C] = array::from_fn(|c| cols[c].0[k].map(T::widen));
            for (lanes, row) in lanes.iter_mut().zip(&rows) {
                let row = row.0[k].map(T::widen);
                for (lanes, col) in lanes.iter_mut().zip(&cols) {
                    for ((lane, &a), &b) in lanes.iter_mut().zip(&row).zip(col) {
                        *lane = lane.add(a.mul(b));
                    }
                }
            }
        }
        array::from_fn(|r| {
            array::from_fn(|c| {
                let rest = rows[r].1.iter().zip(cols[c].1);
                let rest = rest.fold(zero, |sum, (&a, &b)| sum.add(a.widen().mul(b.widen())));
                rest.add(sum_lanes(&lanes[r][c]))
            })
        })
    }

    /// Writes the accumulators of a tile, scaled and with the addend.
    fn store<const R: usize, const C: usize>(
        &self,
        out: &mut Output<'_, T>,
        i: usize,
        j: usize,
        sums: &[[T::Acc; C]; R],
    ) {
        for (i, sums) in (i..).zip(sums) {
            for (j, sum) in (j..self.cols).zip(sums) {
                let mut result = self.alpha.mul(*sum);
                if let Some((matrix, beta)) = &self.addend {
                    let addend = matrix.data[i * matrix.row_stride + j * matrix.col_stride].widen();
                    result = result.add(beta.mul(addend));
                }
                out.data[i * out.row_stride + j * out.col_stride] = result.to_element();
            }
        }
    }
}

/// Sum of `lanes` as a binary tree.
fn sum_lanes<A: Accumulator>(lanes: &[A]) -> A {
    let mut lanes: [A; LANES] = array::from_fn(|lane| lanes[lane]);
    let mut len = LANES;
    while len > 1 {
        len /= 2;
        for lane in 0..len {
            lanes[lane] = lanes[lane].add(lanes[lane + len]);
        }
    }
    lanes[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small integers: their sum is exact in any order.
    fn numbers(len: usize, seed: usize) -> Vec<f32> {
        (0..len).map(|i| ((i * 7 + seed) % 11) as f32 - 5.0).collect()
    }

    #[track_caller]
    fn check(rows: usize, inner: usize, cols: usize) {
        let (a, b) = (numbers(rows * inner, 1), numbers(inner * cols, 2));
        let bias = numbers(cols, 3);
        for layout in 0..8 {
            let matrix = |data, rows, cols, columns_first: bool| {
                let (row_stride, col_stride) = if columns_first { (1, rows) } else { (cols, 1) };
                Matrix { data, row_stride, col_stride }
            };
            let product = Matmul {
                a: matrix(&a[..], rows, inner, layout & 1 > 0),
                b: matrix(&b[..], inner, cols, layout & 2 > 0),
                rows,
                inner,
                cols,
                alpha: 2.0,
                addend: Some((Matrix { data: &bias, row_stride: 0, col_stride: 1 }, 3.0)),
            };
            let mut out = vec![f32::NAN; rows * cols];
            let (row, col) = if layout & 4 > 0 { (1, rows) } else { (cols, 1) };
            product.write_portable(&mut out, row, col).unwrap();
            for i in 0..rows {
                for j in 0..cols {
                    let at =
                        |m: &Matrix<'_, f32>, i, j| m.data[i * m.row_stride + j * m.col_stride];
                    let sum: f32 =
                        (0..inner).map(|k| at(&product.a, i, k) * at(&product.b, k, j)).sum();
                    let expected = 2.0 * sum + 3.0 * bias[j];
                    assert_eq!(out[i * row + j * col], expected, "{rows} {inner} {cols}: {i} {j}");
                }
            }
        }
    }

    #[test]
    fn all_layouts_and_remainders() {
        for rows in [1, 2, 3, 4, 5, 9] {
            for inner in [0, 1, 7, 8, 19] {
                for cols in [1, 2, 3, 7, 8, 9, 33, 41] {
                    check(rows, inner, cols);
                }
            }
        }
    }

    #[test]
    fn out_of_bounds_matrices_are_rejected() {
        let (data, one) = ([1.0_f32; 4], Matrix { data: &[1.0][..], row_stride: 1, col_stride: 1 });
        let a = Matrix { data: &data[..], row_stride: 2, col_stride: 1 };
        let product = Matmul { a, b: one, rows: 2, inner: 2, cols: 1, alpha: 1.0, addend: None };
        assert!(product.write_portable(&mut [0.0; 2], 1, 1).is_err());
        let product = Matmul { b: a, rows: usize::MAX, ..product };
        assert!(product.write_portable(&mut [0.0; 2], usize::MAX, 1).is_err());
    }
}
