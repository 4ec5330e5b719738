//! `f32` GEMM that packs its operands on each call, and GEMV.
//!
//! As in BLIS: the columns of the output are cut into panels as wide as a register tile, and the
//! inner dimension into blocks. A panel of a block is packed and stays in the first-level cache.
//! The rows of the output are computed in strips, each a register tile.
//!
//! | module    | contents                              |
//! |-----------|---------------------------------------|
//! | `gemv`    | products with a vector                |
//! | `operand` | operands, strided or packed on demand |
//! | `tile`    | microkernel                           |

mod gemv;
mod operand;
pub(crate) mod tile;

use afferent_core::Workers;

use crate::{
    Isa, SizeError,
    parallel::{self, Grain, SharedSlice},
};

pub use operand::{Dim, Extent, Operand, PanelRange, StridedOperand};
use tile::{AccumulatorInit, PanelProduct, Scaling, Strip};

/// Maximum depth of a block: terms that a tile adds between two accesses to the output.
const MAX_BLOCK_DEPTH: usize = 384;

/// Elements of the left operand that stay in the second-level cache.
const MAX_LEFT_ELEMENTS: usize = 128 * 1024;

/// Rows per block of a left operand that is not packed.
const MAX_STRIDED_ROWS: usize = 1024;

/// `f32` elements per cache line.
const CACHE_LINE_ELEMENTS: usize = 16;

/// The product `clamp(alpha * a · b + addend)`.
///
/// Vector `i` of operand `a` is row `i` of the left matrix; vector `j` of operand `b` is column `j`
/// of the right matrix.
#[derive(Debug, Clone, Copy)]
pub struct Gemm<'d, A, B> {
    /// Left operand, `rows` × `inner`.
    pub a: A,
    /// Right operand, `inner` × `cols`.
    pub b: B,
    /// Rows of the output (M).
    pub rows: usize,
    /// Inner dimension (K).
    pub inner: usize,
    /// Columns of the output (N).
    pub cols: usize,
    /// Factor of the product.
    pub alpha: f32,
    /// Matrix that is added to the product.
    pub addend: Option<Addend<'d>>,
    /// Bounds of the output; NaN passes through.
    pub clamp: Option<(f32, f32)>,
}

/// Matrix that is added to a product, scaled by `beta`.
#[derive(Debug, Clone, Copy)]
pub struct Addend<'d> {
    /// Elements.
    pub data: &'d [f32],
    /// Strides; zero repeats a row or a column.
    pub strides: MatrixStrides,
    /// Factor of the elements.
    pub beta: f32,
}

/// Strides of a matrix: element `(i, j)` is at index `i * row + j * col`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatrixStrides {
    /// Elements from one row to the next.
    pub row: usize,
    /// Elements from one column to the next.
    pub col: usize,
}

impl MatrixStrides {
    /// Strides of the transposed matrix.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self { row: self.col, col: self.row }
    }

    /// Index of the element `(row, col)`.
    #[inline(always)]
    pub(crate) fn index(self, row: usize, col: usize) -> usize {
        row * self.row + col * self.col
    }
}

/// Output of a product.
#[derive(Debug)]
pub struct Output<'o> {
    /// Elements.
    pub data: &'o mut [f32],
    /// Strides.
    pub strides: MatrixStrides,
}

/// Blocking of a product.
#[derive(Debug, Clone, Copy)]
struct Plan {
    isa: Isa,
    /// Columns per panel.
    panel_cols: usize,
    /// Depth of a block.
    block_depth: usize,
    /// Rows per block.
    block_rows: usize,
    /// True if the left operand is packed too.
    packs_left: bool,
    /// True if the loop over panels is outside of the loop over the depth.
    panels_outermost: bool,
}

/// Part of the output.
#[derive(Debug, Clone, Copy)]
struct Area {
    row: usize,
    rows: usize,
    col: usize,
    cols: usize,
}

/// Range of the inner dimension.
#[derive(Debug, Clone, Copy)]
struct DepthRange {
    k: usize,
    depth: usize,
}

