//! 16-bit weights.
//!
//! Panels are two vectors wide. A word of 32 bits holds a weight of the first vector in its lower
//! half and the weight of the same lane of the second vector in its upper half.

use afferent_core::{bf16, f16};

use super::WeightShape;
use crate::{Int, Isa, Simd};

/// 16-bit floating-point format of packed weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HalfFormat {
    /// bfloat16, the format of most published language models.
    Bf16,
    /// IEEE half precision.
    F16,
}

impl HalfFormat {
    /// Returns a format that represents all `weights` exactly; `None` if there is none. Stops soon
    /// after the first weight that neither format represents.
    pub fn exact_for(weights: &[f32]) -> Option<Self> {
        /// Weights between two early exits.
        const CHUNK_LEN: usize = 4096;
        let mut bits = 0;
        for chunk in weights.chunks(CHUNK_LEN) {
            bits = chunk.iter().fold(bits, |bits, x| bits | x.to_bits());
            if bits & 0x1fff != 0 {
                return None;
            }
        }
        if bits & 0xffff == 0 {
            return Some(Self::Bf16);
        }
        let is_f16 = |x: &f32| x.is_finite() && f16::from_f32(*x).to_f32() == *x;
        weights.iter().all(is_f16).then_some(Self::F16)
    }

    /// Length of packed weights in words; `None` if it overflows, or panels are one vector wide.
    pub fn packed_len(isa: Isa, WeightShape { inner, cols }: WeightShape) -> Option<usize> {
        let panels = (cols > isa.lanes()).then(|| cols.div_ceil(2 * isa.lanes()))?;
        panels.checked_mul(inner)?.checked_mul(isa.lanes())
    }

    /// Packs one or more panels of weights in the format of [`pack`](super::pack). Incomplete rows,
    /// and rows for which `to` has no room, are left out.
    pub fn pack(self, isa: Isa, weights: &[f32], to: &mut [u32]) {
        let lanes = isa.lanes();
        for (row, to) in weights.chunks_exact(2 * lanes).zip(to.chunks_exact_mut(lanes)) {
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

/// Widens the `bf16` values in the lower halves of `words`, and those in the upper halves.
#[inline(always)]
pub(super) fn widen_bf16<S: Simd>(simd: S, words: S::I32) -> [S::F32; 2] {
    [words.shl::<16>().bitcast(), (words & simd.splat_i32(!0xffff)).bitcast()]
}

/// Widens the finite `f16` values in the lower halves of `words`, and those in the upper halves.
#[inline(always)]
pub(super) fn widen_f16<S: Simd>(simd: S, words: S::I32) -> [S::F32; 2] {
    /// Sign, exponent and fraction after an arithmetic shift right by three bits.
    const FIELDS: i32 = 0x8fff_e000_u32.cast_signed();
    // Corrects the exponent bias; the multiplication also normalizes subnormal values.
    let scale = simd.splat(f32::from_bits((127 + 112) << 23));
    let [lower, upper] = [words.shl::<16>().shr::<3>(), words.shr::<3>()];
    let fields = simd.splat_i32(FIELDS);
    [(lower & fields).bitcast() * scale, (upper & fields).bitcast() * scale]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Float, Routine};

    #[test]
    fn an_exact_format_is_found() {
        let mut weights = vec![0.5; 10_000];
        assert_eq!(HalfFormat::exact_for(&weights), Some(HalfFormat::Bf16));
        weights[9_999] = 1.0 + 1.0 / 1024.0;
        assert_eq!(HalfFormat::exact_for(&weights), Some(HalfFormat::F16));
        weights[3] = f16::MIN_POSITIVE_SUBNORMAL.to_f32();
        assert_eq!(HalfFormat::exact_for(&weights), Some(HalfFormat::F16));
        for other in [0.1, 65_536.0, 1e-8, f32::NAN, f32::INFINITY] {
            weights[5_000] = other;
            assert_eq!(HalfFormat::exact_for(&weights), None, "{other}");
        }
        for large in [1e38, f32::INFINITY, f32::NAN] {
            assert_eq!(
                HalfFormat::exact_for(&[bf16::from_f32(large).to_f32(), -0.0]),
                Some(HalfFormat::Bf16)
            );
        }
    }

    /// Widens both halves of all words, in the order of the words.
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
                    HalfFormat::Bf16 => widen_bf16(simd, words),
                    HalfFormat::F16 => widen_f16(simd, words),
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
