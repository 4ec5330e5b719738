//! Tiles of an indirect product, whose sums stay in registers.

#![expect(unsafe_code, reason = "loads operands and stores accumulators through checked pointers")]

use super::{
    HalfFormat, Igemm, InputRows, PADDING_OFFSET, PackedWeights,
    weights::{Bf16s, F16s, Fixed, Numbers, Row, Stored, Unpacked, Words},
};
use crate::{Float, Isa, Routine, Simd, epilogue::BiasActivation, parallel::SharedSlice};

/// The most rows of a tile.
const MOST_ROWS: usize = 14;

/// Bytes of weights that stay in the first-level cache while all rows pass by.
const NEAR: usize = 24 * 1024;

/// Rows of a panel that are asked for before they are needed.
const AHEAD: usize = 8;

/// Products of one row that are added up apart from each other, since each sum waits for the last.
const CHAINS: usize = 4;

/// Rows and panels of a product that one thread computes.
#[derive(Clone, Copy)]
pub(super) struct Block<'p, 'd> {
    pub(super) product: Igemm<'d>,
    /// Numbers of a row.
    pub(super) inner: usize,
    /// Columns of a panel.
    pub(super) width: usize,
    /// From and to.
    pub(super) rows: (usize, usize),
    /// From and to.
    pub(super) panels: (usize, usize),
    pub(super) out: &'p SharedSlice<'p, f32>,
    pub(super) offset: usize,
    pub(super) row_stride: usize,
    pub(super) epilogue: BiasActivation<'p>,
}

/// What a tile does beside its sums.
#[derive(Clone, Copy)]
struct Aside {
    /// What the first row of weights asks for, since it is read next.
    ahead: *const u32,
    /// From the word that a row of weights asks for to that of the next row.
    step: usize,
    /// Where the numbers of the panel are written, of weights of which they are.
    numbers: *mut f32,
}

/// Computes `block`, which was checked.
#[inline(never)]
pub(super) fn run(isa: Isa, block: Block<'_, '_>) {
    match block.product.weights {
        PackedWeights::F32(all) => isa.run(Tiles::<Numbers>(block.first(all), block)),
        PackedWeights::Half(HalfFormat::Bf16, all) => {
            isa.run(Tiles::<Bf16s>(block.first(all), block))
        }
        PackedWeights::Half(HalfFormat::F16, all) => {
            isa.run(Tiles::<F16s>(block.first(all), block))
        }
        PackedWeights::Fixed24(all) => {
            isa.run(Tiles::<Fixed<false>>(block.first(all.words), block))
        }
    }
}

/// Computes `block`, which was checked, when it has at most one row and panels are two vectors
/// wide.
#[inline(never)]
pub(super) fn run_single_row(isa: Isa, block: Block<'_, '_>) {
    match block.product.weights {
        PackedWeights::F32(all) => isa.run(Single::<Numbers>(block.first(all), block)),
        PackedWeights::Half(HalfFormat::Bf16, all) => {
            isa.run(Single::<Bf16s>(block.first(all), block))
        }
        PackedWeights::Half(HalfFormat::F16, all) => {
            isa.run(Single::<F16s>(block.first(all), block))
        }
        PackedWeights::Fixed24(all) => {
            isa.run(Single::<Fixed<false>>(block.first(all.words), block))
        }
    }
}

/// Computes `block`, which was checked, and whose weights are unpacked, one panel after the other,
/// by the first rows.
#[inline(never)]
pub(super) fn run_unpacked(isa: Isa, block: Block<'_, '_>, numbers: &mut [f32]) {
    let PackedWeights::Fixed24(all) = block.product.weights else { return };
    isa.run(Unpacking { weights: block.first(all.words), block, numbers });
}

/// Weights of 24 bits, and room for the numbers of a panel.
struct Unpacking<'p, 'd> {
    weights: Row<Fixed<true>>,
    block: Block<'p, 'd>,
    numbers: &'p mut [f32],
}