/// Left operand of a block of rows.
#[derive(Clone, Copy)]
enum LeftBlock<'p> {
    Strided(StridedOperand<'p>),
    /// Packed in strips.
    Packed(&'p [f32]),
}

/// Panel of the right operand: row `k` at `data[k * row_stride..]`.
#[derive(Clone, Copy)]
struct RightPanel<'p> {
    data: &'p [f32],
    row_stride: usize,
}

/// Output of a product that is shared between threads.
#[derive(Clone, Copy)]
struct SharedOutput<'o> {
    data: &'o SharedSlice<'o, f32>,
    strides: MatrixStrides,
}

impl<A: Operand, B: Operand> Gemm<'_, A, B> {
    /// Scratch buffer of [`Gemm::run`] on `threads` threads, in elements.
    pub fn scratch_len(&self, isa: Isa, threads: usize) -> usize {
        let plan = self.plan(isa);
        let all = plan.scratch_len().saturating_mul(self.tasks(threads));
        all.saturating_add(CACHE_LINE_ELEMENTS)
    }

    /// Computes the product and writes it to `out`. `scratch` holds [`Gemm::scratch_len`] elements.
    ///
    /// # Errors
    /// [`SizeError`] if a slice does not match the sizes.
    pub fn run(
        &self,
        isa: Isa,
        out: Output<'_>,
        scratch: &mut [f32],
        workers: Option<&dyn Workers>,
    ) -> Result<(), SizeError> {
        if self.rows == 0 || self.cols == 0 {
            return Ok(());
        }
        self.check(&out)?;
        let plan = self.plan(isa);
        let wanted = self.tasks(parallel::threads(workers));
        // Elements of an output that overlap are written by one thread.
        let tasks = if out.is_disjoint(self.rows, self.cols) { wanted } else { 1 };
        let skip = scratch.as_ptr().align_offset(CACHE_LINE_ELEMENTS * size_of::<f32>());
        let len = plan.scratch_len();
        let required = len.checked_mul(tasks).and_then(|len| len.checked_add(skip));
        SizeError::check_min("scratch", scratch.len(), required)?;
        let scratch = &mut scratch[skip..][..len * tasks];
        let data = SharedSlice::new(out.data);
        let out = SharedOutput { data: &data, strides: out.strides };
        // Splits at whole panels or strips, so that threads share as few cache lines as possible.
        let by_cols = self.cols >= self.rows;
        let (count, unit) =
            if by_cols { (self.cols, plan.panel_cols) } else { (self.rows, tile::max_rows(isa)) };
        let share = count.div_ceil(unit).div_ceil(tasks) * unit;
        parallel::for_each_chunk(workers, scratch, len, |task, scratch| {
            let start = count.min(task * share);
            let len = share.min(count - start);
            let area = if by_cols {
                Area { row: 0, rows: self.rows, col: start, cols: len }
            } else {
                Area { row: start, rows: len, col: 0, cols: self.cols }
            };
            self.run_area(plan, area, out, scratch);
        });
        Ok(())
    }

    fn tasks(&self, threads: usize) -> usize {
        let macs = self.rows.saturating_mul(self.cols).saturating_mul(self.inner);
        Grain::GEMM.tasks(macs, threads)
    }

    fn plan(&self, isa: Isa) -> Plan {
        let lanes = isa.lanes();
        let panel_cols = if self.cols <= lanes { lanes } else { 2 * lanes };
        let depth_blocks = self.inner.div_ceil(MAX_BLOCK_DEPTH).max(1);
        let block_depth = self.inner.div_ceil(depth_blocks).max(1);
        let left = self.a.strided();
        let has_contiguous_rows = left.is_some_and(|left| left.k_stride == 1);
        let few_panels = self.cols <= 2 * panel_cols;
        let packs_left =
            left.is_none_or(|left| !(has_contiguous_rows || left.stride == 1 && few_panels));
        let max_rows = if packs_left { MAX_LEFT_ELEMENTS / block_depth } else { MAX_STRIDED_ROWS };
        let block_rows = max_rows.next_multiple_of(tile::max_rows(isa)).min(self.rows);
        let panels_outermost =
            !packs_left && self.rows.saturating_mul(self.inner) <= MAX_LEFT_ELEMENTS;
        Plan { isa, panel_cols, block_depth, block_rows, packs_left, panels_outermost }
    }

    fn check(&self, out: &Output<'_>) -> Result<(), SizeError> {
        if self.rows == 0 || self.cols == 0 {
            return Ok(());
        }
        let end = |strides: MatrixStrides| {
            let last_row = (self.rows - 1).checked_mul(strides.row)?;
            last_row.checked_add((self.cols - 1).checked_mul(strides.col)?)?.checked_add(1)
        };
        SizeError::check_min("out", out.data.len(), end(out.strides))?;
        if let Some(Addend { data, strides, .. }) = self.addend {
            SizeError::check_min("addend", data.len(), end(strides))?;
        }
        let check = |operand, expected, extent: Extent, count| {
            let covers = count <= extent.vectors && self.inner <= extent.depth;
            SizeError::check_parameter(operand, expected, covers)
        };
        check("a", "at least `rows` × `inner`", self.a.extent(), self.rows)?;
        check("b", "at least `cols` × `inner`", self.b.extent(), self.cols)
    }

    /// Computes the part of the output that belongs to one thread.
    fn run_area(&self, plan: Plan, area: Area, out: SharedOutput<'_>, scratch: &mut [f32]) {
        let (b_scratch, a_scratch) = scratch.split_at_mut(plan.block_depth * plan.panel_cols);
        let panels = area.cols.div_ceil(plan.panel_cols);
        let blocks = self.inner.div_ceil(plan.block_depth).max(1);
        for row in (area.row..area.row + area.rows).step_by(plan.block_rows.max(1)) {
            let rows = plan.block_rows.min(area.row + area.rows - row);
            let mut packed_block = None;
            for step in 0..panels * blocks {
                let (panel, block) = if plan.panels_outermost {
                    (step / blocks, step % blocks)
                } else {
                    (step % panels, step / panels)
                };
                let k = block * plan.block_depth;
                let depth = plan.block_depth.min(self.inner - k);
                if plan.packs_left && packed_block != Some(block) {
                    packed_block = Some(block);
                    for Strip { row: strip_row, rows: count } in tile::strips(plan.isa, rows) {
                        let start = row + strip_row;
                        let part = PanelRange { start, count, k, depth, width: count };
                        let to = &mut a_scratch[strip_row * depth..][..count * depth];
                        self.a.pack(plan.isa, part, to);
                    }
                }
                let range = DepthRange { k, depth };
                let start = panel * plan.panel_cols;
                let cols = plan.panel_cols.min(area.cols - start);
                let area = Area { row, rows, col: area.col + start, cols };
                let b = self.right_panel(plan, area, range, b_scratch);
                let strided = if plan.packs_left { None } else { self.a.strided() };
                let a = strided.map_or(LeftBlock::Packed(a_scratch), LeftBlock::Strided);
                self.run_panel(plan, area, range, a, b, out);
            }
        }
    }

    /// Panel of the right operand for `area`: in place if its rows are contiguous and few strips
    /// use it, otherwise packed.
    fn right_panel<'p>(
        &'p self,
        plan: Plan,
        area: Area,
        DepthRange { k, depth }: DepthRange,
        scratch: &'p mut [f32],
    ) -> RightPanel<'p> {
        let in_place = self.b.strided().filter(|right| {
            right.stride == 1
                && area.cols == plan.panel_cols
                && self.rows <= 2 * tile::max_rows(plan.isa)
        });
        if let Some(right) = in_place.filter(|_| depth > 0) {
            let data = &right.data[k * right.k_stride + area.col..];
            return RightPanel { data, row_stride: right.k_stride };
        }
        let width = plan.panel_cols;
        let part = PanelRange { start: area.col, count: area.cols, k, depth, width };
        let data = &mut scratch[..depth * width];
        self.b.pack(plan.isa, part, data);
        RightPanel { data, row_stride: width }
    }

    /// Adds the terms of `range` to the part of the output in one panel.
    fn run_panel(
        &self,
        plan: Plan,
        area: Area,
        DepthRange { k, depth }: DepthRange,
        a: LeftBlock<'_>,
        b: RightPanel<'_>,
        out: SharedOutput<'_>,
    ) {
        let is_last = k + depth >= self.inner;
        // The addend, with its data from the first element of `area` on.
        let addend = self.addend.map(|addend| {
            let start = addend.strides.index(area.row, area.col);
            Addend { data: &addend.data[start..], ..addend }
        });
        // Without scaling, the addend initializes the accumulators.
        let initial = addend.filter(|addend| {
            (self.alpha, addend.beta) == (1.0, 1.0)
                && (addend.strides.col == 0 || addend.strides.col == 1)
        });
        let init = match initial {
            _ if k > 0 => AccumulatorInit::Output,
            Some(Addend { data, strides: MatrixStrides { row, col: 0 }, .. }) => {
                AccumulatorInit::PerRow { data, stride: row }
            }
            Some(Addend { data, strides, .. }) => {
                AccumulatorInit::Matrix { data, row_stride: strides.row }
            }
            None => AccumulatorInit::Zero,
        };
        let needs_scaling =
            is_last && initial.is_none() && (self.alpha != 1.0 || self.addend.is_some());
        let (a, a_row_stride, a_k_stride) = match a {
            LeftBlock::Strided(left) => {
                let data = left.data.get(area.row * left.stride + k * left.k_stride..);
                (data.unwrap_or(&[]), left.stride, left.k_stride)
            }
            LeftBlock::Packed(data) => (data, 0, 0),
        };
        let product = PanelProduct {
            a,
            a_row_stride,
            a_k_stride,
            b: b.data,
            b_row_stride: b.row_stride,
            depth,
            rows: area.rows,
            cols: area.cols,
            panel_cols: plan.panel_cols,
            out: out.data,
            out_start: out.strides.index(area.row, area.col),
            out_strides: out.strides,
            init,
            scaling: needs_scaling.then_some(Scaling { alpha: self.alpha, addend }),
            clamp: self.clamp.filter(|_| is_last),
        };
        tile::run(plan.isa, product);
    }
}

