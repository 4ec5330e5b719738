//! Products of matrices of `f32`, and of whatever can be packed like one.
//!
//! The columns of the product are cut into panels as wide as a tile, the inner dimension into
//! blocks. A panel of a block is packed so that it lies in the first-level cache; then the rows of
//! the product are computed in strips, each a tile whose sums stay in registers.

mod gemv;
mod panels;
pub(crate) mod tile;

use afferent_core::Workers;

use crate::{
    Isa, SizeError,
    parallel::{self, Grain, SharedSlice},
};

pub use panels::{Dim, Operand, PanelRange, StridedOperand};
use tile::{Start, Strips};

/// The most products that a tile adds up between two visits of its sums in memory.
const DEPTH: usize = 384;

/// Elements of the left operand that should stay in the second-level cache.
const BLOCK: usize = 128 * 1024;

/// Numbers in a line of the cache.
const CACHE_LINE: usize = 16;

/// The product `alpha · a · b + addend`, with bounds.
///
/// Line `i` of `a` is row `i` of the left matrix, line `j` of `b` is column `j` of the right one.
#[derive(Debug, Clone, Copy)]
pub struct Gemm<'d, A, B> {
    /// Rows of the left matrix.
    pub a: A,
    /// Columns of the right matrix.
    pub b: B,
    /// Rows of the product.
    pub rows: usize,
    /// Length of each line.
    pub inner: usize,
    /// Columns of the product.
    pub cols: usize,
    /// Factor of the product.
    pub alpha: f32,
    /// What is added.
    pub addend: Option<Addend<'d>>,
    /// The bounds of the result; NaN stays.
    pub clamp: Option<(f32, f32)>,
}

/// A matrix that is added: element `(i, j)` is `beta · data[i * row + j * col]`.
#[derive(Debug, Clone, Copy)]
pub struct Addend<'d> {
    /// The elements.
    pub data: &'d [f32],
    /// Strides; zero repeats a row or a column.
    pub strides: MatrixStrides,
    /// Factor.
    pub beta: f32,
}

