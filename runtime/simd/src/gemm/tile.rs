//! Tiles of a product, whose sums stay in registers.

#![expect(unsafe_code, reason = "loads operands and stores accumulators through checked pointers")]

use super::{Addend, MatrixStrides};
use crate::{Float, Int, Isa, Routine, Simd, epilogue::clamp_scalar, parallel::SharedSlice};

/// The most rows of a tile.
const MOST_ROWS: usize = 12;

/// The most columns of a tile.
const MOST_COLS: usize = 32;

/// What the sums of a tile start with.
#[derive(Clone, Copy)]
pub(crate) enum Start<'d> {
    Zero,
    /// What the target holds.
    Target,
    /// A number for each row, so many apart.
    Rows(&'d [f32], usize),
    /// Rows of numbers, so many apart.
    Matrix(&'d [f32], usize),
}

/// All rows of one panel: from the sums so far to the sums with `depth` more products.
pub(crate) struct Strips<'d> {
    /// Element `(i, k)` at `a[i * a_row + k * a_k]`; packed in strips when `a_k` is zero.
    pub(crate) a: &'d [f32],
    pub(crate) a_row: usize,
    pub(crate) a_k: usize,
    /// Row `k` at `b[k * b_k..]`, `width` long.
    pub(crate) b: &'d [f32],
    pub(crate) b_k: usize,
    pub(crate) depth: usize,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) width: usize,
    /// Element `(i, j)` at `out[at + i * steps.0 + j * steps.1]`.
    pub(crate) out: &'d SharedSlice<'d, f32>,
    pub(crate) at: usize,
    pub(crate) steps: (usize, usize),
    pub(crate) start: Start<'d>,
    /// A factor of the finished sums, and what is added to them then.
    pub(crate) late: Option<(f32, Option<Placed<'d>>)>,
    pub(crate) clamp: Option<(f32, f32)>,
}

/// An addend, and its data from the first sum of the strips on.
pub(crate) type Placed<'d> = (&'d [f32], Addend<'d>);

/// How an element of `a` and one of `b` are multiplied and added to a sum.
pub(crate) trait Multiply {
    fn add<S: Simd>(sum: S::F32, factor: S::F32, column: S::F32) -> S::F32;
}

/// Numbers.
pub(crate) struct Numbers;

impl Multiply for Numbers {
    #[inline(always)]
    fn add<S: Simd>(sum: S::F32, factor: S::F32, column: S::F32) -> S::F32 {
        factor.mul_add(column, sum)
    }
}

/// Pairs of integers of 16 bits, whose sums are the bits of integers of 32 bits, which wrap.
pub(crate) struct Pairs;

impl Multiply for Pairs {
    #[inline(always)]
    fn add<S: Simd>(sum: S::F32, factor: S::F32, column: S::F32) -> S::F32 {
        sum.to_bits().add_dot2(factor.to_bits(), column.to_bits()).bitcast()
    }
}

/// Computes `strips`; one function, so that tiles are compiled once and not for each operand type.
#[inline(never)]
pub(super) fn run(isa: Isa, strips: Strips<'_>) {
    isa.run(strips);
}

/// The rows of a tile on `isa`.
#[inline(never)]
pub(super) fn rows(isa: Isa) -> usize {
    isa.run(Rows)
}

/// The first row and the number of rows of each strip of `rows` rows on `isa`.
pub(super) fn strips(isa: Isa, rows: usize) -> impl Iterator<Item = (usize, usize)> {
    let count = rows.div_ceil(self::rows(isa));
    (0..count).map(move |strip| self::strip(rows, count, strip))
}

/// The strip number `strip` of `count`, all of nearly the same height, that make `rows` rows.
#[inline(always)]
fn strip(rows: usize, count: usize, strip: usize) -> (usize, usize) {
    let (least, more) = (rows / count, rows % count);
    (strip * least + strip.min(more), least + usize::from(strip < more))
}

struct Rows;

impl Routine for Rows {
    type Output = usize;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> usize {
        tile_rows::<S>()
    }
}

/// Rows such that two vectors of sums each, with those of the operands, fill the registers.
const fn tile_rows<S: Simd>() -> usize {
    match (S::LANES, S::REGISTERS) {
        (16, 32) => MOST_ROWS,
        (_, 32) => 8,
        (8, 16) => 6,
        _ => 4,
    }
}

impl Routine for Strips<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        self.run_as::<S, Numbers>(simd);
    }
}

