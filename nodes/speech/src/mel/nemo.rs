//! Log-mel features of NeMo.

use super::{HOP, MelBands, WINDOW};

/// Samples of a Fourier transform; the window is in their middle.
const TRANSFORM: usize = 512;
/// Share of each sample that is subtracted from the next one.
const PRE_EMPHASIS: f32 = 0.97;
/// Power that is added before the logarithm.
const GUARD: f32 = 1.0 / 16_777_216.0;

/// Computes log-mel features: pre-emphasis; windows of 400 samples (symmetric Hann) every 160 samples,
/// centered at their time, with zeros around the audio; power spectrum; mel bands of the Slaney scale with
/// unit area; natural logarithm. As the preprocessor of NeMo without normalization.
pub(crate) struct NemoMel {
    bands: MelBands,
    /// Samples after the pre-emphasis, with zeros on both sides.
    padded: Vec<f32>,
}

impl NemoMel {
    /// Features with `bands` mel bands, such as 128.
    pub(crate) fn new(bands: usize) -> Self {
        let phase = |n: usize| 2.0 * std::f64::consts::PI * n as f64 / (WINDOW - 1) as f64;
        let mut window = vec![0.0; TRANSFORM];
        let start = (TRANSFORM - WINDOW) / 2;
        for (n, weight) in window[start..start + WINDOW].iter_mut().enumerate() {
            *weight = (0.5 - 0.5 * phase(n).cos()) as f32;
        }
        Self { bands: MelBands::new(window, bands), padded: Vec::new() }
    }

    /// Writes the features `[samples / 160, bands]` of `samples` at 16 kHz to `out`.
    pub(crate) fn compute(&mut self, samples: &[f32], out: &mut Vec<f32>) {
        let half = TRANSFORM / 2;
        self.padded.clear();
        self.padded.resize(half, 0.0);
        let mut last = 0.0;
        for &sample in samples {
            self.padded.push(sample - PRE_EMPHASIS * last);
            last = sample;
        }
        self.padded.resize(samples.len() + 2 * half, 0.0);
        out.clear();
        for column in 0..samples.len() / HOP {
            let window = &self.padded[column * HOP..column * HOP + TRANSFORM];
            self.bands.compute(window, |_, power| out.push((power + GUARD).ln()));
        }
    }
}
