//! GEMM microkernel: register tiles of one panel.

#![expect(unsafe_code, reason = "loads operands and stores accumulators through checked pointers")]

use super::{Addend, MatrixStrides};
use crate::{Float, Int, Isa, Routine, Simd, epilogue::clamp_scalar, parallel::SharedSlice};

/// Maximum rows of a tile.
const MAX_ROWS: usize = 12;

/// Maximum columns of a tile.
const MAX_COLS: usize = 32;

/// Initial accumulators of a tile.
#[derive(Clone, Copy)]
pub(crate) enum AccumulatorInit<'d> {
    Zero,
    /// Current elements of the output.
    Output,
    /// One value per row, `stride` elements apart.
    PerRow {
        data: &'d [f32],
        stride: usize,
    },
    /// Rows of values, `row_stride` elements apart.
    Matrix {
        data: &'d [f32],
        row_stride: usize,
    },
}

/// Scaling of finished accumulators: `alpha * acc + beta * addend`.
#[derive(Clone, Copy)]
pub(crate) struct Scaling<'d> {
    pub(crate) alpha: f32,
    /// Its data starts at the first element of the panel.
    pub(crate) addend: Option<Addend<'d>>,
}

/// Product of a block of rows with one panel: adds `depth` terms to each accumulator.
pub(crate) struct PanelProduct<'d> {
    /// Element `(i, k)` at `a[i * a_row_stride + k * a_k_stride]`; packed in strips if `a_k_stride`
    /// is zero.
    pub(crate) a: &'d [f32],
    pub(crate) a_row_stride: usize,
    pub(crate) a_k_stride: usize,
    /// Row `k` at `b[k * b_row_stride..]`, `panel_cols` elements long.
    pub(crate) b: &'d [f32],
    pub(crate) b_row_stride: usize,
    pub(crate) depth: usize,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) panel_cols: usize,
    /// Element `(i, j)` at `out[out_start + i * row + j * col]` of the strides.
    pub(crate) out: &'d SharedSlice<'d, f32>,
    pub(crate) out_start: usize,
    pub(crate) out_strides: MatrixStrides,
    pub(crate) init: AccumulatorInit<'d>,
    /// Scaling that could not be applied to the initial accumulators.
    pub(crate) scaling: Option<Scaling<'d>>,
    pub(crate) clamp: Option<(f32, f32)>,
}

/// Multiply-accumulate operation of a tile.
pub(crate) trait MultiplyAdd {
    /// Adds the product of `a` and `b` to `acc`.
    fn multiply_add<S: Simd>(acc: S::F32, a: S::F32, b: S::F32) -> S::F32;
}

/// `f32` elements.
pub(crate) struct MultiplyAddF32;

impl MultiplyAdd for MultiplyAddF32 {
    #[inline(always)]
    fn multiply_add<S: Simd>(acc: S::F32, a: S::F32, b: S::F32) -> S::F32 {
        a.mul_add(b, acc)
    }
}

/// Pairs of int16 elements with wrapping int32 accumulators, stored as the bits of `f32`.
pub(crate) struct MultiplyAddI16Pairs;

impl MultiplyAdd for MultiplyAddI16Pairs {
    #[inline(always)]
    fn multiply_add<S: Simd>(acc: S::F32, a: S::F32, b: S::F32) -> S::F32 {
        acc.to_bits().add_dot2(a.to_bits(), b.to_bits()).bitcast()
    }
}

/// Computes `product`. Not inlined, so that tiles are compiled once and not per operand type.
#[inline(never)]
pub(super) fn run(isa: Isa, product: PanelProduct<'_>) {
    isa.run(product);
}

/// Maximum rows of a tile on `isa`.
#[inline(never)]
pub(super) fn max_rows(isa: Isa) -> usize {
    isa.run(MaxRows)
}

/// Consecutive rows that are computed as one tile.
#[derive(Debug, Clone, Copy)]
pub(super) struct Strip {
    pub(super) row: usize,
    pub(super) rows: usize,
}

/// Splits `rows` rows into strips of nearly equal height, at most [`max_rows`].
pub(super) fn strips(isa: Isa, rows: usize) -> impl Iterator<Item = Strip> {
    let count = rows.div_ceil(max_rows(isa));
    (0..count).map(move |index| strip(rows, count, index))
}

/// Strip `index` of `count` strips that cover `rows` rows.
#[inline(always)]
fn strip(rows: usize, count: usize, index: usize) -> Strip {
    let (height, taller) = (rows / count, rows % count);
    Strip { row: index * height + index.min(taller), rows: height + usize::from(index < taller) }
}

struct MaxRows;

impl Routine for MaxRows {
    type Output = usize;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> usize {
        max_tile_rows::<S>()
    }
}

/// Rows for which two vectors of accumulators each, and the operands, fill the registers.
const fn max_tile_rows<S: Simd>() -> usize {
    match (S::LANES, S::REGISTERS) {
        (16, 32) => MAX_ROWS,
        (_, 32) => 8,
        (8, 16) => 6,
        _ => 4,
    }
}

