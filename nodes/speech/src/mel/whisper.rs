//! Log-mel features of Whisper.

use super::{HOP, MelBands, WINDOW};

/// Least power, before the logarithm.
const MIN_POWER: f32 = 1e-10;
/// Range below the loudest value, in units of log10.
const RANGE: f32 = 8.0;

/// Computes log-mel features: windows of 400 samples (periodic Hann) every 160 samples, centered at
/// their time, with reflected ends; power spectrum; mel bands of the Slaney scale with unit area; log10
/// of at least 1e-10, at most 8 below the greatest value; (x + 4) / 4. As the feature extractor of
/// Whisper, and the `mel_spectrogram` preprocessor of ExecuTorch.
pub(crate) struct WhisperMel {
    bands: MelBands,
    /// Samples with their reflected ends.
    padded: Vec<f32>,
}

impl WhisperMel {
    /// Features with `bands` mel bands, such as 80 or 128.
    pub(crate) fn new(bands: usize) -> Self {
        let phase = |n: usize| 2.0 * std::f64::consts::PI * n as f64 / WINDOW as f64;
        let window = (0..WINDOW).map(|n| (0.5 - 0.5 * phase(n).cos()) as f32).collect();
        Self { bands: MelBands::new(window, bands), padded: Vec::new() }
    }

    /// Writes the features `[bands, len / 160]` of `samples` at 16 kHz to `out`. The audio is cut, or
    /// continued with silence, to `len` samples.
    pub(crate) fn compute(&mut self, samples: &[f32], len: usize, out: &mut Vec<f32>) {
        let columns = len / HOP;
        let samples = &samples[..samples.len().min(len)];
        let at = |index: usize| samples.get(index).copied().unwrap_or(0.0);
        let half = WINDOW / 2;
        self.padded.clear();
        self.padded.extend((1..=half).rev().map(at));
        self.padded.extend_from_slice(samples);
        self.padded.resize(half + len, 0.0);
        // The end is reflected too: sample `len - 2 - i` follows `i` samples after the end.
        self.padded.extend((0..half).map(|i| len.checked_sub(2 + i).map_or(0.0, at)));
        out.clear();
        out.resize(self.bands.len() * columns, MIN_POWER.log10());
        // Columns after this one are silent.
        let sounding = ((samples.len() + half).div_ceil(HOP) + 1).min(columns);
        for column in 0..columns {
            // The reflected end repeats samples that are close to it.
            if column < sounding || column + 3 > columns {
                self.column(column, columns, out);
            }
        }
        let greatest = out.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        out.iter_mut().for_each(|value| *value = (value.max(greatest - RANGE) + 4.0) / 4.0);
    }

    /// Writes the logarithms of one column.
    fn column(&mut self, column: usize, columns: usize, out: &mut [f32]) {
        let samples = &self.padded[column * HOP..column * HOP + WINDOW];
        self.bands.compute(samples, |band, power| {
            out[band * columns + column] = power.max(MIN_POWER).log10();
        });
    }
}
