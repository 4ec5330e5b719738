//! Tiles of a product of integers, whose sums stay in registers.

#![expect(unsafe_code, reason = "reads operands and writes sums through checked pointers")]

use super::{End, Product, Zero};
use crate::{
    Float, Int, Isa, Routine, Simd,
    indirect::{Places, ZEROS},
    parallel::Shared,
};

/// Lanes of the widest vectors.
const MOST_LANES: usize = 16;

/// Bytes of prepared rows that stay in the nearest cache beside a panel of weights.
const NEAR: usize = 16 << 10;

/// Bytes of prepared rows that stay in the next one.
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

/// Numbers of a row that are multiplied together.
const fn group_len<S: Simd>() -> usize {
    if S::QUADS { 4 } else { 2 }
}

/// Bytes of the sum of a column of weights, where there is one.
const fn sum_bytes<S: Simd>() -> usize {
    if S::QUADS { size_of::<i32>() } else { 0 }
}

struct Sizes;

impl Routine for Sizes {
    type Output = [usize; 3];

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> [usize; 3] {
        const { [tile_rows::<S>(), group_len::<S>(), sum_bytes::<S>()] }
    }
}

/// Rows of the tallest tile.
pub(super) fn rows(isa: Isa) -> usize {
    isa.run(Sizes)[0]
}

/// Numbers of a row that are multiplied together.
pub(super) fn group(isa: Isa) -> usize {
    isa.run(Sizes)[1]
}

/// Bytes of the sum of a column of weights, where there is one.
pub(super) fn sum_len(isa: Isa) -> usize {
    isa.run(Sizes)[2]
}

/// Rows that are prepared at a time: few where all weights stay in the cache beside them, else
/// more, since weights are read again for each block.
pub(super) fn block_rows(isa: Isa, inner: usize, cols: usize, all: usize) -> usize {
    let bytes = if inner.saturating_mul(cols) <= FAR { NEAR } else { FAR };
    let unit = rows(isa);
    let most = bytes / (4 * inner.div_ceil(group(isa))).max(1) / unit * unit;
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
    /// Rows that are prepared at a time.
    pub(super) block: usize,
    /// From and to.
    pub(super) panels: (usize, usize),
    /// Where prepared rows go: a block of them, from a place on.
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
        let words = self.inner.div_ceil(group_len::<S>());
        let mut from = self.rows.0;
        while from < self.rows.1 {
            let count = self.block.min(self.rows.1 - from);
            let (shared, start) = self.scratch;
            // SAFETY: each thread has a part of its own.
            let block = unsafe { shared.part(start, count * words) };
            for (row, to) in (from..).zip(block.chunks_exact_mut(words.max(1))) {
                if const { S::QUADS } {
                    self.flip(row, bytemuck::cast_slice_mut(to));
                } else {
                    self.widen(row, bytemuck::cast_slice_mut(to));
                }
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
        let zero = i16::from(self.zero(row));
        self.prepare(row, to, 0, |x| i16::from(x) - zero);
    }

    /// Takes the sign off a row: each integer is 128 more.
    #[inline(always)]
    fn flip(&self, row: usize, to: &mut [u8]) {
        let flip = |x: i8| x.cast_unsigned() ^ 0x80;
        self.prepare(row, to, flip(self.zero(row)), flip);
    }

    /// Of each integer of a row what `one` gives, and `zero` for taps of zeros.
    #[inline(always)]
    fn prepare<T: Copy>(&self, row: usize, to: &mut [T], zero: T, one: impl Fn(i8) -> T) {
        let Product { x, places, channels, .. } = self.product;
        let (to, rest) = to.split_at_mut(self.inner);
        // Weights are zero there.
        rest.fill(zero);
        let all = |x: &[i8], to: &mut [T]| x.iter().zip(to).for_each(|(x, to)| *to = one(*x));
        match places {
            Places::Rows { step } => all(&x[row * step..][..channels], to),
            Places::Taps { at, taps } => {
                let places = &at[row * taps..][..taps];
                for (place, to) in places.iter().zip(to.chunks_exact_mut(channels.max(1))) {
                    match *place {
                        ZEROS => to.fill(zero),
                        place => all(&x[place as usize..][..channels], to),
                    }
                }
            }
        }
    }

    /// What zero is stored as.
    #[inline(always)]
    fn zero(&self, row: usize) -> i8 {
        match self.product.zero {
            Zero::All(zero) => zero,
            Zero::Rows(all) => all[row],
        }
    }

    /// What the sums of a panel start with that has sums of `weights` before it: what is added to
    /// them, less what the products of flipped rows have too much.
    #[inline(always)]
    fn starts<S: Simd, const R: usize>(
        &self,
        simd: S,
        weights: &[i8],
        row: usize,
        first: usize,
    ) -> [[S::I32; 2]; R] {
        let start = self.end.start(simd, first);
        if const { !S::QUADS } {
            return [start; R];
        }
        let sums = weights.as_chunks::<4>().0;
        let less = |zero: i8| {
            let (mut all, more) = ([0_i32; 2 * MOST_LANES], i32::from(zero) + 128);
            for (sum, to) in sums[..2 * S::LANES].iter().zip(&mut all) {
                *to = i32::from_ne_bytes(sum.map(i8::cast_unsigned)).wrapping_mul(more);
            }
            let all: &[f32] = bytemuck::cast_slice(&all);
            [0, 1].map(|half| start[half] - simd.load(&all[half * S::LANES..]).to_bits())
        };
        match self.product.zero {
            Zero::All(zero) => [less(zero); R],
            Zero::Rows(all) => core::array::from_fn(|r| less(all[row + r])),
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
        let group = const { group_len::<S>() };
        let words = self.inner.div_ceil(group);
        let rows = &block[row * words..][..R * words];
        let of_sums = self.width * const { sum_bytes::<S>() };
        let size = of_sums + group * self.width * words;
        let weights = &self.product.weights[panel * size..][..size];
        let first = panel * self.width;
        let mut sums = self.starts::<S, R>(simd, weights, from + row, first);
        let a: [*const i32; R] = core::array::from_fn(|r| rows[r * words..].as_ptr());
        let mut b = weights[of_sums..].as_ptr();
        for k in 0..words {
            let columns = [0, 1].map(|half| {
                let from = b.wrapping_add(half * group * S::LANES);
                // SAFETY: the panel has two vectors for each word of a row.
                unsafe {
                    if const { S::QUADS } {
                        simd.load_at(from.cast()).to_bits()
                    } else {
                        simd.load_pairs_at(from)
                    }
                }
            });
            for (sums, a) in sums.iter_mut().zip(a) {
                // SAFETY: each row has so many words.
                let word = simd.splat_i32(unsafe { *a.wrapping_add(k) });
                for (sum, column) in sums.iter_mut().zip(columns) {
                    *sum = if const { S::QUADS } {
                        sum.add_quads(word, column)
                    } else {
                        sum.add_pairs(word, column)
                    };
                }
            }
            b = b.wrapping_add(2 * group * S::LANES);
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