impl Routine for Unpacking<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { weights, block, numbers } = self;
        let numbers = &mut numbers[..block.inner * block.width];
        let (first, last) = block.rows;
        if first == last {
            return;
        }
        for panel in block.panels.0..block.panels.1 {
            // The words of the next pair come while both panels of this one are computed.
            let next = weights.beside(panel - panel % 2 + 2).words(block.inner).halves()[panel % 2];
            let mut aside = Aside { numbers: numbers.as_mut_ptr(), ..block.ask::<S>(next, 1) };
            let mut row = first + block.strip(simd, weights, panel, (first, last - first), aside);
            let unpacked: Row<Unpacked> = block.first(numbers).before(panel);
            while row < last {
                aside.ahead = aside.ahead.wrapping_add(block.inner * aside.step);
                row += block.strip(simd, unpacked, panel, (row, last - row), aside);
            }
        }
    }
}

/// All rows of an block, and the first row of its weights.
struct Tiles<'p, 'd, W: Stored>(Row<W>, Block<'p, 'd>);

/// The only row of an block: compiled apart, so that it takes no registers from tiles.
struct Single<'p, 'd, W: Stored>(Row<W>, Block<'p, 'd>);

impl<W: Stored> Routine for Single<'_, '_, W> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self(weights, block) = self;
        // Threads that get no row.
        if block.rows.0 == block.rows.1 {
            return;
        }
        let (mut panel, last) = block.panels;
        // Streams begin with the first panel of a pair.
        if const { W::PAIRED } && panel % 2 == 1 && panel < last {
            block.narrow(simd, weights, panel);
            panel += 1;
        }
        // So many streams of weights come from the memory at once.
        if const { W::PAIRED && S::REGISTERS == 32 } {
            panel = block.streams::<S, W, 8>(simd, weights, panel);
        }
        panel = block.streams::<S, W, 4>(simd, weights, panel);
        for panel in panel..last {
            block.narrow(simd, weights, panel);
        }
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

impl<W: Stored> Routine for Tiles<'_, '_, W> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self(weights, block) = self;
        let (first, last) = block.panels;
        // Either a panel stays in the cache for all rows, or some rows for all panels.
        let near = (last - first) * block.width * block.inner * size_of::<f32>() <= NEAR;
        let chunks = if near { first..first + 1 } else { first..last };
        for chunk in chunks {
            let panels = if near { first..last } else { chunk..chunk + 1 };
            let (next, rows) =
                if panels.end < last { (panels.end, block.inner) } else { (chunk, 0) };
            let next = weights.beside(next).words(rows);
            let mut aside = block.ask::<S>(next, panels.len());
            let mut row = block.rows.0;
            while row < block.rows.1 {
                let left = block.rows.1 - row;
                let mut height = 1;
                for panel in panels.clone() {
                    height = block.strip(simd, weights, panel, (row, left), aside);
                    aside.ahead = aside.ahead.wrapping_add(block.inner * aside.step);
                }
                row += height;
            }
        }
    }
}

impl Block<'_, '_> {
    /// The units of columns from `col` on, of weights that have them.
    #[inline(always)]
    fn units(&self, col: usize) -> &[f32] {
        let PackedWeights::Fixed24(fixed) = self.product.weights else { return &[] };
        fixed.units.get(col..).unwrap_or_default()
    }

    /// What sums of the columns of a panel begin with: their bias, unless they have to be scaled
    /// first.
    #[inline(always)]
    fn start<S: Simd, W: Stored, const C: usize>(&self, simd: S, panel: usize) -> [S::F32; C] {
        let mut start = [simd.zero(); C];
        if const { !W::SCALED } {
            for (c, start) in start.iter_mut().enumerate() {
                *start = self.epilogue.bias(simd, panel * self.width + c * S::LANES);
            }
        }
        start
    }

    /// The first row of weights.
    fn first<W: Stored>(&self, all: &[W::Word]) -> Row<W> {
        Row::new(all, self.width, self.inner)
    }

    /// Has the tiles of so many panels ask for all of `next`.
    #[inline(always)]
    fn ask<S: Simd>(&self, next: Words, panels: usize) -> Aside {
        let tiles = (self.rows.1 - self.rows.0).div_ceil(const { tile_rows::<S>() }) * panels;
        let step = next.len.div_ceil((tiles * self.inner).max(1));
        Aside { ahead: next.at, step, numbers: core::ptr::null_mut() }
    }