impl Routine for PanelProduct<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        self.run_with::<S, MultiplyAddF32>(simd);
    }
}

impl PanelProduct<'_> {
    /// Computes the product with the multiply-accumulate operation `M`.
    #[inline(always)]
    pub(crate) fn run_with<S: Simd, M: MultiplyAdd>(self, simd: S) {
        if self.rows == 0 || self.cols == 0 {
            return;
        }
        self.check();
        // A loop, not a closure: vectors in a closure would be compiled without the instruction
        // set.
        let count = self.rows.div_ceil(max_tile_rows::<S>());
        for index in 0..count {
            let Strip { row, rows } = strip(self.rows, count, index);
            if self.panel_cols == S::LANES {
                self.strip::<S, M, 1>(simd, row, rows);
            } else {
                self.strip::<S, M, 2>(simd, row, rows);
            }
        }
    }

    /// Checks that all tiles are inside the slices.
    ///
    /// # Panics
    /// If a tile would access an element outside of a slice.
    #[inline(always)]
    fn check(&self) {
        let Self { rows, cols, panel_cols, depth, .. } = *self;
        if depth > 0 {
            // Operands may be implemented elsewhere: their strides must not overflow.
            let end = |count: usize, stride: usize, len: usize| {
                (count - 1).checked_mul(stride).and_then(|start| start.checked_add(len))
            };
            let a = if self.a_k_stride == 0 {
                rows.checked_mul(depth)
            } else {
                end(depth, self.a_k_stride, 1).and_then(|len| end(rows, self.a_row_stride, len))
            };
            let b = end(depth, self.b_row_stride, panel_cols);
            let inside = |end: Option<usize>, len| end.is_some_and(|end| end <= len);
            assert!(inside(a, self.a.len()) && inside(b, self.b.len()));
        }
        assert!(cols <= panel_cols && panel_cols <= MAX_COLS);
        let last = self.out_start + self.out_strides.index(rows - 1, cols - 1);
        assert!(last < self.out.len());
        match self.init {
            AccumulatorInit::Zero | AccumulatorInit::Output => {}
            AccumulatorInit::PerRow { data, stride } => assert!((rows - 1) * stride < data.len()),
            AccumulatorInit::Matrix { data, row_stride } => {
                assert!((rows - 1) * row_stride + cols <= data.len());
            }
        }
    }

    /// Computes the tile of `rows` rows from `row` on, `C` vectors wide.
    #[inline(always)]
    fn strip<S: Simd, M: MultiplyAdd, const C: usize>(&self, simd: S, row: usize, rows: usize) {
        macro_rules! by_height {
            ($($height:literal)*) => {
                match rows {
                    $($height if const { $height <= max_tile_rows::<S>() } => {
                        self.tile::<S, M, $height, C>(simd, row);
                    })*
                    _ => {}
                }
            };
        }
        by_height!(1 2 3 4 5 6 7 8 9 10 11 12);
    }

    #[inline(always)]
    fn tile<S: Simd, M: MultiplyAdd, const R: usize, const C: usize>(&self, simd: S, row: usize) {
        let MatrixStrides { row: row_stride, col: col_stride } = self.out_strides;
        let start = self.out_start + row * row_stride;
        let in_place = col_stride == 1 && self.scaling.is_none();
        let mut buffer = [[0.0; MAX_COLS]; R];
        if !in_place && matches!(self.init, AccumulatorInit::Output) {
            self.gather(start, &mut buffer);
        }
        let (to, stride) = if in_place {
            // SAFETY: `check` verified that the rows of the tile, `cols` long, are inside the
            // output. Only this thread accesses them.
            (unsafe { self.out.ptr_at(start) }, row_stride)
        } else {
            (buffer.as_mut_ptr().cast(), MAX_COLS)
        };
        // SAFETY: as above; the buffer has `R` rows as wide as the widest tile.
        unsafe { self.accumulate::<S, M, R, C>(simd, row, to, stride) };
        if !in_place {
            self.scale(row, &mut buffer);
            self.scatter(start, &buffer);
        }
    }

    /// Reads a tile of a strided output into `buffer`, from index `start` on.
    #[inline(never)]
    fn gather(&self, start: usize, buffer: &mut [[f32; MAX_COLS]]) {
        for (i, row) in buffer.iter_mut().enumerate() {
            for (j, acc) in row.iter_mut().enumerate().take(self.cols) {
                let index = start + self.out_strides.index(i, j);
                // SAFETY: `check` verified that the element is inside; only this thread accesses
                // it.
                *acc = unsafe { self.out.slice_mut(index, 1) }[0];
            }
        }
    }

    /// Writes `buffer` to a strided output, from index `start` on.
    #[inline(never)]
    fn scatter(&self, start: usize, buffer: &[[f32; MAX_COLS]]) {
        for (i, row) in buffer.iter().enumerate() {
            for (j, acc) in row.iter().enumerate().take(self.cols) {
                let index = start + self.out_strides.index(i, j);
                // SAFETY: `check` verified that the element is inside; only this thread accesses
                // it.
                let element = unsafe { self.out.slice_mut(index, 1) };
                element[0] = *acc;
            }
        }
    }

    /// Applies the scaling, and the clamp after it, to a tile that starts at row `row`.
    #[inline(never)]
    fn scale(&self, row: usize, buffer: &mut [[f32; MAX_COLS]]) {
        let Some(Scaling { alpha, addend }) = self.scaling else { return };
        let bounds = self.clamp.unwrap_or((f32::NEG_INFINITY, f32::INFINITY));
        for (i, accumulators) in (row..).zip(buffer) {
            for (j, acc) in accumulators.iter_mut().enumerate().take(self.cols) {
                *acc *= alpha;
                if let Some(Addend { data, strides, beta }) = addend {
                    *acc += beta * data[strides.index(i, j)];
                }
                *acc = clamp_scalar(*acc, bounds);
            }
        }
    }

    /// Computes the accumulators of a tile and writes them to `to`, rows `stride` elements apart.
    ///
    /// # Safety
    /// `to` is valid for reads and writes of `R` rows of `cols` elements. `check` has passed, and
    /// the strip that starts at `row` has `R` rows.
    #[inline(always)]
    unsafe fn accumulate<S: Simd, M: MultiplyAdd, const R: usize, const C: usize>(
        &self,
        simd: S,
        row: usize,
        to: *mut f32,
        stride: usize,
    ) {
        let (a_start, a_row_stride, a_k_stride) = if self.a_k_stride == 0 {
            (row * self.depth, 1, R)
        } else {
            (row * self.a_row_stride, self.a_row_stride, self.a_k_stride)
        };
        let vector_len = |c: usize| self.cols.saturating_sub(c * S::LANES);
        let mut accumulators = [[simd.zero(); C]; R];
        match self.init {
            AccumulatorInit::Zero => {}
            AccumulatorInit::Output => {
                for (r, accumulators) in accumulators.iter_mut().enumerate() {
                    for (c, acc) in accumulators.iter_mut().enumerate() {
                        let from = to.wrapping_add(r * stride + c * S::LANES);
                        // SAFETY: the row has that many elements from there on.
                        *acc = unsafe { simd.load_partial_ptr(from, vector_len(c)) };
                    }
                }
            }
            AccumulatorInit::PerRow { data, stride } => {
                for (r, accumulators) in accumulators.iter_mut().enumerate() {
                    *accumulators = [simd.splat(data[(row + r) * stride]); C];
                }
            }
            AccumulatorInit::Matrix { data, row_stride } => {
                for (r, accumulators) in accumulators.iter_mut().enumerate() {
                    let data = &data[(row + r) * row_stride..][..self.cols];
                    for (c, acc) in accumulators.iter_mut().enumerate() {
                        *acc = simd.load_partial(data.get(c * S::LANES..).unwrap_or(&[]));
                    }
                }
            }
        }
        let mut b = self.b.as_ptr();
        let mut a = self.a.as_ptr().wrapping_add(a_start);
        // A copy that is used only in this loop stays in registers.
        let mut running = accumulators;
        for _ in 0..self.depth {
            let mut columns = [simd.zero(); C];
            for (c, column) in columns.iter_mut().enumerate() {
                // SAFETY: `check` verified that `depth` rows of `panel_cols` elements are inside
                // `b`.
                *column = unsafe { simd.load_ptr(b.wrapping_add(c * S::LANES)) };
            }
            for (r, running) in running.iter_mut().enumerate() {
                // SAFETY: `check` verified that the rows of the strip are inside `a`.
                let factor = simd.splat(unsafe { *a.wrapping_add(r * a_row_stride) });
                for (acc, column) in running.iter_mut().zip(columns) {
                    *acc = M::multiply_add::<S>(*acc, factor, column);
                }
            }
            a = a.wrapping_add(a_k_stride);
            b = b.wrapping_add(self.b_row_stride);
        }
        accumulators = running;
        let clamp = self.clamp.filter(|_| self.scaling.is_none());
        if let Some((low, high)) = clamp {
            let (low, high) = (simd.splat(low), simd.splat(high));
            // `min` and `max` return their second operand if one is NaN.
            for accumulators in &mut accumulators {
                for acc in accumulators {
                    *acc = high.min(low.max(*acc));
                }
            }
        }
        for (r, accumulators) in accumulators.into_iter().enumerate() {
            for (c, acc) in accumulators.into_iter().enumerate() {
                let to = to.wrapping_add(r * stride + c * S::LANES);
                // SAFETY: the row has that many elements from there on.
                unsafe { simd.store_partial_ptr(acc, to, vector_len(c)) };
            }
        }
    }
}
