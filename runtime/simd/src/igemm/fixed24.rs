//! 24-bit weights: fixed-point integers with a unit per column.
//!
//! A single row is bound by the bandwidth of its weights, and three bytes load faster than four. A
//! weight is rounded as if it had been added to the largest weight of its column, so that the error
//! of a dot product is at most that of another order of additions.
//!
//! Panels are two vectors wide and stored in pairs. Three of the four vectors of a row are stored
//! in three vectors of 32-bit words. The lowest bytes of these words are the three bytes of the
//! fourth vector. A word is loaded as it is: its lowest byte is part of the integer, and packing
//! subtracts its value from the upper bytes.

use super::WeightShape;
use crate::{Float, Int, Isa, Mask, Routine, Simd, SizeError};

/// Vectors of words that hold a row of two panels.
pub(super) const ROW_VECTORS: usize = 3;

/// Value of one integer step, in units of its column.
pub(super) const INTEGER_SCALE: f32 = 1.0 / (1_u32 << 31) as f32;

/// Maximum lanes of a vector.
const MAX_LANES: usize = 16;

/// Maximum ratio of the power of two above all weights of a column to their mean magnitude.
const MAX_PEAK_TO_MEAN: f32 = 64.0;

/// Minimum weights of a column per zero. A column with more zeros is sparse, and its zeros, which
/// would not stay exact, are refused.
const MIN_WEIGHTS_PER_ZERO: f32 = 128.0;

/// Packed 24-bit weights.
#[derive(Debug, Clone, Copy)]
pub struct Fixed24<'d> {
    pub(super) words: &'d [u32],
    /// Factor of the accumulators per column, padded to whole pairs of panels.
    pub(super) units: &'d [f32],
}

/// Lengths of the two parts of packed weights.
struct PackedSizes {
    /// Columns, padded to whole pairs of panels.
    padded_cols: usize,
    words: usize,
}

/// Lengths of packed weights; `None` if they overflow, or panels are one vector wide.
fn packed_sizes(isa: Isa, WeightShape { inner, cols }: WeightShape) -> Option<PackedSizes> {
    let lanes = isa.lanes();
    let padded_cols = (cols > lanes).then(|| cols.checked_next_multiple_of(4 * lanes))??;
    let words = (padded_cols / 4).checked_mul(inner)?.checked_mul(ROW_VECTORS)?;
    Some(PackedSizes { padded_cols, words })
}

impl<'d> Fixed24<'d> {
    /// Length of packed weights in words; `None` if it overflows, or panels are one vector wide.
    pub fn packed_len(isa: Isa, shape: WeightShape) -> Option<usize> {
        let PackedSizes { padded_cols, words } = packed_sizes(isa, shape)?;
        padded_cols.checked_add(words)
    }

    /// Weights packed by [`Fixed24::pack`]; `None` if the slice is too short.
    pub fn new(isa: Isa, shape: WeightShape, packed: &'d [u32]) -> Option<Self> {
        let PackedSizes { padded_cols, words } = packed_sizes(isa, shape)?;
        let (units, rest) = packed.split_at_checked(padded_cols)?;
        Some(Self { words: rest.get(..words)?, units: bytemuck::cast_slice(units) })
    }

    /// Scratch buffer of [`Fixed24::pack`], in elements.
    pub fn scratch_len(isa: Isa, inner: usize) -> usize {
        4 * isa.lanes() * inner
    }

    /// Packs weights. `panel(col, to)` writes the panel whose first column is `col` in the format
    /// of [`pack`](super::pack).
    ///
    /// Returns false if the weights are not suitable: some are not finite, a column has many zeros
    /// that would not stay exact, or the range of magnitudes of a column is too wide for 24 bits.
    ///
    /// # Panics
    /// If `to` is shorter than [`Fixed24::packed_len`], or `scratch` than [`Fixed24::scratch_len`].
    pub fn pack(
        isa: Isa,
        shape: WeightShape,
        mut panel: impl FnMut(usize, &mut [f32]),
        scratch: &mut [f32],
        to: &mut [u32],
    ) -> bool {
        let inner = shape.inner;
        let Some(PackedSizes { padded_cols, words }) = packed_sizes(isa, shape) else {
            return false;
        };
        let (units, words) = to[..padded_cols + words].split_at_mut(padded_cols);
        let width = 2 * isa.lanes();
        let (first, second) = scratch[..2 * width * inner].split_at_mut(width * inner);
        let pairs = words.chunks_exact_mut((ROW_VECTORS * isa.lanes() * inner).max(1));
        let units = bytemuck::cast_slice_mut(units).chunks_exact_mut(2 * width);
        for (pair, (units, words)) in units.zip(pairs).enumerate() {
            panel(2 * pair * width, first);
            panel((2 * pair + 1) * width, second);
            if !isa.run(PackPair { panels: [first, second], units, words }) {
                return false;
            }
        }
        true
    }

    /// Checks that the weights cover `shape`.
    pub(super) fn check(&self, isa: Isa, shape: WeightShape) -> Result<(), SizeError> {
        let overflow = SizeError::Overflow { slice: "weights" };
        let PackedSizes { padded_cols, words } = packed_sizes(isa, shape).ok_or(overflow)?;
        SizeError::check_min("weights", self.units.len(), Some(padded_cols))?;
        SizeError::check_min("weights", self.words.len(), Some(words))
    }
}

