//! Log-mel features of Whisper.

use std::sync::Arc;

use realfft::{RealFftPlanner, RealToComplex, num_complex::Complex};

/// Samples of a window.
const WINDOW: usize = 400;
/// Samples from window to window.
const HOP: usize = 160;
/// Sample rate in Hz.
const RATE: f64 = 16_000.0;
/// Least power, before the logarithm.
const MIN_POWER: f32 = 1e-10;
/// Range below the loudest value, in units of log10.
const RANGE: f32 = 8.0;

/// Computes log-mel features: windows of 400 samples (periodic Hann) every 160 samples, centered at
/// their time, with reflected ends; power spectrum; mel bands of the Slaney scale with unit area; log10
/// of at least 1e-10, at most 8 below the greatest value; (x + 4) / 4. As the feature extractor of
/// Whisper, and the `mel_spectrogram` preprocessor of ExecuTorch.
pub(super) struct WhisperMel {
    fft: Arc<dyn RealToComplex<f32>>,
    window: Vec<f32>,
    /// Triangular filters: first bin and weights.
    filters: Vec<(usize, Vec<f32>)>,
    /// Samples with their reflected ends.
    padded: Vec<f32>,
    input: Vec<f32>,
    spectrum: Vec<Complex<f32>>,
    scratch: Vec<Complex<f32>>,
    power: Vec<f32>,
}

impl WhisperMel {
    /// Features with `bands` mel bands, such as 80 or 128.
    pub(super) fn new(bands: usize) -> Self {
        let fft = RealFftPlanner::new().plan_fft_forward(WINDOW);
        let phase = |n: usize| 2.0 * std::f64::consts::PI * n as f64 / WINDOW as f64;
        let window = (0..WINDOW).map(|n| (0.5 - 0.5 * phase(n).cos()) as f32).collect();
        let (input, spectrum) = (fft.make_input_vec(), fft.make_output_vec());
        let scratch = fft.make_scratch_vec();
        Self {
            fft,
            window,
            filters: filters(bands),
            padded: Vec::new(),
            input,
            spectrum,
            scratch,
            power: Vec::new(),
        }
    }

    /// Writes the features `[bands, len / 160]` of `samples` at 16 kHz to `out`. The audio is cut, or
    /// continued with silence, to `len` samples.
    pub(super) fn compute(&mut self, samples: &[f32], len: usize, out: &mut Vec<f32>) {
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
        out.resize(self.filters.len() * columns, MIN_POWER.log10());
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
        for ((input, sample), weight) in self.input.iter_mut().zip(samples).zip(&self.window) {
            *input = sample * weight;
        }
        let Self { fft, input, spectrum, scratch, .. } = self;
        let done = fft.process_with_scratch(input, spectrum, scratch);
        done.expect("the buffers have the lengths of the transform");
        self.power.clear();
        self.power.extend(self.spectrum.iter().map(Complex::norm_sqr));
        for (band, (first, weights)) in self.filters.iter().enumerate() {
            let products = weights.iter().zip(&self.power[*first..]);
            let energy: f32 = products.map(|(weight, power)| weight * power).sum();
            out[band * columns + column] = energy.max(MIN_POWER).log10();
        }
    }
}

/// Frequency in Hz of a value of the Slaney mel scale: linear below 1 kHz, logarithmic above.
fn hz_of(mel: f64) -> f64 {
    let step = 6.4_f64.ln() / 27.0;
    if mel < 15.0 { mel * 200.0 / 3.0 } else { 1000.0 * (step * (mel - 15.0)).exp() }
}

/// Triangular filters of unit area from 0 Hz to half the sample rate.
fn filters(bands: usize) -> Vec<(usize, Vec<f32>)> {
    let top = 15.0 + (RATE / 2.0 / 1000.0).ln() / (6.4_f64.ln() / 27.0);
    let edge = |index: usize| hz_of(top * index as f64 / (bands + 1) as f64);
    let bins = WINDOW / 2 + 1;
    let filter = |band: usize| {
        let (low, middle, high) = (edge(band), edge(band + 1), edge(band + 2));
        let weight = |bin: usize| {
            let hz = bin as f64 * RATE / WINDOW as f64;
            let (rise, fall) = ((hz - low) / (middle - low), (high - hz) / (high - middle));
            (rise.min(fall).max(0.0) * 2.0 / (high - low)) as f32
        };
        let weights: Vec<f32> = (0..bins).map(weight).collect();
        let first = weights.iter().position(|&weight| weight > 0.0).unwrap_or(0);
        let last = weights.iter().rposition(|&weight| weight > 0.0).unwrap_or(0);
        (first, weights[first..=last].to_vec())
    };
    (0..bands).map(filter).collect()
}