    /// The only row and a panel.
    #[inline(always)]
    fn narrow<S: Simd, W: Stored>(&self, simd: S, weights: Row<W>, panel: usize) {
        let aside = self.ask::<S>(weights.words(0), 1);
        if self.product.cols - panel * self.width <= S::LANES {
            self.tile::<S, W, 1, 1>(simd, weights, panel, self.rows.0, aside);
        } else {
            self.tile::<S, W, 1, 2>(simd, weights, panel, self.rows.0, aside);
        }
    }

    /// The only row and panels from `panel` on, so many at once; the first one that is left.
    #[inline(always)]
    fn streams<S: Simd, W: Stored, const N: usize>(
        &self,
        simd: S,
        weights: Row<W>,
        panel: usize,
    ) -> usize {
        let groups = (self.panels.1 - panel) / N;
        for group in 0..groups {
            let group = if self.product.reverse_panels { groups - 1 - group } else { group };
            self.beside::<S, W, N>(simd, weights, panel + group * N);
        }
        panel + groups * N
    }

    /// The only row and several panels, from `panel` on.
    #[inline(always)]
    fn beside<S: Simd, W: Stored, const N: usize>(&self, simd: S, weights: Row<W>, panel: usize) {
        let Igemm { x, zeros, input_rows, channels, .. } = self.product;
        let row = self.rows.0;
        let mut sums = [[simd.zero(); 2]; N];
        for (stream, sums) in sums.iter_mut().enumerate() {
            *sums = self.start::<S, W, 2>(simd, panel + stream);
        }
        let mut b = weights.beside(panel).first();
        let taps = if let InputRows::Indirect { taps, .. } = input_rows { taps } else { 1 };
        for tap in 0..taps {
            let a = match input_rows {
                InputRows::Strided { stride } => x.as_ptr().wrapping_add(row * stride),
                InputRows::Indirect { offsets, taps } => match offsets[row * taps + tap] {
                    PADDING_OFFSET => zeros.as_ptr(),
                    offset => x.as_ptr().wrapping_add(offset as usize),
                },
            };
            // A copy, of which nothing else is asked than these sums, stays in registers.
            let mut running = sums;
            for k in 0..channels {
                // SAFETY: `fits` saw that each tap is inside the input, or it is of zeros.
                let factor = W::factor(simd, unsafe { *a.wrapping_add(k) });
                for (stream, sums) in running.iter_mut().enumerate() {
                    // SAFETY: `write` saw that all panels are there; each has `inner` rows of two
                    // vectors.
                    let columns = unsafe { b.beside(stream).load::<S, 2>(simd) };
                    for (sum, column) in sums.iter_mut().zip(columns) {
                        *sum = factor.mul_add(column, *sum);
                    }
                }
                b = b.below(1);
            }
            sums = running;
        }
        for (stream, sums) in sums.into_iter().enumerate() {
            self.finish::<S, W, 1, 2>(simd, [sums], panel + stream, row);
        }
    }

    /// Computes a tile of at most `left` rows, and returns its height.
    #[inline(always)]
    fn strip<S: Simd, W: Stored>(
        &self,
        simd: S,
        weights: Row<W>,
        panel: usize,
        rows: (usize, usize),
        aside: Aside,
    ) -> usize {
        if self.product.cols - panel * self.width <= S::LANES {
            self.strip_of::<S, W, 1>(simd, weights, panel, rows, aside)
        } else {
            self.strip_of::<S, W, 2>(simd, weights, panel, rows, aside)
        }
    }

    /// [`Block::strip`] of a panel of so many vectors.
    #[inline(always)]
    fn strip_of<S: Simd, W: Stored, const C: usize>(
        &self,
        simd: S,
        weights: Row<W>,
        panel: usize,
        (row, left): (usize, usize),
        aside: Aside,
    ) -> usize {
        // What two tiles can do is cut into halves, so that none is low.
        let most = const { tile_rows::<S>() };
        let left = if left > most && left < 2 * most { left.div_ceil(2) } else { left };
        macro_rules! tallest {
            ($($height:literal)*) => {
                $(if const { $height <= tile_rows::<S>() } && left >= $height {
                    self.tile::<S, W, $height, C>(simd, weights, panel, row, aside);
                    return $height;
                })*
            };
        }
        tallest!(14 8 7 6 5 4 3 2);
        self.tile::<S, W, 1, C>(simd, weights, panel, row, aside);
        1
    }