impl Output<'_> {
    /// True if all elements of a product have different indices. Rows and columns are positive, and
    /// all elements are inside.
    fn is_disjoint(&self, rows: usize, cols: usize) -> bool {
        let is_disjoint = |large_stride: usize, small_stride: usize, count: usize| {
            large_stride > (count - 1) * small_stride && (small_stride > 0 || count == 1)
        };
        let MatrixStrides { row, col } = self.strides;
        is_disjoint(row, col, cols) || is_disjoint(col, row, rows)
    }
}

impl Plan {
    fn scratch_len(&self) -> usize {
        let packed_rows = if self.packs_left { self.block_rows } else { 0 };
        let elements = (self.panel_cols + packed_rows) * self.block_depth;
        elements.next_multiple_of(CACHE_LINE_ELEMENTS)
    }
}

impl<'d> Gemm<'d, StridedOperand<'d>, StridedOperand<'d>> {
    /// Transposes the product if that is faster, and returns it with the strides of its output.
    ///
    /// The right operand is packed, and the left operand is read in place. The left one should be
    /// the operand with contiguous vectors if there are few vectors of the other.
    #[must_use]
    pub fn oriented(self, isa: Isa, strides: MatrixStrides) -> (Self, MatrixStrides) {
        let few_rows = self.rows < isa.lanes() && self.rows < self.cols && self.b.k_stride == 1;
        if !(few_rows || strides.col != 1 && strides.row == 1) {
            return (self, strides);
        }
        let addend =
            self.addend.map(|addend| Addend { strides: addend.strides.transposed(), ..addend });
        let swapped =
            Self { a: self.b, b: self.a, rows: self.cols, cols: self.rows, addend, ..self };
        (swapped, strides.transposed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_outputs_are_detected() {
        for (rows, cols, row, col, expected) in [
            (3, 4, 4, 1, true),
            (3, 4, 1, 3, true),
            (3, 4, 9, 2, true),
            (3, 4, 3, 1, false),
            (3, 4, 1, 0, false),
            (3, 4, 0, 1, false),
            (3, 1, 1, 0, true),
            (1, 4, 0, 1, true),
            (1, 4, 1, 0, false),
        ] {
            let out = Output { data: &mut [], strides: MatrixStrides { row, col } };
            assert_eq!(out.is_disjoint(rows, cols), expected, "{rows} {cols} {row} {col}");
        }
    }
}
