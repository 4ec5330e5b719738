//! Products of matrices with any strides.

use core::array;

use afferent_core::{Error, KernelContext};

use crate::shared::{
    accumulator::{Accumulator, Operand},
    simd,
};

/// Numbers that a vector register of common processors holds; microcontrollers have fewer
/// registers.
const WIDTH: usize = if cfg!(target_pointer_width = "64") { 8 } else { 4 };

/// A matrix: element `(i, j)` is `data[i * row + j * col]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matrix<'a, T> {
    pub(crate) data: &'a [T],
    pub(crate) row: usize,
    pub(crate) col: usize,
}

impl<T> Matrix<'_, T> {
    fn transposed(self) -> Self {
        Self { row: self.col, col: self.row, ..self }
    }

    /// Whether all elements of `rows` times `cols` are in `data`.
    fn holds(&self, rows: usize, cols: usize) -> bool {
        let last = |count: usize, step: usize| (count - 1).checked_mul(step);
        let last = last(rows, self.row).zip(last(cols, self.col));
        last.and_then(|(row, col)| row.checked_add(col)).is_some_and(|at| at < self.data.len())
    }
}

/// The product `alpha · a · b + beta · addend` of a `rows × inner` and an `inner × cols` matrix.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matmul<'a, T: Operand> {
    pub(crate) a: Matrix<'a, T>,
    pub(crate) b: Matrix<'a, T>,
    pub(crate) rows: usize,
    pub(crate) inner: usize,
    pub(crate) cols: usize,
    pub(crate) alpha: T::Acc,
    pub(crate) addend: Option<(Matrix<'a, T>, T::Acc)>,
}

/// The matrix that is written: element `(i, j)` is `data[i * row + j * col]`.
struct Target<'o, T> {
    data: &'o mut [T],
    row: usize,
    col: usize,
}

impl<T: Operand> Matmul<'_, T> {
    /// Writes the product; element `(i, j)` goes to `out[i * row + j * col]`.
    pub(crate) fn write(
        &self,
        cx: &mut KernelContext<'_>,
        out: &mut [T],
        row: usize,
        col: usize,
    ) -> Result<(), Error> {
        let written = simd::gemm::try_matmul(cx, self, out, row, col);
        written.unwrap_or_else(|| self.write_portable(out, row, col))
    }

    /// As [`Matmul::write`], without scratch memory.
    pub(crate) fn write_portable(
        &self,
        out: &mut [T],
        row: usize,
        col: usize,
    ) -> Result<(), Error> {
        let Self { rows, inner, cols, .. } = *self;
        if rows == 0 || cols == 0 {
            return Ok(());
        }
        let fits = Matrix { data: &*out, row, col }.holds(rows, cols)
            && (inner == 0 || self.a.holds(rows, inner) && self.b.holds(inner, cols))
            && self.addend.is_none_or(|(matrix, _)| matrix.holds(rows, cols));
        if !fits {
            return Err(Error::Internal { reason: "matrices lie inside their tensors" });
        }
        let target = Target { data: out, row, col };
        if self.a.col == 1 && self.b.row == 1 && inner > 0 {
            self.write_dots(target);
        } else if self.b.col == 1 {
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
            swapped.write_tiles(Target { row: col, col: row, ..target });
        }
        Ok(())
    }

    /// Rows of `b` times elements of `a`, added up.
    fn write_tiles(&self, mut out: Target<'_, T>) {
        let whole = self.rows - self.rows % 4;
        for j in (0..self.cols).step_by(WIDTH) {
            for i in (0..whole).step_by(4) {
                let sums = self.tile::<4, WIDTH>(i, j);
                self.store(&mut out, i, j, &sums);
            }
        }
        for i in whole..self.rows {
            for j in (0..self.cols).step_by(4 * WIDTH) {
                let sums = self.tile::<1, { 4 * WIDTH }>(i, j);
                self.store(&mut out, i, j, &sums);
            }
        }
    }

    /// The sums of rows from `i` and columns from `j` on; those past the last column are zero.
    #[inline(never)]
    fn tile<const R: usize, const C: usize>(&self, i: usize, j: usize) -> [[T::Acc; C]; R] {
        let mut sums = [[T::Acc::default(); C]; R];
        let rows: [&[T]; R] =
            array::from_fn(|r| self.a.data.get((i + r) * self.a.row..).unwrap_or(&[]));
        let left = self.cols - j;
        for k in 0..self.inner {
            let from = k * self.b.row + j * self.b.col;
            let b = if let (1, Some(b)) = (self.b.col, self.b.data[from..].first_chunk::<C>()) {
                // Past the last column stand numbers of the next row, which `store` drops.
                *b
            } else {
                self.partial(from, left)
            };
            let b = b.map(T::widen);
            for (sums, row) in sums.iter_mut().zip(&rows) {
                let a = row[k * self.a.col].widen();
                for (sum, &b) in sums.iter_mut().zip(&b) {
                    *sum = sum.add(a.mul(b));
                }
            }
        }
        sums
    }

    /// Up to `left` elements of `b` from `from` on.
    #[cold]
    fn partial<const C: usize>(&self, from: usize, left: usize) -> [T; C] {
        let mut part = [T::default(); C];
        let rest = self.b.data[from..].iter().step_by(self.b.col.max(1)).take(left);
        for (to, &value) in part.iter_mut().zip(rest) {
            *to = value;
        }
        part
    }

    /// Rows of `a` times columns of `b`, both of which are contiguous.
    fn write_dots(&self, mut out: Target<'_, T>) {
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

    /// The sums of rows from `i` and columns from `j` on.
    #[inline(never)]
    fn dots<const R: usize, const C: usize>(&self, i: usize, j: usize) -> [[T::Acc; C]; R] {
        let zero = T::Acc::default();
        let rows: [_; R] = array::from_fn(|r| {
            self.a.data[(i + r) * self.a.row..][..self.inner].as_chunks::<WIDTH>()
        });
        let cols: [_; C] = array::from_fn(|c| {
            self.b.data[(j + c) * self.b.col..][..self.inner].as_chunks::<WIDTH>()
        });
        let mut lanes = [[[zero; WIDTH]; C]; R];
        for k in 0..self.inner / WIDTH {
            let cols: [[T::Acc; WIDTH]; C] = array::from_fn(|c| cols[c].0[k].map(T::widen));
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
                rest.add(halves(&lanes[r][c]))
            })
        })
    }

    fn store<const R: usize, const C: usize>(
        &self,
        out: &mut Target<'_, T>,
        i: usize,
        j: usize,
        sums: &[[T::Acc; C]; R],
    ) {
        for (i, sums) in (i..).zip(sums) {
            for (j, sum) in (j..self.cols).zip(sums) {
                let mut result = self.alpha.mul(*sum);
                if let Some((matrix, beta)) = &self.addend {
                    let addend = matrix.data[i * matrix.row + j * matrix.col].widen();
                    result = result.add(beta.mul(addend));
                }
                out.data[i * out.row + j * out.col] = result.to_element();
            }
        }
    }
}