impl Strips<'_> {
    /// Computes them, multiplying as `M` does.
    #[inline(always)]
    pub(crate) fn run_as<S: Simd, M: Multiply>(self, simd: S) {
        if self.rows == 0 || self.cols == 0 {
            return;
        }
        self.check();
        // Vectors in a closure would be compiled without their instructions.
        let count = self.rows.div_ceil(tile_rows::<S>());
        for number in 0..count {
            let (row, height) = strip(self.rows, count, number);
            if self.width == S::LANES {
                self.strip::<S, M, 1>(simd, row, height);
            } else {
                self.strip::<S, M, 2>(simd, row, height);
            }
        }
    }

    /// # Panics
    /// When a tile would reach outside of a slice.
    #[inline(always)]
    fn check(&self) {
        let Self { rows, cols, width, depth, .. } = *self;
        if depth > 0 {
            // What operands say of themselves is not trusted: sums must not wrap.
            let end = |(count, step): (usize, usize), len: usize| {
                (count - 1).checked_mul(step).and_then(|start| start.checked_add(len))
            };
            let a = if self.a_k == 0 {
                rows.checked_mul(depth)
            } else {
                end((depth, self.a_k), 1).and_then(|line| end((rows, self.a_row), line))
            };
            let b = end((depth, self.b_k), width);
            let inside = |end: Option<usize>, len| end.is_some_and(|end| end <= len);
            assert!(inside(a, self.a.len()) && inside(b, self.b.len()));
        }
        assert!(cols <= width && width <= MOST_COLS);
        let end = self.at + (rows - 1) * self.steps.0 + (cols - 1) * self.steps.1;
        assert!(end < self.out.len());
        match self.start {
            Start::Zero | Start::Target => {}
            Start::Rows(data, step) => assert!((rows - 1) * step < data.len()),
            Start::Matrix(data, step) => assert!((rows - 1) * step + cols <= data.len()),
        }
    }

    #[inline(always)]
    fn strip<S: Simd, M: Multiply, const C: usize>(&self, simd: S, row: usize, height: usize) {
        macro_rules! by_height {
            ($($height:literal)*) => {
                match height {
                    $($height if const { $height <= tile_rows::<S>() } => {
                        self.tile::<S, M, $height, C>(simd, row);
                    })*
                    _ => {}
                }
            };
        }
        by_height!(1 2 3 4 5 6 7 8 9 10 11 12);
    }

    #[inline(always)]
    fn tile<S: Simd, M: Multiply, const R: usize, const C: usize>(&self, simd: S, row: usize) {
        let (row_step, col_step) = self.steps;
        let at = self.at + row * row_step;
        let in_place = col_step == 1 && self.late.is_none();
        let mut sums = [[0.0; MOST_COLS]; R];
        if !in_place && matches!(self.start, Start::Target) {
            self.gather(at, &mut sums);
        }
        let (to, step) = if in_place {
            // SAFETY: `check` saw that the rows of the tile, `cols` long, are inside the target;
            // the thread that runs this has them for itself.
            (unsafe { self.out.ptr_at(at) }, row_step)
        } else {
            (sums.as_mut_ptr().cast(), MOST_COLS)
        };
        // SAFETY: as above, and the array has `R` rows of as many columns as the widest tile.
        unsafe { self.sums::<S, M, R, C>(simd, row, to, step) };
        if !in_place {
            self.finish(row, &mut sums);
            self.scatter(at, &sums);
        }
    }

    /// The elements of the target from `at` on.
    #[inline(never)]
    fn gather(&self, at: usize, sums: &mut [[f32; MOST_COLS]]) {
        for (i, sums) in sums.iter_mut().enumerate() {
            for (j, sum) in sums.iter_mut().enumerate().take(self.cols) {
                // SAFETY: `check` saw the element inside, and it belongs to this thread alone.
                *sum =
                    unsafe { self.out.slice_mut(at + i * self.steps.0 + j * self.steps.1, 1) }[0];
            }
        }
    }

    /// Writes `sums` to the target from `at` on.
    #[inline(never)]
    fn scatter(&self, at: usize, sums: &[[f32; MOST_COLS]]) {
        for (i, sums) in sums.iter().enumerate() {
            for (j, sum) in sums.iter().enumerate().take(self.cols) {
                // SAFETY: `check` saw the element inside, and it belongs to this thread alone.
                let place =
                    unsafe { self.out.slice_mut(at + i * self.steps.0 + j * self.steps.1, 1) };
                place[0] = *sum;
            }
        }
    }

    /// Scales the sums of a tile and adds to them, where that was not done at the start.
    #[inline(never)]
    fn finish(&self, row: usize, sums: &mut [[f32; MOST_COLS]]) {
        let Some((alpha, addend)) = self.late else { return };
        let bounds = self.clamp.unwrap_or((f32::NEG_INFINITY, f32::INFINITY));
        for (i, sums) in (row..).zip(sums) {
            for (j, sum) in sums.iter_mut().enumerate().take(self.cols) {
                *sum *= alpha;
                if let Some((data, Addend { strides: MatrixStrides { row, col }, beta, .. })) =
                    addend
                {
                    *sum += beta * data[i * row + j * col];
                }
                *sum = clamp_scalar(*sum, bounds);
            }
        }
    }

    /// Computes a tile and writes it to `out`, rows `out_row` apart.
    ///
    /// # Safety
    /// `R` rows of `cols` numbers can be read and written at `out`; `check` passed, and the strip
    /// from `row` on has `R` rows.
    #[inline(always)]
    unsafe fn sums<S: Simd, M: Multiply, const R: usize, const C: usize>(
        &self,
        simd: S,
        row: usize,
        out: *mut f32,
        out_row: usize,
    ) {
        let (from, a_row, a_k) = if self.a_k == 0 {
            (row * self.depth, 1, R)
        } else {
            (row * self.a_row, self.a_row, self.a_k)
        };
        let lanes = |c: usize| self.cols.saturating_sub(c * S::LANES);
        let mut sums = [[simd.zero(); C]; R];
        match self.start {
            Start::Zero => {}
            Start::Target => {
                for (r, sums) in sums.iter_mut().enumerate() {
                    for (c, sum) in sums.iter_mut().enumerate() {
                        let from = out.wrapping_add(r * out_row + c * S::LANES);
                        // SAFETY: the row has that many numbers from there on.
                        *sum = unsafe { simd.load_partial_ptr(from, lanes(c)) };
                    }
                }
            }
            Start::Rows(data, step) => {
                for (r, sums) in sums.iter_mut().enumerate() {
                    *sums = [simd.splat(data[(row + r) * step]); C];
                }
            }
            Start::Matrix(data, step) => {
                for (r, sums) in sums.iter_mut().enumerate() {
                    let data = &data[(row + r) * step..][..self.cols];
                    for (c, sum) in sums.iter_mut().enumerate() {
                        *sum = simd.load_partial(data.get(c * S::LANES..).unwrap_or(&[]));
                    }
                }
            }
        }
        let mut b = self.b.as_ptr();
        let mut a = self.a.as_ptr().wrapping_add(from);
        // A copy, of which nothing else is asked than these sums, stays in registers.
        let mut running = sums;
        for _ in 0..self.depth {
            let mut columns = [simd.zero(); C];
            for (c, column) in columns.iter_mut().enumerate() {
                // SAFETY: `check` saw that `depth` rows of `width` numbers are inside `b`.
                *column = unsafe { simd.load_ptr(b.wrapping_add(c * S::LANES)) };
            }
            for (r, running) in running.iter_mut().enumerate() {
                // SAFETY: `check` saw that the rows of the strip are inside `a`.
                let factor = simd.splat(unsafe { *a.wrapping_add(r * a_row) });
                for (sum, column) in running.iter_mut().zip(columns) {
                    *sum = M::add::<S>(*sum, factor, column);
                }
            }
            a = a.wrapping_add(a_k);
            b = b.wrapping_add(self.b_k);
        }
        sums = running;
        let clamp = self.clamp.filter(|_| self.late.is_none());
        if let Some((low, high)) = clamp {
            let (low, high) = (simd.splat(low), simd.splat(high));
            // The operand that is kept where one is NaN is the second.
            for sums in &mut sums {
                for sum in sums {
                    *sum = high.min(low.max(*sum));
                }
            }
        }
        for (r, sums) in sums.into_iter().enumerate() {
            for (c, sum) in sums.into_iter().enumerate() {
                let to = out.wrapping_add(r * out_row + c * S::LANES);
                // SAFETY: the row has that many places from there on.
                unsafe { simd.store_partial_ptr(sum, to, lanes(c)) };
            }
        }
    }
}
