//! Log-mel features.

mod nemo;
mod whisper;

use std::sync::Arc;

use realfft::{RealFftPlanner, RealToComplex, num_complex::Complex};

pub(crate) use nemo::NemoMel;
pub(crate) use whisper::WhisperMel;

/// Samples of a window.
const WINDOW: usize = 400;
/// Samples from window to window.
const HOP: usize = 160;
/// Sample rate in Hz.
const RATE: f64 = 16_000.0;

/// Power of windows of audio in mel bands of the Slaney scale with unit area.
struct MelBands {
    fft: Arc<dyn RealToComplex<f32>>,
    /// Weights of the samples.
    window: Vec<f32>,
    /// Triangular filters: first bin and weights.
    filters: Vec<(usize, Vec<f32>)>,
    input: Vec<f32>,
    spectrum: Vec<Complex<f32>>,
    scratch: Vec<Complex<f32>>,
    power: Vec<f32>,
}

impl MelBands {
    /// `bands` bands of windows with the weights `window`.
    fn new(window: Vec<f32>, bands: usize) -> Self {
        let fft = RealFftPlanner::new().plan_fft_forward(window.len());
        let (input, spectrum) = (fft.make_input_vec(), fft.make_output_vec());
        let scratch = fft.make_scratch_vec();
        let filters = filters(bands, window.len());
        Self { fft, window, filters, input, spectrum, scratch, power: Vec::new() }
    }

    /// Number of bands.
    fn len(&self) -> usize {
        self.filters.len()
    }

    /// Calls `write` with each band and its power in `samples`, as many as the window has weights.
    fn compute(&mut self, samples: &[f32], mut write: impl FnMut(usize, f32)) {
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
            write(band, products.map(|(weight, power)| weight * power).sum());
        }
    }
}

/// Frequency in Hz of a value of the Slaney mel scale: linear below 1 kHz, logarithmic above.
fn hz_of(mel: f64) -> f64 {
    let step = 6.4_f64.ln() / 27.0;
    if mel < 15.0 { mel * 200.0 / 3.0 } else { 1000.0 * (step * (mel - 15.0)).exp() }
}

/// Triangular filters of unit area from 0 Hz to half the sample rate, for a transform of `len` samples.
fn filters(bands: usize, len: usize) -> Vec<(usize, Vec<f32>)> {
    let top = 15.0 + (RATE / 2.0 / 1000.0).ln() / (6.4_f64.ln() / 27.0);
    let edge = |index: usize| hz_of(top * index as f64 / (bands + 1) as f64);
    let bins = len / 2 + 1;
    let filter = |band: usize| {
        let (low, middle, high) = (edge(band), edge(band + 1), edge(band + 2));
        let weight = |bin: usize| {
            let hz = bin as f64 * RATE / len as f64;
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
