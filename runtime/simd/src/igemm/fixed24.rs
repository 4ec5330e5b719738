//! Weights in 24 bits: integers, and for each column of them a unit.
//!
//! A single row takes as long as its weights take to be read, and three bytes are read in less time
//! than four. A weight is rounded as if it had been added to the largest one of its column: what
//! that costs a sum is no more than the order in which its products are added up.
//!
//! Panels are two vectors wide and go in pairs. Of the four vectors of a row, three lie in three
//! vectors of words of 32 bits, whose lowest bytes are the three bytes of the fourth. Such a word
//! is read as it is: the byte is part of the number, and what it adds is taken off the other bytes.

use super::WeightShape;
use crate::{Float, Int, Isa, Mask, Routine, Simd, SizeError};

/// Vectors of words of a row of two panels.
pub(super) const VECTORS: usize = 3;

/// What the integers stand for, of a unit of their column.
pub(super) const ONE: f32 = 1.0 / (1_u32 << 31) as f32;

/// The most lanes of a vector.
const MOST_LANES: usize = 16;

/// The most that a power of two above all numbers of a column is of their mean magnitude.
const RANGE: f32 = 64.0;

/// Of so many numbers of a column one may be zero by chance; where more are, they mean nothing and
/// are to stay zeros.
const ZERO_BY_CHANCE: f32 = 128.0;

/// Panels of numbers in 24 bits.
#[derive(Debug, Clone, Copy)]
pub struct Fixed24<'d> {
    pub(super) words: &'d [u32],
    /// What the integers of each column of whole panels are multiplied with, and with [`ONE`].
    pub(super) units: &'d [f32],
}

/// The columns of whole pairs of panels, and the words of their numbers; `None` when that
/// overflows, or where panels are one vector wide.
fn sizes(isa: Isa, WeightShape { inner, cols }: WeightShape) -> Option<(usize, usize)> {
    let lanes = isa.lanes();
    let cols = (cols > lanes).then(|| cols.checked_next_multiple_of(4 * lanes))??;
    Some((cols, (cols / 4).checked_mul(inner)?.checked_mul(VECTORS)?))
}

impl<'d> Fixed24<'d> {
    /// Words of packed weights; `None` when that overflows, or where panels are one vector wide.
    pub fn packed_len(isa: Isa, shape: WeightShape) -> Option<usize> {
        let (cols, words) = sizes(isa, shape)?;
        cols.checked_add(words)
    }

    /// Packed weights, which [`Fixed24::pack`] wrote; `None` when they are too short.
    pub fn new(isa: Isa, shape: WeightShape, packed: &'d [u32]) -> Option<Self> {
        let (cols, words) = sizes(isa, shape)?;
        let (units, rest) = packed.split_at_checked(cols)?;
        Some(Self { words: rest.get(..words)?, units: bytemuck::cast_slice(units) })
    }

    /// Numbers of scratch memory that [`Fixed24::pack`] takes.
    pub fn scratch_len(isa: Isa, inner: usize) -> usize {
        4 * isa.lanes() * inner
    }

    /// Packs weights: `panel` writes those of the columns from a number on, as many as a panel has,
    /// as [`pack`](super::pack) leaves them. `false` where they cannot be packed: some are not
    /// finite, or many are zeros among others, which would not stay zeros, or those of a column are
    /// so different that small ones would lose too much.
    ///
    /// # Panics
    /// When `to` is shorter than [`Fixed24::packed_len`], or `scratch` than
    /// [`Fixed24::scratch_len`].
    pub fn pack(
        isa: Isa,
        shape: WeightShape,
        mut panel: impl FnMut(usize, &mut [f32]),
        scratch: &mut [f32],
        to: &mut [u32],
    ) -> bool {
        let inner = shape.inner;
        let Some((cols, words)) = sizes(isa, shape) else { return false };
        let (units, words) = to[..cols + words].split_at_mut(cols);
        let width = 2 * isa.lanes();
        let (first, second) = scratch[..2 * width * inner].split_at_mut(width * inner);
        let pairs = words.chunks_exact_mut((VECTORS * isa.lanes() * inner).max(1));
        let units = bytemuck::cast_slice_mut(units).chunks_exact_mut(2 * width);
        for (pair, (units, words)) in units.zip(pairs).enumerate() {
            panel(2 * pair * width, first);
            panel((2 * pair + 1) * width, second);
            if !isa.run(Pair { panels: [first, second], units, words }) {
                return false;
            }
        }
        true
    }

    /// Checks that the weights cover `shape`.
    pub(super) fn check(&self, isa: Isa, shape: WeightShape) -> Result<(), SizeError> {
        let (cols, words) = sizes(isa, shape).ok_or(SizeError::Overflow { slice: "weights" })?;
        SizeError::check_min("weights", self.units.len(), Some(cols))?;
        SizeError::check_min("weights", self.words.len(), Some(words))
    }
}

