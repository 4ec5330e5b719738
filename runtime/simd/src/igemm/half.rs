//! Weights that 16 bits can hold.
//!
//! In panels that are two vectors wide; a number and that of the same lane of the other vector
//! share a word of 32 bits, of which the latter has the upper half.

use afferent_core::{bf16, f16};

use super::WeightShape;
use crate::{Int, Isa, Simd};

/// A format of 16 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HalfFormat {
    /// The upper half of a number: what published language models are made of.
    Bf16,
    /// What programs of half precision have.
    F16,
}

impl HalfFormat {
    /// The format that has all of `numbers`, if there is one. Looks hardly further than the first
    /// number that is in neither.
    pub fn exact_for(numbers: &[f32]) -> Option<Self> {
        /// Numbers between two decisions.
        const AT_ONCE: usize = 4096;
        let mut bits = 0;
        for some in numbers.chunks(AT_ONCE) {
            bits = some.iter().fold(bits, |bits, x| bits | x.to_bits());
            if bits & 0x1fff != 0 {
                return None;
            }
        }
        if bits & 0xffff == 0 {
            return Some(Self::Bf16);
        }
        let is_f16 = |x: &f32| x.is_finite() && f16::from_f32(*x).to_f32() == *x;
        numbers.iter().all(is_f16).then_some(Self::F16)
    }

    /// Words of packed weights; `None` when that overflows, or where panels are one vector wide.
    pub fn packed_len(isa: Isa, WeightShape { inner, cols }: WeightShape) -> Option<usize> {
        let panels = (cols > isa.lanes()).then(|| cols.div_ceil(2 * isa.lanes()))?;
        panels.checked_mul(inner)?.checked_mul(isa.lanes())
    }

    /// Packs one or more panels of numbers that are of this format, which lie as
    /// [`pack`](super::pack) leaves them. Where `numbers` are no whole rows of panels, or `to` has
    /// not half as many words, the rest is left out.
    pub fn pack(self, isa: Isa, numbers: &[f32], to: &mut [u32]) {
        let lanes = isa.lanes();
        for (row, to) in numbers.chunks_exact(2 * lanes).zip(to.chunks_exact_mut(lanes)) {
            let (lower, upper) = row.split_at(lanes);
            for ((lower, upper), to) in lower.iter().zip(upper).zip(to) {
                *to = u32::from(self.bits(*lower)) | u32::from(self.bits(*upper)) << 16;
            }
        }
    }

    #[inline(always)]
    fn bits(self, x: f32) -> u16 {
        match self {
            Self::Bf16 => bf16::from_f32(x).to_bits(),
            Self::F16 => f16::from_f32(x).to_bits(),
        }
    }
}

/// The numbers of the lower and of the upper halves of `words`, of format `bf16`.
#[inline(always)]
pub(super) fn bf16s<S: Simd>(simd: S, words: S::I32) -> [S::F32; 2] {
    [words.shl::<16>().bitcast(), (words & simd.splat_i32(!0xffff)).bitcast()]
}

/// The same, of format `f16`, finite.
#[inline(always)]
pub(super) fn f16s<S: Simd>(simd: S, words: S::I32) -> [S::F32; 2] {
    /// Sign, exponent and fraction, three bits further down than in the upper half.
    const KEPT: i32 = 0x8fff_e000_u32.cast_signed();
    // The exponent now counts from another zero; the product also makes small numbers normal.
    let scale = simd.splat(f32::from_bits((127 + 112) << 23));
    let moved = [words.shl::<16>().shr::<3>(), words.shr::<3>()];
    let [lower, upper] = moved;
    let kept = simd.splat_i32(KEPT);
    [(lower & kept).bitcast() * scale, (upper & kept).bitcast() * scale]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Float, Routine};

    #[test]
    fn the_format_that_has_all() {
        let mut numbers = vec![0.5; 10_000];
        assert_eq!(HalfFormat::exact_for(&numbers), Some(HalfFormat::Bf16));
        numbers[9_999] = 1.0 + 1.0 / 1024.0;
        assert_eq!(HalfFormat::exact_for(&numbers), Some(HalfFormat::F16));
        numbers[3] = f16::MIN_POSITIVE_SUBNORMAL.to_f32();
        assert_eq!(HalfFormat::exact_for(&numbers), Some(HalfFormat::F16));
        for other in [0.1, 65_536.0, 1e-8, f32::NAN, f32::INFINITY] {
            numbers[5_000] = other;
            assert_eq!(HalfFormat::exact_for(&numbers), None, "{other}");
        }
        for large in [1e38, f32::INFINITY, f32::NAN] {
            assert_eq!(
                HalfFormat::exact_for(&[bf16::from_f32(large).to_f32(), -0.0]),
                Some(HalfFormat::Bf16)
            );
        }
    }

    /// Numbers of all halves of words, in the order of the words.
    struct Widen<'d>(HalfFormat, &'d [u32]);

    impl Routine for Widen<'_> {
        type Output = Vec<f32>;

        fn run<S: Simd>(self, simd: S) -> Vec<f32> {
            let mut found = Vec::new();
            for words in self.1.chunks_exact(S::LANES) {
                let mut floats = [0.0; 16];
                floats.iter_mut().zip(words).for_each(|(to, word)| *to = f32::from_bits(*word));
                let words = simd.load(&floats).to_bits();
                let both = match self.0 {
                    HalfFormat::Bf16 => bf16s(simd, words),
                    HalfFormat::F16 => f16s(simd, words),
                };
                let [mut lower, mut upper] = [[0.0; 16]; 2];
                simd.store(both[0], &mut lower);
                simd.store(both[1], &mut upper);
                found.extend((0..S::LANES).flat_map(|lane| [lower[lane], upper[lane]]));
            }
            found
        }
    }

    #[test]
    fn every_finite_number_is_widened_exactly() {
        for half in [HalfFormat::Bf16, HalfFormat::F16] {
            let number = |bits: u16| match half {
                HalfFormat::Bf16 => bf16::from_bits(bits).to_f32(),
                HalfFormat::F16 => f16::from_bits(bits).to_f32(),
            };
            let all: Vec<u16> = (0..=u16::MAX).filter(|bits| number(*bits).is_finite()).collect();
            let words: Vec<u32> = all
                .as_chunks::<2>()
                .0
                .iter()
                .map(|[lower, upper]| u32::from(*lower) | u32::from(*upper) << 16)
                .collect();
            assert_eq!(words.len() % 16, 0);
            for isa in Isa::available() {
                let found = isa.run(Widen(half, &words));
                for (bits, found) in all.iter().zip(found) {
                    let wanted = number(*bits);
                    assert_eq!(found.to_bits(), wanted.to_bits(), "{isa:?}, {half:?}: {wanted}");
                }
            }
        }
    }
}