    #[inline(always)]
    fn tile<S: Simd, W: Stored, const R: usize, const C: usize>(
        &self,
        simd: S,
        weights: Row<W>,
        panel: usize,
        row: usize,
        mut aside: Aside,
    ) {
        let Igemm { x, zeros, input_rows, channels, .. } = self.product;
        let mut sums = [self.start::<S, W, C>(simd, panel); R];
        let mut b = weights.beside(panel);
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
            // A copy, of which nothing else is asked than these sums, stays in registers.
            let mut running = sums;
            let mut start = 0;
            if R == 1 {
                let mut chains = [[simd.zero(); C]; CHAINS];
                start = channels - channels % CHAINS;
                for k in (0..start).step_by(CHAINS) {
                    for (u, chain) in chains.iter_mut().enumerate() {
                        // SAFETY: as below.
                        let factor = W::factor(simd, unsafe { *a[0].wrapping_add(k + u) });
                        // SAFETY: as below.
                        let columns = unsafe { b.below(u).load::<S, C>(simd) };
                        for (sum, column) in chain.iter_mut().zip(columns) {
                            *sum = factor.mul_add(column, *sum);
                        }
                    }
                    b = b.below(CHAINS);
                }
                for chain in chains {
                    for (sum, more) in running[0].iter_mut().zip(chain) {
                        *sum = *sum + more;
                    }
                }
            }
            for k in start..channels {
                b.below(AHEAD).prefetch::<S, C>(simd);
                simd.prefetch(aside.ahead);
                aside.ahead = aside.ahead.wrapping_add(aside.step);
                // SAFETY: `write` saw that all panels are there; each has `inner` rows of `C`
                // vectors.
                let mut columns = unsafe { b.load::<S, C>(simd) };
                if R > 1 {
                    for column in &mut columns {
                        *column = W::column(simd, *column);
                    }
                }
                // A tile of one row is the only one.
                if const { W::WRITTEN && R > 1 } {
                    for (c, column) in columns.into_iter().enumerate() {
                        // SAFETY: there is room for a panel.
                        unsafe { simd.store_ptr(column, aside.numbers.wrapping_add(c * S::LANES)) };
                    }
                    aside.numbers = aside.numbers.wrapping_add(self.width);
                }
                for (running, a) in running.iter_mut().zip(a) {
                    // SAFETY: `fits` saw that each tap is inside the input, or it is of zeros.
                    let x = unsafe { *a.wrapping_add(k) };
                    let factor = if R > 1 { simd.splat(x) } else { W::factor(simd, x) };
                    for (sum, column) in running.iter_mut().zip(columns) {
                        *sum = factor.mul_add(column, *sum);
                    }
                }
                b = b.below(1);
            }
            sums = running;
        }
        self.finish::<S, W, R, C>(simd, sums, panel, row);
    }

    /// Writes the sums of a tile.
    #[inline(always)]
    fn finish<S: Simd, W: Stored, const R: usize, const C: usize>(
        &self,
        simd: S,
        mut sums: [[S::F32; C]; R],
        panel: usize,
        row: usize,
    ) {
        let cols = self.product.cols;
        let first = panel * self.width;
        if const { W::SCALED } {
            for c in 0..C {
                let col = first + c * S::LANES;
                let (unit, bias) = (simd.load(self.units(col)), self.epilogue.bias(simd, col));
                for sums in &mut sums {
                    sums[c] = sums[c].mul_add(unit, bias);
                }
            }
        }
        if cols - first >= C * S::LANES {
            // SAFETY: `write` saw that the target holds the rows, and threads have rows or panels
            // of their own.
            let to = unsafe { self.out.ptr_at(self.offset + row * self.row_stride + first) };
            // SAFETY: as above.
            unsafe { self.epilogue.store_tile(simd, sums, to, self.row_stride) };
            return;
        }
        for (r, sums) in sums.into_iter().enumerate() {
            for (c, sum) in sums.into_iter().enumerate() {
                let col = first + c * S::LANES;
                let Some(len) = cols.checked_sub(col).filter(|len| *len > 0) else { continue };
                let at = self.offset + (row + r) * self.row_stride + col;
                // SAFETY: `write` saw that the target holds the row, and threads have rows or
                // panels of their own.
                let to = unsafe { self.out.ptr_at(at) };
                // SAFETY: as above.
                unsafe { self.epilogue.store(simd, sum, to, len.min(S::LANES)) };
            }
        }
    }
}