/// Packs a pair of panels; returns false if the weights are not suitable.
struct PackPair<'p> {
    panels: [&'p [f32]; 2],
    units: &'p mut [f32],
    words: &'p mut [u32],
}

/// Statistics of the weights of a column.
struct ColumnStats {
    /// Share of zeros and subnormal weights.
    zero_share: f32,
    mean_magnitude: f32,
    max_magnitude: f32,
}

impl Routine for PackPair<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> bool {
        let width = 2 * S::LANES;
        let mut scales = [simd.zero(); 4];
        for (vector, to) in scales.iter_mut().enumerate() {
            let (mut zeros, mut max, mut sum) = (simd.zero(), simd.zero(), simd.zero());
            let mut rows = 0.0;
            for row in self.panels[vector / 2].chunks_exact(width) {
                let magnitude = simd.load(&row[vector % 2 * S::LANES..]).abs();
                let is_zero = magnitude.lt(simd.splat(f32::MIN_POSITIVE));
                zeros = zeros + is_zero.select(simd.splat(1.0), simd.zero());
                (max, sum) = (magnitude.max(max), sum + magnitude);
                rows += 1.0;
            }
            let [mut zero_lanes, mut max_lanes, mut sum_lanes, mut scale_lanes] =
                [[0.0; MAX_LANES]; 4];
            simd.store(zeros, &mut zero_lanes);
            simd.store(max, &mut max_lanes);
            simd.store(sum, &mut sum_lanes);
            for lane in 0..S::LANES {
                if max_lanes[lane] == 0.0 && sum_lanes[lane] == 0.0 {
                    self.units[vector * S::LANES + lane] = 0.0;
                    continue;
                }
                let stats = ColumnStats {
                    zero_share: zero_lanes[lane] / rows,
                    mean_magnitude: sum_lanes[lane] / rows,
                    max_magnitude: max_lanes[lane],
                };
                let Some(exponent) = stats.exponent() else { return false };
                scale_lanes[lane] = power_of_two(31 - exponent);
                self.units[vector * S::LANES + lane] = power_of_two(exponent);
            }
            *to = simd.load(&scale_lanes);
        }
        let [first, second] = self.panels.map(|panel| panel.chunks_exact(width));
        let words = self.words.chunks_exact_mut(ROW_VECTORS * S::LANES);
        let zero_byte = simd.splat_i32(0);
        for ((first, second), to) in first.zip(second).zip(words) {
            let to = bytemuck::cast_slice_mut::<u32, f32>(to);
            let last = round(simd, simd.load(&second[S::LANES..]) * scales[3], zero_byte);
            let (a, b, c) = (last.shr::<24>(), last.shr::<16>(), last.shr::<8>());
            let a = round(simd, simd.load(first) * scales[0], a);
            let b = round(simd, simd.load(&first[S::LANES..]) * scales[1], b);
            let c = round(simd, simd.load(second) * scales[2], c);
            simd.store(a.bitcast(), to);
            simd.store(b.bitcast(), &mut to[S::LANES..]);
            simd.store(c.bitcast(), &mut to[2 * S::LANES..]);
        }
        true
    }
}

/// Rounds to the nearest integers whose lowest bytes are those of `low_bytes`.
#[inline(always)]
fn round<S: Simd>(simd: S, x: S::F32, low_bytes: S::I32) -> S::I32 {
    /// Leaves room for any lowest byte within the range of `i32`.
    const MAX: f32 = (1_u32 << 31) as f32 - 256.0;
    let bounded = simd.splat(MAX).min(simd.splat(-MAX).max(x));
    let low_bytes = low_bytes & simd.splat_i32(0xff);
    let nearest = bounded.round_to_i32() - low_bytes + simd.splat_i32(128);
    (nearest & simd.splat_i32(!0xff)) | low_bytes
}

impl ColumnStats {
    /// Exponent of the smallest power of two above all magnitudes; `None` if the column is not
    /// suitable.
    fn exponent(&self) -> Option<i32> {
        /// Keeps scales and units far from overflow.
        const EXPONENTS: core::ops::Range<i32> = -60..60;
        let exponent = (self.max_magnitude.to_bits() >> 23).cast_signed() - 126;
        let is_suitable = EXPONENTS.contains(&exponent)
            && power_of_two(exponent) <= MAX_PEAK_TO_MEAN * self.mean_magnitude
            && self.zero_share * MIN_WEIGHTS_PER_ZERO <= 1.0;
        is_suitable.then_some(exponent)
    }
}

/// 2 to the power of `exponent`, which is that of a normal number.
fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits((exponent + 127).cast_unsigned() << 23)
}

/// Integers of a row of the first panel of a pair, or of the second panel, as `f32`.
#[inline(always)]
pub(super) fn unpack<I: Int>(words: [I; ROW_VECTORS], second: bool) -> [I::F32; 2] {
    let [a, b, c] = words;
    if !second {
        return [a.to_f32(), b.to_f32()];
    }
    [c.to_f32(), a.join_low_bytes(b, c).to_f32()]
}