/// Numbers of two panels, which are to be packed.
struct Pair<'p> {
    panels: [&'p [f32]; 2],
    units: &'p mut [f32],
    words: &'p mut [u32],
}

impl Routine for Pair<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> bool {
        let width = 2 * S::LANES;
        let mut scales = [simd.zero(); 4];
        for (vector, to) in scales.iter_mut().enumerate() {
            let (mut zeros, mut most, mut sums) = (simd.zero(), simd.zero(), simd.zero());
            let mut rows = 0.0;
            for row in self.panels[vector / 2].chunks_exact(width) {
                let size = simd.load(&row[vector % 2 * S::LANES..]).abs();
                let zero = size.lt(simd.splat(f32::MIN_POSITIVE));
                zeros = zeros + zero.select(simd.splat(1.0), simd.zero());
                (most, sums) = (size.max(most), sums + size);
                rows += 1.0;
            }
            let [mut zeros_of, mut most_of, mut sum_of, mut scale_of] = [[0.0; MOST_LANES]; 4];
            simd.store(zeros, &mut zeros_of);
            simd.store(most, &mut most_of);
            simd.store(sums, &mut sum_of);
            for lane in 0..S::LANES {
                if most_of[lane] == 0.0 && sum_of[lane] == 0.0 {
                    self.units[vector * S::LANES + lane] = 0.0;
                    continue;
                }
                let sizes = (zeros_of[lane] / rows, sum_of[lane] / rows, most_of[lane]);
                let Some(exponent) = exponent(sizes) else { return false };
                scale_of[lane] = power(31 - exponent);
                self.units[vector * S::LANES + lane] = power(exponent);
            }
            *to = simd.load(&scale_of);
        }
        let [first, second] = self.panels.map(|panel| panel.chunks_exact(width));
        let words = self.words.chunks_exact_mut(VECTORS * S::LANES);
        let none = simd.splat_i32(0);
        for ((first, second), to) in first.zip(second).zip(words) {
            let to = bytemuck::cast_slice_mut::<u32, f32>(to);
            let last = whole(simd, simd.load(&second[S::LANES..]) * scales[3], none);
            let (a, b, c) = (last.shr::<24>(), last.shr::<16>(), last.shr::<8>());
            let a = whole(simd, simd.load(first) * scales[0], a);
            let b = whole(simd, simd.load(&first[S::LANES..]) * scales[1], b);
            let c = whole(simd, simd.load(second) * scales[2], c);
            simd.store(a.bitcast(), to);
            simd.store(b.bitcast(), &mut to[S::LANES..]);
            simd.store(c.bitcast(), &mut to[2 * S::LANES..]);
        }
        true
    }
}

/// The nearest integers whose lowest bytes are those of `lowest`.
#[inline(always)]
fn whole<S: Simd>(simd: S, x: S::F32, lowest: S::I32) -> S::I32 {
    /// So far from the ends of the range that no other byte leaves it.
    const LARGEST: f32 = (1_u32 << 31) as f32 - 256.0;
    let bounded = simd.splat(LARGEST).min(simd.splat(-LARGEST).max(x));
    let lowest = lowest & simd.splat_i32(0xff);
    ((bounded.round_to_i32() - lowest + simd.splat_i32(128)) & simd.splat_i32(!0xff)) | lowest
}

/// The exponent of a power of two that all numbers of a column are below, of which the share of
/// zeros, the mean and the largest magnitude are given, if they can be packed.
fn exponent((zeros, mean, most): (f32, f32, f32)) -> Option<i32> {
    /// Scales and units are far from overflow.
    const EXPONENTS: core::ops::Range<i32> = -60..60;
    let exponent = (most.to_bits() >> 23).cast_signed() - 126;
    let packs = EXPONENTS.contains(&exponent)
        && power(exponent) <= RANGE * mean
        && zeros * ZERO_BY_CHANCE <= 1.0;
    packs.then_some(exponent)
}

/// Two to the power of `exponent`, which is that of a normal number.
fn power(exponent: i32) -> f32 {
    f32::from_bits((exponent + 127).cast_unsigned() << 23)
}

/// The integers of a panel of a pair, the first one or the second, of a row of the pair.
#[inline(always)]
pub(super) fn numbers<I: Int>(words: [I; VECTORS], second: bool) -> [I::F32; 2] {
    let [a, b, c] = words;
    if !second {
        return [a.to_f32(), b.to_f32()];
    }
    [c.to_f32(), a.join_low_bytes(b, c).to_f32()]
}
