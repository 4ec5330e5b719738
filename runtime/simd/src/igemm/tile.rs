//! IGEMM microkernel, and the loops over panels and rows.

#![expect(unsafe_code, reason = "loads operands and stores accumulators through checked pointers")]

use super::{
    HalfFormat, Igemm, InputRows, PADDING_OFFSET, PackedWeights,
    gemv::SingleRow,
    weights::{Bf16, F16, F32, Packed24, PanelRow, Unpacked24, WeightFormat, WordRange},
};
use crate::{Float, Isa, Routine, Simd, epilogue::BiasActivation, parallel::SharedSlice};

/// Maximum rows of a tile.
const MAX_ROWS: usize = 14;

/// Bytes of weights that stay in the first-level cache while all rows are computed.
const L1_WEIGHT_BYTES: usize = 24 * 1024;

/// Rows of a panel from a load to the row that is prefetched.
const PREFETCH_ROWS: usize = 8;

/// Independent accumulators per output of a single row: they hide the latency of the additions.
const ACCUMULATOR_CHAINS: usize = 4;

/// Rows and panels of a product that one task computes.
#[derive(Clone, Copy)]
pub(super) struct Block<'p, 'd> {
    pub(super) product: Igemm<'d>,
    /// Inner dimension.
    pub(super) inner: usize,
    /// Columns of a panel.
    pub(super) width: usize,
    /// First row and end.
    pub(super) rows: (usize, usize),
    /// First panel and end.
    pub(super) panels: (usize, usize),
    pub(super) out: &'p SharedSlice<'p, f32>,
    /// Index of the first element of the output.
    pub(super) offset: usize,
    pub(super) row_stride: usize,
    pub(super) epilogue: BiasActivation<'p>,
}

/// Memory accesses of a tile besides its operands and accumulators.
#[derive(Clone, Copy)]
struct SideAccess {
    /// Next word to prefetch: of the weights that follow those of the tile.
    prefetch: *const u32,
    /// Words to advance `prefetch` per row of weights.
    prefetch_step: usize,
    /// Destination of the unpacked panel, for formats with [`WeightFormat::STORES_UNPACKED`].
    unpacked: *mut f32,
}

/// Position of a strip: its first row, and the rows that are left from there on.
#[derive(Clone, Copy)]
struct RemainingRows {
    row: usize,
    left: usize,
}

/// Computes `block`, which has been checked.
#[inline(never)]
pub(super) fn run(isa: Isa, block: Block<'_, '_>) {
    match block.product.weights {
        PackedWeights::F32(all) => isa.run(Tiles::<F32>(block.first_row(all), block)),
        PackedWeights::Half(HalfFormat::Bf16, all) => {
            isa.run(Tiles::<Bf16>(block.first_row(all), block));
        }
        PackedWeights::Half(HalfFormat::F16, all) => {
            isa.run(Tiles::<F16>(block.first_row(all), block));
        }
        PackedWeights::Fixed24(all) => {
            isa.run(Tiles::<Packed24<false>>(block.first_row(all.words), block));
        }
    }
}

/// Computes `block`, which has been checked and has at most one row, with panels two vectors wide.
#[inline(never)]
pub(super) fn run_single_row(isa: Isa, block: Block<'_, '_>) {
    match block.product.weights {
        PackedWeights::F32(all) => isa.run(SingleRow::<F32>(block.first_row(all), block)),
        PackedWeights::Half(HalfFormat::Bf16, all) => {
            isa.run(SingleRow::<Bf16>(block.first_row(all), block));
        }
        PackedWeights::Half(HalfFormat::F16, all) => {
            isa.run(SingleRow::<F16>(block.first_row(all), block));
        }
        PackedWeights::Fixed24(all) => {
            isa.run(SingleRow::<Packed24<false>>(block.first_row(all.words), block));
        }
    }
}

/// Computes `block`, which has been checked, with 24-bit weights. The first rows of each panel
/// store its weights to `unpacked`, for the other rows.
#[inline(never)]
pub(super) fn run_unpacked(isa: Isa, block: Block<'_, '_>, unpacked: &mut [f32]) {
    let PackedWeights::Fixed24(all) = block.product.weights else { return };
    isa.run(UnpackingTiles { weights: block.first_row(all.words), block, unpacked });
}

