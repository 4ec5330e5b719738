//! Polyphase resampling by a rational ratio.

use std::f64::consts::PI;

use afferent_graph::{In, NodeError};
use afferent_messages::AudioBlock;

/// Windowed-sinc low-pass filter, sampled at every phase of an output sample between two input
/// samples (J. O. Smith, Digital Audio Resampling; Kaiser window).
pub(crate) struct PolyphaseFilter {
    /// Output samples per `down` input samples.
    up: usize,
    down: usize,
    /// Input samples per output sample.
    taps: usize,
    /// Coefficients, phase after phase, the oldest sample first.
    phases: Vec<f32>,
}

/// State of one resampled stream.
pub(crate) struct StreamState {
    /// Input samples of each channel that are still needed.
    channels: Vec<Vec<f32>>,
    /// Index of the first input sample of the next output sample; it may not have arrived yet.
    first: usize,
    phase: usize,
}

impl PolyphaseFilter {
    /// Most bytes of coefficients.
    pub(crate) const MAX_BYTES: usize = 16 << 20;

    /// A filter from `from` to `to` hertz with `zeros` zero crossings on each side and a stopband
    /// attenuation of about `db` decibels. `None` if the coefficients would take more than
    /// [`PolyphaseFilter::MAX_BYTES`]: the common divisor of the rates is too small.
    pub(crate) fn new(from: u32, to: u32, zeros: usize, db: f64) -> Option<Self> {
        let divisor = gcd(from, to).max(1);
        let (up, down) = ((to / divisor) as usize, (from / divisor) as usize);
        // The band below both Nyquist frequencies, less half of the transition band.
        let nyquist = (up as f64 / down as f64).min(1.0);
        let beta = 0.1102 * (db - 8.7);
        let slope = (db - 7.95) / (14.36 * zeros as f64);
        let cutoff = nyquist * (1.0 - slope / 2.0).max(0.5);
        let half = (zeros as f64 / nyquist).ceil() as usize;
        let taps = 2 * half;
        taps.checked_mul(up * size_of::<f32>()).filter(|bytes| *bytes <= Self::MAX_BYTES)?;
        let mut phases = Vec::with_capacity(taps * up);
        for phase in 0..up {
            let weight = |tap: usize| {
                let distance = phase as f64 / up as f64 + half as f64 - 1.0 - tap as f64;
                sinc(cutoff * distance) * kaiser(distance / half as f64, beta)
            };
            let sum: f64 = (0..taps).map(weight).sum();
            phases.extend((0..taps).map(|tap| (weight(tap) / sum) as f32));
        }
        Some(Self { up, down, taps, phases })
    }

    /// Input samples after an output sample that it depends on.
    pub(crate) fn delay(&self) -> usize {
        self.taps / 2
    }

    /// Initial state of a stream of `channels` channels, preceded by silence.
    pub(crate) fn state(&self, channels: usize) -> StreamState {
        let silence = vec![0.0; self.taps / 2 - 1];
        StreamState { channels: vec![silence; channels], first: 0, phase: 0 }
    }
}

impl StreamState {
    /// Adds planar `samples`.
    pub(crate) fn push(&mut self, samples: &[f32]) {
        let len = samples.len() / self.channels.len().max(1);
        for (channel, samples) in self.channels.iter_mut().zip(samples.chunks(len.max(1))) {
            channel.extend_from_slice(samples);
        }
    }

    /// Adds the silence that completes the last output samples.
    pub(crate) fn push_silence(&mut self, filter: &PolyphaseFilter) {
        for channel in &mut self.channels {
            channel.resize(channel.len() + filter.delay(), 0.0);
        }
    }

    /// Output samples per channel that can be computed now.
    pub(crate) fn ready(&self, filter: &PolyphaseFilter) -> usize {
        let len = self.channels.first().map_or(0, Vec::len);
        match len.checked_sub(self.first + filter.taps) {
            // Output sample k begins (phase + k * down) / up input samples after `first`.
            Some(spare) => ((spare + 1) * filter.up - self.phase).div_ceil(filter.down),
            None => 0,
        }
    }

    /// Writes all [`StreamState::ready`] samples to `to`, planar.
    pub(crate) fn pull(&mut self, filter: &PolyphaseFilter, to: &mut [f32]) {
        let ready = self.ready(filter);
        if ready == 0 {
            return;
        }
        let mut end = (self.first, self.phase);
        for (channel, to) in self.channels.iter().zip(to.chunks_exact_mut(ready)) {
            end = (self.first, self.phase);
            for sample in to {
                let (first, phase) = end;
                let weights = &filter.phases[phase * filter.taps..][..filter.taps];
                *sample = dot(&channel[first..first + filter.taps], weights);
                let next = phase + filter.down;
                end = (first + next / filter.up, next % filter.up);
            }
        }
        (self.first, self.phase) = end;
        let len = self.channels.first().map_or(0, Vec::len);
        let used = self.first.min(len);
        self.channels.iter_mut().for_each(|channel| drop(channel.drain(..used)));
        self.first -= used;
    }
}

