//! Tiles of an indirect product, whose sums stay in registers.

#![expect(unsafe_code, reason = "reads operands and writes sums through checked pointers")]

use super::{
    Half, Indirect, Places, Weights, ZEROS,
    stored::{Bf16s, F16s, Fixed, Numbers, Row, Stored, Unpacked, Words},
};
use crate::{Activation, Float, Isa, Routine, Simd, parallel::Shared};

/// The most rows of a tile.
const MOST_ROWS: usize = 14;

/// Bytes of weights that stay in the first-level cache while all rows pass by.
const NEAR: usize = 24 * 1024;

/// Rows of a panel that are asked for before they are needed.
const AHEAD: usize = 8;

/// Products of one row that are added up apart from each other, since each sum waits for the last.
const CHAINS: usize = 4;

/// Sums with a bias, and what follows them.
#[derive(Debug, Clone, Copy)]
pub struct Biased<'d> {
    /// What is added to each column of whole panels.
    pub bias: &'d [f32],
    /// What follows.
    pub then: Activation,
}

impl Biased<'_> {
    /// The vector from column `col` on that is added.
    #[inline(always)]
    fn bias<S: Simd>(self, simd: S, col: usize) -> S::F32 {
        simd.load(&self.bias[col..])
    }

    /// Writes the first `len` of sums with their bias.
    ///
    /// # Safety
    /// So many elements can be written at `to`.
    #[inline(always)]
    unsafe fn write<S: Simd>(self, simd: S, sums: S::F32, to: *mut f32, len: usize) {
        let sums = self.then.of(simd, sums);
        if len >= S::LANES {
            // SAFETY: demanded of the caller.
            unsafe { simd.store_at(sums, to) };
        } else {
            // SAFETY: demanded of the caller.
            unsafe { simd.store_first_at(sums, to, len) };
        }
    }

    /// Writes the sums of a tile with their bias, rows `step` apart.
    ///
    /// # Safety
    /// The rows of the tile can be written at `to`.
    #[inline(always)]
    unsafe fn write_tile<S: Simd, const R: usize, const C: usize>(
        self,
        simd: S,
        sums: [[S::F32; C]; R],
        to: *mut f32,
        step: usize,
    ) {
        if self.then.hardswish {
            for (r, sums) in sums.into_iter().enumerate() {
                for (c, sum) in sums.into_iter().enumerate() {
                    let to = to.wrapping_add(r * step + c * S::LANES);
                    // SAFETY: demanded of the caller.
                    unsafe { self.write(simd, sum, to, S::LANES) };
                }
            }
            return;
        }
        // Few instructions a vector, so that the loops are unrolled and sums stay in registers.
        let (low, high) = (simd.splat(self.then.clamp.0), simd.splat(self.then.clamp.1));
        for (r, sums) in sums.into_iter().enumerate() {
            for (c, sum) in sums.into_iter().enumerate() {
                let bounded = high.min(low.max(sum));
                // SAFETY: demanded of the caller.
                unsafe { simd.store_at(bounded, to.wrapping_add(r * step + c * S::LANES)) };
            }
        }
    }
}

