//! Normal noise that a seed determines.

use std::f64::consts::TAU;

/// `count` numbers with the normal distribution N(0, 1), by Box–Muller from SplitMix64.
pub(super) fn normal(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 11) as f64
    };
    let unit = (1_u64 << 53) as f64;
    let mut noise = Vec::with_capacity(count + 1);
    while noise.len() < count {
        let radius = (-2.0 * ((next() + 1.0) / unit).ln()).sqrt();
        let (sin, cos) = (TAU * next() / unit).sin_cos();
        noise.extend([(radius * cos) as f32, (radius * sin) as f32]);
    }
    noise.truncate(count);
    noise
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_normal_and_repeats() {
        let noise = normal(3, 20_001);
        assert_eq!(noise.len(), 20_001);
        assert_eq!(noise, normal(3, 20_001));
        assert_ne!(noise[..4], normal(4, 4));
        let count = noise.len() as f32;
        let mean = noise.iter().sum::<f32>() / count;
        let power = noise.iter().map(|value| value * value).sum::<f32>() / count;
        let near = noise.iter().filter(|value| value.abs() < 1.0).count() as f32 / count;
        assert!(mean.abs() < 0.02 && (power - 1.0).abs() < 0.03, "{mean}, {power}");
        assert!((near - 0.6827).abs() < 0.01, "{near}");
    }
}
