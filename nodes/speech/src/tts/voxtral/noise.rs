//! Noise of the reference runner of Voxtral: xorshift64 (Marsaglia) and the Box-Muller transform.

/// State in place of the seed 0.
const STATE_OF_ZERO: u64 = 0x1234_5678_ABCD_EF01;

/// Source of normal values.
pub(super) struct Noise {
    state: u64,
}

impl Noise {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: if seed == 0 { STATE_OF_ZERO } else { seed } }
    }

    /// A value of the normal distribution with mean 0 and variance 1.
    pub(super) fn normal(&mut self) -> f32 {
        let radius = loop {
            let value = self.uniform();
            if value >= 1e-30 {
                break (-2.0 * value.ln()).sqrt();
            }
        };
        radius * (std::f32::consts::TAU * self.uniform()).cos()
    }

    /// A value from 0 to 1.
    fn uniform(&mut self) -> f32 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) as f32 * (1.0 / (1_u64 << 53) as f32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_normal() {
        let mut noise = Noise::new(0);
        let values: Vec<f32> = (0..20_000).map(|_| noise.normal()).collect();
        let mean = values.iter().sum::<f32>() / 20_000.0;
        let variance = values.iter().map(|value| value * value).sum::<f32>() / 20_000.0;
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05, "{mean}, {variance}");
    }
}