/// The sum of `lanes`, as a tree.
fn halves<A: Accumulator>(lanes: &[A]) -> A {
    let mut lanes: [A; WIDTH] = array::from_fn(|lane| lanes[lane]);
    let mut len = WIDTH;
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

    /// Small integers, which every order of additions sums up to the same number.
    fn numbers(len: usize, seed: usize) -> Vec<f32> {
        (0..len).map(|i| ((i * 7 + seed) % 11) as f32 - 5.0).collect()
    }

    #[track_caller]
    fn check(rows: usize, inner: usize, cols: usize) {
        let (a, b) = (numbers(rows * inner, 1), numbers(inner * cols, 2));
        let bias = numbers(cols, 3);
        for layout in 0..8 {
            let matrix = |data, rows, cols, columns_first: bool| {
                let (row, col) = if columns_first { (1, rows) } else { (cols, 1) };
                Matrix { data, row, col }
            };
            let product = Matmul {
                a: matrix(&a[..], rows, inner, layout & 1 > 0),
                b: matrix(&b[..], inner, cols, layout & 2 > 0),
                rows,
                inner,
                cols,
                alpha: 2.0,
                addend: Some((Matrix { data: &bias, row: 0, col: 1 }, 3.0)),
            };
            let mut out = vec![f32::NAN; rows * cols];
            let (row, col) = if layout & 4 > 0 { (1, rows) } else { (cols, 1) };
            product.write_portable(&mut out, row, col).unwrap();
            for i in 0..rows {
                for j in 0..cols {
                    let at = |m: &Matrix<'_, f32>, i, j| m.data[i * m.row + j * m.col];
                    let sum: f32 =
                        (0..inner).map(|k| at(&product.a, i, k) * at(&product.b, k, j)).sum();
                    let expected = 2.0 * sum + 3.0 * bias[j];
                    assert_eq!(out[i * row + j * col], expected, "{rows} {inner} {cols}: {i} {j}");
                }
            }
        }
    }

    #[test]
    fn every_layout_and_remainder() {
        for rows in [1, 2, 3, 4, 5, 9] {
            for inner in [0, 1, 7, 8, 19] {
                for cols in [1, 2, 3, 7, 8, 9, 33, 41] {
                    check(rows, inner, cols);
                }
            }
        }
    }

    #[test]
    fn matrices_outside_their_tensors_are_refused() {
        let (data, one) = ([1.0_f32; 4], Matrix { data: &[1.0][..], row: 1, col: 1 });
        let a = Matrix { data: &data[..], row: 2, col: 1 };
        let product = Matmul { a, b: one, rows: 2, inner: 2, cols: 1, alpha: 1.0, addend: None };
        assert!(product.write_portable(&mut [0.0; 2], 1, 1).is_err());
        let product = Matmul { b: a, rows: usize::MAX, ..product };
        assert!(product.write_portable(&mut [0.0; 2], usize::MAX, 1).is_err());
    }
}