/// Dot product with eight partial sums, which the compiler can vectorize.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0; 8];
    let (a, b) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f32 = a.remainder().iter().zip(b.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a.zip(b) {
        sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (a, b))| *sum += a * b);
    }
    sums.iter().sum::<f32>() + rest
}

fn sinc(x: f64) -> f64 {
    if x == 0.0 { 1.0 } else { (PI * x).sin() / (PI * x) }
}

/// Kaiser window on [-1, 1], not normalized.
fn kaiser(x: f64, beta: f64) -> f64 {
    bessel_i0(beta * (1.0 - x * x).max(0.0).sqrt())
}

/// Modified Bessel function of the first kind, order zero, by its power series.
fn bessel_i0(x: f64) -> f64 {
    let (mut sum, mut term) = (1.0, 1.0);
    for k in 1..64 {
        term *= (x / 2.0 / f64::from(k)).powi(2);
        sum += term;
    }
    sum
}

/// The error for audio on `port` whose rates [`PolyphaseFilter::new`] rejects.
pub(crate) fn rates_error(port: In<AudioBlock>, from: u32, to: u32) -> NodeError {
    let reason = format!(
        "cannot resample {from} Hz to {to} Hz; the common divisor of the rates is too small"
    );
    NodeError::InvalidInput { port: port.name().into(), reason }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use super::*;

    const CD_RATE: u32 = 44_100;

    fn filter(from: u32, to: u32) -> PolyphaseFilter {
        PolyphaseFilter::new(from, to, 32, 100.0).unwrap()
    }

    fn tone(hz: f64, rate: u32, len: usize) -> Vec<f32> {
        (0..len).map(|n| (TAU * hz * n as f64 / f64::from(rate)).sin() as f32).collect()
    }

    /// `audio` through `filter`, in blocks of `len` samples.
    fn run(filter: &PolyphaseFilter, audio: &[f32], len: usize) -> Vec<f32> {
        let (mut stream, mut result) = (filter.state(1), Vec::new());
        let mut pull = |stream: &mut StreamState| {
            let start = result.len();
            result.resize(start + stream.ready(filter), 0.0);
            stream.pull(filter, &mut result[start..]);
        };
        for samples in audio.chunks(len) {
            stream.push(samples);
            pull(&mut stream);
        }
        stream.push_silence(filter);
        pull(&mut stream);
        result
    }

    fn power(samples: impl Iterator<Item = f64>) -> f64 {
        let (count, sum) = samples.fold((0.0, 0.0), |(n, sum), x| (n + 1.0, sum + x * x));
        sum / f64::max(count, 1.0)
    }

    #[test]
    fn a_tone_keeps_frequency_and_phase() {
        let rates = [(CD_RATE, 16_000), (48_000, 16_000), (16_000, 48_000), (16_000, CD_RATE)];
        for (from, to) in rates {
            for hz in [100.0, 1000.0, 6000.0] {
                let found = run(&filter(from, to), &tone(hz, from, 20_000), 441);
                let expected = tone(hz, to, found.len());
                let middle = 500..found.len() - 500;
                let noise = middle.clone().map(|n| f64::from(found[n] - expected[n]));
                let signal = middle.map(|n| f64::from(expected[n]));
                let snr = 10.0 * (power(signal) / power(noise)).log10();
                assert!(snr > 80.0, "{hz} Hz from {from} to {to}: {snr:.1} dB");
            }
        }
    }

    #[test]
    fn aliases_are_suppressed() {
        for (from, to) in [(CD_RATE, 16_000), (48_000, 8000)] {
            for hz in [f64::from(to) / 2.0 * 1.1, 15_000.0, 19_000.0] {
                let found = run(&filter(from, to), &tone(hz, from, 20_000), 20_000);
                let middle = found[500..found.len() - 500].iter();
                let level = 10.0 * (2.0 * power(middle.map(|x| f64::from(*x)))).log10();
                assert!(level < -80.0, "{hz} Hz from {from} to {to}: {level:.1} dB");
            }
        }
    }

    #[test]
    fn block_lengths_do_not_matter_and_the_output_length_is_exact() {
        let rates = [(CD_RATE, 16_000), (8000, 48_000), (48_000, 8000), (3, 2)];
        for (from, to) in rates {
            let (filter, audio) = (filter(from, to), tone(100.0, from, 3001));
            let whole = run(&filter, &audio, audio.len());
            let exact = (3001 * u64::from(to)).div_ceil(u64::from(from));
            assert_eq!(whole.len() as u64, exact, "from {from} to {to}");
            for len in [1, 7, 480] {
                assert_eq!(run(&filter, &audio, len), whole, "from {from} to {to} by {len}");
            }
        }
        assert!(run(&filter(3, 2), &[], 1).is_empty());
    }

    #[test]
    fn rates_without_a_common_divisor_are_rejected() {
        assert!(PolyphaseFilter::new(767_999, 768_000, 32, 100.0).is_none());
        assert!(PolyphaseFilter::new(u32::MAX, 1, 32, 100.0).is_none());
    }
}
