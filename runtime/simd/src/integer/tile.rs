//! Tiles of a product of integers, whose sums stay in registers.

#![expect(unsafe_code, reason = "reads operands and writes sums through checked pointers")]

use super::{End, Product, Zero};
use crate::{
    Int, Isa, Routine, Simd,
    indirect::{Places, ZEROS},
    parallel::Shared,
};

/// Bytes of widened rows that stay in the nearest cache beside a panel of weights.
const NEAR: usize = 16 << 10;

/// Bytes of widened rows that stay in the next one.
const FAR: usize = 128 << 10;

/// Rows such that two vectors of sums each, with those of the operands, fill the registers.
const fn tile_rows<S: Simd>() -> usize {
    match (S::LANES, S::REGISTERS) {
        (16, 32) => 12,
        (_, 32) => 8,
        (8, 16) => 6,
        _ => 4,
    }
}

struct Rows;

impl Routine for Rows {
    type Output = usize;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> usize {
        const { tile_rows::<S>() }
    }
}

/// Rows of the tallest tile.
pub(super) fn rows(isa: Isa) -> usize {
    isa.run(Rows)
}

/// Rows that are widened at a time: few where all weights stay in the cache beside them, else
/// more, since weights are read again for each block.
pub(super) fn block_rows(isa: Isa, inner: usize, cols: usize, all: usize) -> usize {
    let bytes = if inner.saturating_mul(cols) <= FAR { NEAR } else { FAR };
    let unit = rows(isa);
    let most = bytes / (2 * inner.next_multiple_of(2)).max(1) / unit * unit;
    most.clamp(unit, 64 * unit).min(all)
}

/// Rows and panels of a product that one thread computes.
pub(super) struct Area<'p, 'd, E: End> {
    pub(super) product: Product<'d>,
    /// Numbers of a row.
    pub(super) inner: usize,
    /// Columns of a panel.
    pub(super) width: usize,
    /// From and to.
    pub(super) rows: (usize, usize),
    /// Rows that are widened at a time.
    pub(super) block: usize,
    /// From and to.
    pub(super) panels: (usize, usize),
    /// Where widened rows go: a block of them, from a place on.
    pub(super) scratch: (&'p Shared<'p, i32>, usize),
    pub(super) out: &'p Shared<'p, E::Out>,
    pub(super) at: usize,
    pub(super) step: usize,
    pub(super) end: &'p E,
}

/// Computes `area`, which was checked.
#[inline(never)]
pub(super) fn run<E: End>(isa: Isa, area: Area<'_, '_, E>) {
    isa.run(area);
}

impl<E: End> Routine for Area<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let words = self.inner.div_ceil(2);
        let mut from = self.rows.0;
        while from < self.rows.1 {
            let count = self.block.min(self.rows.1 - from);
            let (shared, start) = self.scratch;
            // SAFETY: each thread has a part of its own.
            let block = unsafe { shared.part(start, count * words) };
            for (row, to) in (from..).zip(block.chunks_exact_mut(words.max(1))) {
                self.widen(row, bytemuck::cast_slice_mut(to));
            }
            for panel in self.panels.0..self.panels.1 {
                let mut row = 0;
                while row < count {
                    row += self.strip(simd, panel, (from, row), block, count - row);
                }
            }
            from += count;
        }
    }
}

impl<E: End> Area<'_, '_, E> {
    /// Widens a row to 16 bits, less what zero is stored as.
    #[inline(always)]
    fn widen(&self, row: usize, to: &mut [i16]) {
        let Product { x, places, channels, .. } = self.product;
        let zero = match self.product.zero {
            Zero::All(zero) => zero,
            Zero::Rows(all) => all[row],
        };
        let (to, rest) = to.split_at_mut(self.inner);
        rest.fill(0);
        let one = |x: &[i8], to: &mut [i16]| {
            x.iter().zip(to).for_each(|(x, to)| *to = i16::from(*x) - zero);
        };
        match places {
            Places::Rows { step } => one(&x[row * step..][..channels], to),
            Places::Taps { at, taps } => {
                let places = &at[row * taps..][..taps];
                for (place, to) in places.iter().zip(to.chunks_exact_mut(channels.max(1))) {
                    match *place {
                        ZEROS => to.fill(0),
                        place => one(&x[place as usize..][..channels], to),
                    }
                }
            }
        }
    }

    /// Computes the tallest tile that fits into `left` rows, and returns its height.
    #[inline(always)]
    fn strip<S: Simd>(
        &self,
        simd: S,
        panel: usize,
        rows: (usize, usize),
        block: &[i32],
        left: usize,
    ) -> usize {
        macro_rules! tallest {
            ($($height:literal)*) => {
                $(if const { $height <= tile_rows::<S>() } && left >= $height {
                    self.tile::<S, $height>(simd, panel, rows, block);
                    return $height;
                })*
            };
        }
        tallest!(12 8 6 4 3 2);
        self.tile::<S, 1>(simd, panel, rows, block);
        1
    }

    /// A tile of `R` rows of the block from `row` on.
    #[inline(always)]
    fn tile<S: Simd, const R: usize>(
        &self,
        simd: S,
        panel: usize,
        (from, row): (usize, usize),
        block: &[i32],
    ) {
        let words = self.inner.div_ceil(2);
        let rows = &block[row * words..][..R * words];
        let size = 2 * self.width * words;
        let weights = &self.product.weights[panel * size..][..size];
        let first = panel * self.width;
        let mut sums = [self.end.start(simd, first); R];
        let a: [*const i32; R] = core::array::from_fn(|r| rows[r * words..].as_ptr());
        let mut b = weights.as_ptr();
        for k in 0..words {
            let columns = [0, 1].map(|half| {
                // SAFETY: the panel has two vectors for each word of a row.
                unsafe { simd.load_pairs_at(b.wrapping_add(half * 2 * S::LANES)) }
            });
            for (sums, a) in sums.iter_mut().zip(a) {
                // SAFETY: each row has so many words.
                let pair = simd.splat_i32(unsafe { *a.wrapping_add(k) });
                for (sum, column) in sums.iter_mut().zip(columns) {
                    *sum = sum.add_pairs(pair, column);
                }
            }
            b = b.wrapping_add(4 * S::LANES);
        }
        let len = (self.product.cols - first).min(self.width);
        for (r, sums) in sums.into_iter().enumerate() {
            let row = from + row + r;
            // SAFETY: `write` saw that the target holds the row, and threads have rows or panels
            // of their own.
            let to = unsafe { self.out.pointer(self.at + row * self.step + first) };
            // SAFETY: as above; `write` asked `fits`.
            unsafe { self.end.write(simd, sums, (row, first), to, len) };
        }
    }
}