/// A block of 24-bit weights, and the buffer for an unpacked panel.
struct UnpackingTiles<'p, 'd> {
    weights: PanelRow<Packed24<true>>,
    block: Block<'p, 'd>,
    unpacked: &'p mut [f32],
}

impl Routine for UnpackingTiles<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { weights, block, unpacked } = self;
        let unpacked = &mut unpacked[..block.inner * block.width];
        let (first, end) = block.rows;
        if first == end {
            return;
        }
        for panel in block.panels.0..block.panels.1 {
            // Prefetches the next pair of panels while both panels of this one are computed.
            let next_pair = weights.next_panel(panel - panel % 2 + 2).words(block.inner);
            let side = block.side_access::<S>(next_pair.halves()[panel % 2], 1);
            let mut side = SideAccess { unpacked: unpacked.as_mut_ptr(), ..side };
            let rows = RemainingRows { row: first, left: end - first };
            let mut row = first + block.strip(simd, weights, panel, rows, side);
            let unpacked: PanelRow<Unpacked24> = block.first_row(unpacked).previous_panel(panel);
            while row < end {
                side.prefetch = side.prefetch.wrapping_add(block.inner * side.prefetch_step);
                let rows = RemainingRows { row, left: end - row };
                row += block.strip(simd, unpacked, panel, rows, side);
            }
        }
    }
}

/// All rows of a block, and the first row of its weights.
struct Tiles<'p, 'd, W: WeightFormat>(PanelRow<W>, Block<'p, 'd>);

/// Rows for which two vectors of accumulators each, and the operands, fill the registers.
const fn max_tile_rows<S: Simd>() -> usize {
    match (S::LANES, S::REGISTERS) {
        (16, 32) => MAX_ROWS,
        (_, 32) => 8,
        (8, 16) => 6,
        _ => 4,
    }
}

impl<W: WeightFormat> Routine for Tiles<'_, '_, W> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self(weights, block) = self;
        let (first, end) = block.panels;
        // Either all panels stay in the cache for each strip of rows, or one panel for all rows.
        let weight_bytes = (end - first) * block.width * block.inner * size_of::<f32>();
        let fits_l1 = weight_bytes <= L1_WEIGHT_BYTES;
        let groups = if fits_l1 { first..first + 1 } else { first..end };
        for group in groups {
            let panels = if fits_l1 { first..end } else { group..group + 1 };
            let (next, rows) =
                if panels.end < end { (panels.end, block.inner) } else { (group, 0) };
            let next = weights.next_panel(next).words(rows);
            let mut side = block.side_access::<S>(next, panels.len());
            let mut row = block.rows.0;
            while row < block.rows.1 {
                let rows = RemainingRows { row, left: block.rows.1 - row };
                let mut height = 1;
                for panel in panels.clone() {
                    height = block.strip(simd, weights, panel, rows, side);
                    side.prefetch = side.prefetch.wrapping_add(block.inner * side.prefetch_step);
                }
                row += height;
            }
        }
    }
}

impl Block<'_, '_> {
    /// Units of the columns from `col` on; empty if the weights have none.
    #[inline(always)]
    fn units(&self, col: usize) -> &[f32] {
        let PackedWeights::Fixed24(fixed) = self.product.weights else { return &[] };
        fixed.units.get(col..).unwrap_or_default()
    }

    /// Initial accumulators of the columns of a panel: the bias, or zero if they are scaled later.
    #[inline(always)]
    pub(super) fn initial_accumulators<S: Simd, W: WeightFormat, const C: usize>(
        &self,
        simd: S,
        panel: usize,
    ) -> [S::F32; C] {
        let mut initial = [simd.zero(); C];
        if const { !W::SCALED } {
            for (c, initial) in initial.iter_mut().enumerate() {
                *initial = self.epilogue.bias(simd, panel * self.width + c * S::LANES);
            }
        }
        initial
    }

    /// First row of the weights.
    fn first_row<W: WeightFormat>(&self, weights: &[W::Word]) -> PanelRow<W> {
        PanelRow::first(weights, self.width, self.inner)
    }