/// Rows and panels of a product that one thread computes.
#[derive(Clone, Copy)]
pub(super) struct Area<'p, 'd> {
    pub(super) product: Indirect<'d>,
    /// Numbers of a row.
    pub(super) inner: usize,
    /// Columns of a panel.
    pub(super) width: usize,
    /// From and to.
    pub(super) rows: (usize, usize),
    /// From and to.
    pub(super) panels: (usize, usize),
    pub(super) out: &'p Shared<'p, f32>,
    pub(super) at: usize,
    pub(super) step: usize,
    pub(super) end: Biased<'p>,
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

/// Computes `area`, which was checked.
#[inline(never)]
pub(super) fn run(isa: Isa, area: Area<'_, '_>) {
    match area.product.weights {
        Weights::Numbers(all) => isa.run(Tiles::<Numbers>(area.first(all), area)),
        Weights::Halves(Half::Bf16, all) => isa.run(Tiles::<Bf16s>(area.first(all), area)),
        Weights::Halves(Half::F16, all) => isa.run(Tiles::<F16s>(area.first(all), area)),
        Weights::Fixed(all) => isa.run(Tiles::<Fixed<false>>(area.first(all.words), area)),
    }
}

/// Computes `area`, which was checked, when it has at most one row and panels are two vectors wide.
#[inline(never)]
pub(super) fn run_single(isa: Isa, area: Area<'_, '_>) {
    match area.product.weights {
        Weights::Numbers(all) => isa.run(Single::<Numbers>(area.first(all), area)),
        Weights::Halves(Half::Bf16, all) => isa.run(Single::<Bf16s>(area.first(all), area)),
        Weights::Halves(Half::F16, all) => isa.run(Single::<F16s>(area.first(all), area)),
        Weights::Fixed(all) => isa.run(Single::<Fixed<false>>(area.first(all.words), area)),
    }
}

/// Computes `area`, which was checked, and whose weights are unpacked, one panel after the other,
/// by the first rows.
#[inline(never)]
pub(super) fn run_unpacked(isa: Isa, area: Area<'_, '_>, numbers: &mut [f32]) {
    let Weights::Fixed(all) = area.product.weights else { return };
    isa.run(Unpacking { weights: area.first(all.words), area, numbers });
}

/// Weights of 24 bits, and room for the numbers of a panel.
struct Unpacking<'p, 'd> {
    weights: Row<Fixed<true>>,
    area: Area<'p, 'd>,
    numbers: &'p mut [f32],
}

impl Routine for Unpacking<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { weights, area, numbers } = self;
        let numbers = &mut numbers[..area.inner * area.width];
        let (first, last) = area.rows;
        if first == last {
            return;
        }
        for panel in area.panels.0..area.panels.1 {
            // The words of the next pair come while both panels of this one are computed.
            let next = weights.beside(panel - panel % 2 + 2).words(area.inner).halves()[panel % 2];
            let mut aside = Aside { numbers: numbers.as_mut_ptr(), ..area.ask::<S>(next, 1) };
            let mut row = first + area.strip(simd, weights, panel, (first, last - first), aside);
            let unpacked: Row<Unpacked> = area.first(numbers).before(panel);
            while row < last {
                aside.ahead = aside.ahead.wrapping_add(area.inner * aside.step);
                row += area.strip(simd, unpacked, panel, (row, last - row), aside);
            }
        }
    }
}

/// All rows of an area, and the first row of its weights.
struct Tiles<'p, 'd, W: Stored>(Row<W>, Area<'p, 'd>);

/// The only row of an area: compiled apart, so that it takes no registers from tiles.
struct Single<'p, 'd, W: Stored>(Row<W>, Area<'p, 'd>);

impl<W: Stored> Routine for Single<'_, '_, W> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self(weights, area) = self;
        // Threads that get no row.
        if area.rows.0 == area.rows.1 {
            return;
        }
        let (mut panel, last) = area.panels;
        // Streams begin with the first panel of a pair.
        if const { W::PAIRED } && panel % 2 == 1 && panel < last {
            area.narrow(simd, weights, panel);
            panel += 1;
        }
        // So many streams of weights come from the memory at once.
        if const { W::PAIRED && S::REGISTERS == 32 } {
            panel = area.streams::<S, W, 8>(simd, weights, panel);
        }
        panel = area.streams::<S, W, 4>(simd, weights, panel);
        for panel in panel..last {
            area.narrow(simd, weights, panel);
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
        let Self(weights, area) = self;
        let (first, last) = area.panels;
        // Either a panel stays in the cache for all rows, or some rows for all panels.
        let near = (last - first) * area.width * area.inner * size_of::<f32>() <= NEAR;
        let blocks = if near { first..first + 1 } else { first..last };
        for block in blocks {
            let panels = if near { first..last } else { block..block + 1 };
            let (next, rows) =
                if panels.end < last { (panels.end, area.inner) } else { (block, 0) };
            let next = weights.beside(next).words(rows);
            let mut aside = area.ask::<S>(next, panels.len());
            let mut row = area.rows.0;
            while row < area.rows.1 {
                let left = area.rows.1 - row;
                let mut height = 1;
                for panel in panels.clone() {
                    height = area.strip(simd, weights, panel, (row, left), aside);
                    aside.ahead = aside.ahead.wrapping_add(area.inner * aside.step);
                }
                row += height;
            }
        }
    }
}