/// Strides of a matrix: element `(i, j)` is at `i * row + j * col`.
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
    fn index(self, row: usize, col: usize) -> usize {
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

/// How a product is cut up.
#[derive(Debug, Clone, Copy)]
struct Plan {
    isa: Isa,
    /// Columns of a panel.
    width: usize,
    /// Products between two visits of a sum.
    depth: usize,
    /// Rows that one packed panel serves.
    rows: usize,
    /// Whether the left operand is packed too.
    packs_a: bool,
    /// Whether all blocks of a panel come before the next panel.
    panel_first: bool,
}

/// Rows and columns of the product that one thread computes.
#[derive(Debug, Clone, Copy)]
struct Area {
    row: usize,
    rows: usize,
    col: usize,
    cols: usize,
}

impl<A: Operand, B: Operand> Gemm<'_, A, B> {
    /// Numbers of scratch memory that [`Gemm::run`] takes on `threads` threads.
    pub fn scratch_len(&self, isa: Isa, threads: usize) -> usize {
        let plan = self.plan(isa);
        plan.scratch_len().saturating_mul(self.tasks(threads)).saturating_add(CACHE_LINE)
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
        // Rows and columns of an output that overlap belong to one thread.
        let tasks = if out.is_disjoint(self.rows, self.cols) { wanted } else { 1 };
        let skip = scratch.as_ptr().align_offset(CACHE_LINE * size_of::<f32>());
        let len = plan.scratch_len();
        let required = len.checked_mul(tasks).and_then(|len| len.checked_add(skip));
        SizeError::check_min("scratch", scratch.len(), required)?;
        let scratch = &mut scratch[skip..][..len * tasks];
        let data = SharedSlice::new(out.data);
        let strides = out.strides;
        // Whole panels or strips, so that threads share as few cache lines as possible.
        let by_cols = self.cols >= self.rows;
        let (count, unit) =
            if by_cols { (self.cols, plan.width) } else { (self.rows, tile::rows(isa)) };
        let share = count.div_ceil(unit).div_ceil(tasks) * unit;
        parallel::for_each_chunk(workers, scratch, len, |task, scratch| {
            let start = count.min(task * share);
            let len = share.min(count - start);
            let area = if by_cols {
                Area { row: 0, rows: self.rows, col: start, cols: len }
            } else {
                Area { row: start, rows: len, col: 0, cols: self.cols }
            };
            self.run_area(plan, area, &data, strides, scratch);
        });
        Ok(())
    }

    fn tasks(&self, threads: usize) -> usize {
        let macs = self.rows.saturating_mul(self.cols).saturating_mul(self.inner);
        Grain::GEMM.tasks(macs, threads)
    }

    fn plan(&self, isa: Isa) -> Plan {
        let lanes = isa.lanes();
        let width = if self.cols <= lanes { lanes } else { 2 * lanes };
        let depth = self.inner.div_ceil(self.inner.div_ceil(DEPTH).max(1)).max(1);
        let by_rows = self.a.strided().is_some_and(|lines| lines.k_step == 1);
        let few = self.cols <= 2 * width;
        let packs_a = self.a.strided().is_none_or(|lines| !(by_rows || lines.step == 1 && few));
        let most = if packs_a { BLOCK / depth } else { 1024 };
        let rows = most.next_multiple_of(tile::rows(isa)).min(self.rows);
        let panel_first = !packs_a && self.rows.saturating_mul(self.inner) <= BLOCK;
        Plan { isa, width, depth, rows, packs_a, panel_first }
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
        let check = |operand, expected, (vectors, depth): (usize, usize), count| {
            let covers = count <= vectors && self.inner <= depth;
            SizeError::check_parameter(operand, expected, covers)
        };
        check("a", "at least `rows` × `inner`", self.a.extent(), self.rows)?;
        check("b", "at least `cols` × `inner`", self.b.extent(), self.cols)
    }

    fn run_area(
        &self,
        plan: Plan,
        area: Area,
        out: &SharedSlice<'_, f32>,
        strides: MatrixStrides,
        scratch: &mut [f32],
    ) {
        let (b_scratch, a_scratch) = scratch.split_at_mut(plan.depth * plan.width);
        let panels = area.cols.div_ceil(plan.width);
        let blocks = self.inner.div_ceil(plan.depth).max(1);
        for row in (area.row..area.row + area.rows).step_by(plan.rows.max(1)) {
            let rows = plan.rows.min(area.row + area.rows - row);
            let mut packed = usize::MAX;
            for step in 0..panels * blocks {
                let (panel, block) = if plan.panel_first {
                    (step / blocks, step % blocks)
                } else {
                    (step % panels, step / panels)
                };
                let k = block * plan.depth;
                let depth = plan.depth.min(self.inner - k);
                if plan.packs_a && packed != block {
                    packed = block;
                    for (from, count) in tile::strips(plan.isa, rows) {
                        let part = PanelRange { start: row + from, count, k, depth, width: count };
                        let to = &mut a_scratch[from * depth..][..count * depth];
                        self.a.pack(plan.isa, part, to);
                    }
                }
                let start = panel * plan.width;
                let cols = plan.width.min(area.cols - start);
                let area = Area { row, rows, col: area.col + start, cols };
                let b = self.panel(plan, area, k, depth, b_scratch);
                let a = if plan.packs_a { None } else { self.a.strided() };
                self.strips(plan, area, (k, depth), (a, a_scratch), b, out, strides);
            }
        }
    }

    /// The panel of `area`: where it lies when that is good enough, else packed.
    fn panel<'p>(
        &'p self,
        plan: Plan,
        area: Area,
        k: usize,
        depth: usize,
        scratch: &'p mut [f32],
    ) -> (&'p [f32], usize) {
        let direct = self.b.strided().filter(|lines| {
            lines.step == 1 && area.cols == plan.width && self.rows <= 2 * tile::rows(plan.isa)
        });
        if let Some(lines) = direct.filter(|_| depth > 0) {
            return (&lines.data[k * lines.k_step + area.col..], lines.k_step);
        }
        let part = PanelRange { start: area.col, count: area.cols, k, depth, width: plan.width };
        let to = &mut scratch[..depth * plan.width];
        self.b.pack(plan.isa, part, to);
        (to, plan.width)
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one step of the loop above")]
    fn strips(
        &self,
        plan: Plan,
        area: Area,
        (k, depth): (usize, usize),
        (a, packed): (Option<StridedOperand<'_>>, &[f32]),
        b: (&[f32], usize),
        out: &SharedSlice<'_, f32>,
        strides: MatrixStrides,
    ) {
        let is_last = k + depth >= self.inner;
        let at = |addend: &Addend<'_>| addend.strides.index(area.row, area.col);
        // Where nothing is scaled, sums start with what is added to them.
        let simple = self.addend.filter(|addend| {
            (self.alpha, addend.beta) == (1.0, 1.0)
                && (addend.strides.col == 0 || addend.strides.col == 1)
        });
        let start = match &simple {
            _ if k > 0 => Start::Target,
            Some(addend) if addend.strides.col == 0 => {
                Start::Rows(&addend.data[at(addend)..], addend.strides.row)
            }
            Some(addend) => Start::Matrix(&addend.data[at(addend)..], addend.strides.row),
            None => Start::Zero,
        };
        let late = is_last && simple.is_none() && (self.alpha != 1.0 || self.addend.is_some());
        let late = late.then(|| (self.alpha, self.addend.map(|a| (&a.data[at(&a)..], a))));
        let (a, a_row, a_k) = match a {
            Some(lines) => (
                lines.data.get(area.row * lines.step + k * lines.k_step..),
                lines.step,
                lines.k_step,
            ),
            None => (Some(packed), 0, 0),
        };
        let strips = Strips {
            a: a.unwrap_or(&[]),
            a_row,
            a_k,
            b: b.0,
            b_k: b.1,
            depth,
            rows: area.rows,
            cols: area.cols,
            width: plan.width,
            out,
            at: strides.index(area.row, area.col),
            steps: (strides.row, strides.col),
            start,
            late,
            clamp: self.clamp.filter(|_| is_last),
        };
        tile::run(plan.isa, strips);
    }
}

impl Output<'_> {
    /// Whether each element of a product, which has some and fits, has a place of its own.
    fn is_disjoint(&self, rows: usize, cols: usize) -> bool {
        let apart = |large: usize, (small, count): (usize, usize)| {
            large > (count - 1) * small && (small > 0 || count == 1)
        };
        let MatrixStrides { row, col } = self.strides;
        apart(row, (col, cols)) || apart(col, (row, rows))
    }
}

impl Plan {
    fn scratch_len(&self) -> usize {
        let a = if self.packs_a { self.rows } else { 0 };
        ((self.width + a) * self.depth).next_multiple_of(CACHE_LINE)
    }
}

impl<'d> Gemm<'d, StridedOperand<'d>, StridedOperand<'d>> {
    /// The same product in the orientation that is computed faster, and the steps of its target.
    ///
    /// The wide side of a tile is packed, the other one is read in place: the operand whose lines
    /// lie in memory one after the other should be the latter, when there are few of the others.
    #[must_use]
    pub fn oriented(self, isa: Isa, strides: MatrixStrides) -> (Self, MatrixStrides) {
        let few = self.rows < isa.lanes() && self.rows < self.cols && self.b.k_step == 1;
        if !(few || strides.col != 1 && strides.row == 1) {
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
    fn elements_that_share_a_place_are_found() {
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
            let target = Output { data: &mut [], strides: MatrixStrides { row, col } };
            assert_eq!(target.is_disjoint(rows, cols), expected, "{rows} {cols} {row} {col}");
        }
    }
}