    /// Distributes the prefetches of `next` over the tiles of `panels` panels.
    #[inline(always)]
    fn side_access<S: Simd>(&self, next: WordRange, panels: usize) -> SideAccess {
        let tiles = (self.rows.1 - self.rows.0).div_ceil(const { max_tile_rows::<S>() }) * panels;
        let prefetch_step = next.len.div_ceil((tiles * self.inner).max(1));
        SideAccess { prefetch: next.ptr, prefetch_step, unpacked: core::ptr::null_mut() }
    }

    /// Computes one panel of the only row.
    #[inline(always)]
    pub(super) fn single_row_panel<S: Simd, W: WeightFormat>(
        &self,
        simd: S,
        weights: PanelRow<W>,
        panel: usize,
    ) {
        let side = self.side_access::<S>(weights.words(0), 1);
        if self.product.cols - panel * self.width <= S::LANES {
            self.tile::<S, W, 1, 1>(simd, weights, panel, self.rows.0, side);
        } else {
            self.tile::<S, W, 1, 2>(simd, weights, panel, self.rows.0, side);
        }
    }

    /// Computes a tile of a panel with at most `rows.left` rows, and returns its height.
    #[inline(always)]
    fn strip<S: Simd, W: WeightFormat>(
        &self,
        simd: S,
        weights: PanelRow<W>,
        panel: usize,
        rows: RemainingRows,
        side: SideAccess,
    ) -> usize {
        if self.product.cols - panel * self.width <= S::LANES {
            self.strip_of::<S, W, 1>(simd, weights, panel, rows, side)
        } else {
            self.strip_of::<S, W, 2>(simd, weights, panel, rows, side)
        }
    }

    /// [`Block::strip`] for `C` vectors of columns.
    #[inline(always)]
    fn strip_of<S: Simd, W: WeightFormat, const C: usize>(
        &self,
        simd: S,
        weights: PanelRow<W>,
        panel: usize,
        RemainingRows { row, left }: RemainingRows,
        side: SideAccess,
    ) -> usize {
        // Splits the rows of two tiles evenly, so that none has few rows.
        let max_rows = const { max_tile_rows::<S>() };
        let left = if left > max_rows && left < 2 * max_rows { left.div_ceil(2) } else { left };
        macro_rules! tallest {
            ($($height:literal)*) => {
                $(if const { $height <= max_tile_rows::<S>() } && left >= $height {
                    self.tile::<S, W, $height, C>(simd, weights, panel, row, side);
                    return $height;
                })*
            };
        }
        tallest!(14 8 7 6 5 4 3 2);
        self.tile::<S, W, 1, C>(simd, weights, panel, row, side);
        1
    }