impl Area<'_, '_> {
    /// The units of columns from `col` on, of weights that have them.
    #[inline(always)]
    fn units(&self, col: usize) -> &[f32] {
        let Weights::Fixed(fixed) = self.product.weights else { return &[] };
        fixed.units.get(col..).unwrap_or_default()
    }

    /// What sums of the columns of a panel begin with: their bias, unless they have to be scaled first.
    #[inline(always)]
    fn start<S: Simd, W: Stored, const C: usize>(&self, simd: S, panel: usize) -> [S::F32; C] {
        let mut start = [simd.zero(); C];
        if const { !W::SCALED } {
            for (c, start) in start.iter_mut().enumerate() {
                *start = self.end.bias(simd, panel * self.width + c * S::LANES);
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
            let group = if self.product.from_end { groups - 1 - group } else { group };
            self.beside::<S, W, N>(simd, weights, panel + group * N);
        }
        panel + groups * N
    }

    /// The only row and several panels, from `panel` on.
    #[inline(always)]
    fn beside<S: Simd, W: Stored, const N: usize>(&self, simd: S, weights: Row<W>, panel: usize) {
        let Indirect { x, zeros, places, channels, .. } = self.product;
        let row = self.rows.0;
        let mut sums = [[simd.zero(); 2]; N];
        for (stream, sums) in sums.iter_mut().enumerate() {
            *sums = self.start::<S, W, 2>(simd, panel + stream);
        }
        let mut b = weights.beside(panel).first();
        let taps = if let Places::Taps { taps, .. } = places { taps } else { 1 };
        for tap in 0..taps {
            let a = match places {
                Places::Rows { step } => x.as_ptr().wrapping_add(row * step),
                Places::Taps { at, taps } => match at[row * taps + tap] {
                    ZEROS => zeros.as_ptr(),
                    place => x.as_ptr().wrapping_add(place as usize),
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

    /// [`Area::strip`] of a panel of so many vectors.
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
        let Indirect { x, zeros, places, channels, .. } = self.product;
        let mut sums = [self.start::<S, W, C>(simd, panel); R];
        let mut b = weights.beside(panel);
        let taps = match places {
            Places::Rows { .. } => 1,
            Places::Taps { taps, .. } => taps,
        };
        for tap in 0..taps {
            let mut a = [x.as_ptr(); R];
            for (r, a) in a.iter_mut().enumerate() {
                *a = match places {
                    Places::Rows { step } => a.wrapping_add((row + r) * step),
                    Places::Taps { at, taps } => match at[(row + r) * taps + tap] {
                        ZEROS => zeros.as_ptr(),
                        place => a.wrapping_add(place as usize),
                    },
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
                // SAFETY: `write` saw that all panels are there; each has `inner` rows of `C` vectors.
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
                        unsafe { simd.store_at(column, aside.numbers.wrapping_add(c * S::LANES)) };
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
                let (unit, bias) = (simd.load(self.units(col)), self.end.bias(simd, col));
                for sums in &mut sums {
                    sums[c] = sums[c].mul_add(unit, bias);
                }
            }
        }
        if cols - first >= C * S::LANES {
            // SAFETY: `write` saw that the target holds the rows, and threads have rows or panels
            // of their own.
            let to = unsafe { self.out.pointer(self.at + row * self.step + first) };
            // SAFETY: as above.
            unsafe { self.end.write_tile(simd, sums, to, self.step) };
            return;
        }
        for (r, sums) in sums.into_iter().enumerate() {
            for (c, sum) in sums.into_iter().enumerate() {
                let col = first + c * S::LANES;
                let Some(len) = cols.checked_sub(col).filter(|len| *len > 0) else { continue };
                let at = self.at + (row + r) * self.step + col;
                // SAFETY: `write` saw that the target holds the row, and threads have rows or
                // panels of their own.
                let to = unsafe { self.out.pointer(at) };
                // SAFETY: as above.
                unsafe { self.end.write(simd, sum, to, len.min(S::LANES)) };
            }
        }
    }
}