    /// Computes a tile of `R` rows from `row` on and `C` vectors of columns.
    #[inline(always)]
    fn tile<S: Simd, W: WeightFormat, const R: usize, const C: usize>(
        &self,
        simd: S,
        weights: PanelRow<W>,
        panel: usize,
        row: usize,
        mut side: SideAccess,
    ) {
        let Igemm { x, zeros, input_rows, channels, .. } = self.product;
        let mut accumulators = [self.initial_accumulators::<S, W, C>(simd, panel); R];
        let mut b = weights.next_panel(panel);
        let taps = match input_rows {
            InputRows::Strided { .. } => 1,
            InputRows::Indirect { taps, .. } => taps,
        };
        for tap in 0..taps {
            let mut a = [x.as_ptr(); R];
            for (r, a) in a.iter_mut().enumerate() {
                *a = match input_rows {
                    InputRows::Strided { stride } => a.wrapping_add((row + r) * stride),
                    InputRows::Indirect { offsets, taps } => {
                        match offsets[(row + r) * taps + tap] {
                            PADDING_OFFSET => zeros.as_ptr(),
                            offset => a.wrapping_add(offset as usize),
                        }
                    }
                };
            }
            // A copy that is used only in these loops stays in registers.
            let mut running = accumulators;
            let mut start = 0;
            if R == 1 {
                let mut chains = [[simd.zero(); C]; ACCUMULATOR_CHAINS];
                start = channels - channels % ACCUMULATOR_CHAINS;
                for k in (0..start).step_by(ACCUMULATOR_CHAINS) {
                    for (u, chain) in chains.iter_mut().enumerate() {
                        // SAFETY: as below.
                        let factor = W::scale_input(simd, unsafe { *a[0].wrapping_add(k + u) });
                        // SAFETY: as below.
                        let columns = unsafe { b.next_row(u).load::<S, C>(simd) };
                        for (acc, column) in chain.iter_mut().zip(columns) {
                            *acc = factor.mul_add(column, *acc);
                        }
                    }
                    b = b.next_row(ACCUMULATOR_CHAINS);
                }
                for chain in chains {
                    for (acc, partial) in running[0].iter_mut().zip(chain) {
                        *acc = *acc + partial;
                    }
                }
            }
            for k in start..channels {
                b.next_row(PREFETCH_ROWS).prefetch::<S, C>(simd);
                simd.prefetch(side.prefetch);
                side.prefetch = side.prefetch.wrapping_add(side.prefetch_step);
                // SAFETY: `check` verified the length of the weights: each panel has `inner` rows
                // of `C` vectors.
                let mut columns = unsafe { b.load::<S, C>(simd) };
                if R > 1 {
                    for column in &mut columns {
                        *column = W::scale_weights(simd, *column);
                    }
                }
                // No other tile follows a tile of one row.
                if const { W::STORES_UNPACKED && R > 1 } {
                    for (c, column) in columns.into_iter().enumerate() {
                        // SAFETY: the buffer holds a panel.
                        unsafe { simd.store_ptr(column, side.unpacked.wrapping_add(c * S::LANES)) };
                    }
                    side.unpacked = side.unpacked.wrapping_add(self.width);
                }
                for (running, a) in running.iter_mut().zip(a) {
                    // SAFETY: `check` verified that each run is inside the input or the zeros.
                    let x = unsafe { *a.wrapping_add(k) };
                    let factor = if R > 1 { simd.splat(x) } else { W::scale_input(simd, x) };
                    for (acc, column) in running.iter_mut().zip(columns) {
                        *acc = factor.mul_add(column, *acc);
                    }
                }
                b = b.next_row(1);
            }
            accumulators = running;
        }
        self.store::<S, W, R, C>(simd, accumulators, panel, row);
    }

    /// Scales the accumulators of a tile, applies the epilogue and stores them.
    #[inline(always)]
    pub(super) fn store<S: Simd, W: WeightFormat, const R: usize, const C: usize>(
        &self,
        simd: S,
        mut accumulators: [[S::F32; C]; R],
        panel: usize,
        row: usize,
    ) {
        let cols = self.product.cols;
        let first = panel * self.width;
        if const { W::SCALED } {
            for c in 0..C {
                let col = first + c * S::LANES;
                let (unit, bias) = (simd.load(self.units(col)), self.epilogue.bias(simd, col));
                for accumulators in &mut accumulators {
                    accumulators[c] = accumulators[c].mul_add(unit, bias);
                }
            }
        }
        if cols - first >= C * S::LANES {
            let start = self.offset + row * self.row_stride + first;
            // SAFETY: `check` verified that the rows are inside the output; threads have rows or
            // panels of their own.
            let to = unsafe { self.out.ptr_at(start) };
            // SAFETY: as above.
            unsafe { self.epilogue.store_tile(simd, accumulators, to, self.row_stride) };
            return;
        }
        for (r, accumulators) in accumulators.into_iter().enumerate() {
            for (c, acc) in accumulators.into_iter().enumerate() {
                let col = first + c * S::LANES;
                let Some(len) = cols.checked_sub(col).filter(|len| *len > 0) else { continue };
                let start = self.offset + (row + r) * self.row_stride + col;
                // SAFETY: `check` verified that the row is inside the output; threads have rows or
                // panels of their own.
                let to = unsafe { self.out.ptr_at(start) };
                // SAFETY: as above.
                unsafe { self.epilogue.store(simd, acc, to, len.min(S::LANES)) };
            }
        }
    }
}
