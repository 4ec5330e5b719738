//! Resampling by a ratio of whole numbers, with a filter for each phase.

use std::f64::consts::PI;

/// A low-pass filter, sampled at every phase that an output sample can have between two input
/// samples (J. O. Smith, Digital Audio Resampling; window of Kaiser).
pub(crate) struct Filter {
    /// Output samples for every `down` input samples.
    up: usize,
    down: usize,
    /// Input samples that one output sample sees.
    taps: usize,
    /// Weights of each phase, oldest sample first.
    phases: Vec<f32>,
}

/// One stream that is being resampled.
pub(crate) struct Stream {
    /// Of each channel, the samples that are still needed.
    channels: Vec<Vec<f32>>,
    /// Place of the first sample that the next output sample sees; perhaps not there yet.
    first: usize,
    phase: usize,
}

impl Filter {
    /// Weights of a filter take at most this many bytes.
    pub(crate) const MAX_BYTES: usize = 16 << 20;

    /// A filter from `from` to `to` hertz that sees `zeros` zero crossings on either side and
    /// suppresses what would alias by about `db` decibels; `None` where the weights would take
    /// more than [`Filter::MAX_BYTES`] because the rates have no common divisor.
    pub(crate) fn new(from: u32, to: u32, zeros: usize, db: f64) -> Option<Self> {
        let divisor = gcd(from, to).max(1);
        let (up, down) = ((to / divisor) as usize, (from / divisor) as usize);
        // The band that both rates can hold, with room for the slope of the window.
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

    /// Input samples that an output sample waits for.
    pub(crate) fn delay(&self) -> usize {
        self.taps / 2
    }

    /// A stream of `channels` channels, before which there was silence.
    pub(crate) fn stream(&self, channels: usize) -> Stream {
        let silence = vec![0.0; self.taps / 2 - 1];
        Stream { channels: vec![silence; channels], first: 0, phase: 0 }
    }
}

impl Stream {
    /// Adds `samples`, channel after channel.
    pub(crate) fn push(&mut self, samples: &[f32]) {
        let len = samples.len() / self.channels.len().max(1);
        for (channel, samples) in self.channels.iter_mut().zip(samples.chunks(len.max(1))) {
            channel.extend_from_slice(samples);
        }
    }

    /// Adds the silence that the last output samples wait for.
    pub(crate) fn push_silence(&mut self, filter: &Filter) {
        for channel in &mut self.channels {
            channel.resize(channel.len() + filter.delay(), 0.0);
        }
    }

    /// Output samples of each channel that can be made now.
    pub(crate) fn ready(&self, filter: &Filter) -> usize {
        let len = self.channels.first().map_or(0, Vec::len);
        match len.checked_sub(self.first + filter.taps) {
            // The sample number k of them starts (phase + k * down) / up after the first.
            Some(spare) => ((spare + 1) * filter.up - self.phase).div_ceil(filter.down),
            None => 0,
        }
    }

    /// Writes all samples that are ready to `to`, channel after channel.
    pub(crate) fn pull(&mut self, filter: &Filter, to: &mut [f32]) {
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

/// Sum of products, in eight lanes that the compiler can keep in vectors.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0; 8];
    let (a, b) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f32 = a.remainder().iter().zip(b.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a.zip(b) {
        lanes.iter_mut().zip(a.iter().zip(b)).for_each(|(lane, (a, b))| *lane += a * b);
    }
    lanes.iter().sum::<f32>() + rest
}

fn sinc(x: f64) -> f64 {
    if x == 0.0 { 1.0 } else { (PI * x).sin() / (PI * x) }
}

/// The window of Kaiser, from -1 to 1, up to a factor.
fn kaiser(x: f64, beta: f64) -> f64 {
    bessel_i0(beta * (1.0 - x * x).max(0.0).sqrt())
}

/// The modified Bessel function of the first kind and order zero, by its power series.
fn bessel_i0(x: f64) -> f64 {
    let (mut sum, mut term) = (1.0, 1.0);
    for k in 1..64 {
        term *= (x / 2.0 / f64::from(k)).powi(2);
        sum += term;
    }
    sum
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use super::*;

    const FORTY_FOUR: u32 = 44_100;

    fn filter(from: u32, to: u32) -> Filter {
        Filter::new(from, to, 32, 100.0).unwrap()
    }

    fn tone(hz: f64, rate: u32, len: usize) -> Vec<f32> {
        (0..len).map(|n| (TAU * hz * n as f64 / f64::from(rate)).sin() as f32).collect()
    }

    /// `sound` through `filter`, in blocks of `len` samples.
    fn run(filter: &Filter, sound: &[f32], len: usize) -> Vec<f32> {
        let (mut stream, mut result) = (filter.stream(1), Vec::new());
        let mut pull = |stream: &mut Stream| {
            let start = result.len();
            result.resize(start + stream.ready(filter), 0.0);
            stream.pull(filter, &mut result[start..]);
        };
        for samples in sound.chunks(len) {
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
        let rates =
            [(FORTY_FOUR, 16_000), (48_000, 16_000), (16_000, 48_000), (16_000, FORTY_FOUR)];
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
    fn what_would_alias_is_suppressed() {
        for (from, to) in [(FORTY_FOUR, 16_000), (48_000, 8000)] {
            for hz in [f64::from(to) / 2.0 * 1.1, 15_000.0, 19_000.0] {
                let found = run(&filter(from, to), &tone(hz, from, 20_000), 20_000);
                let middle = found[500..found.len() - 500].iter();
                let level = 10.0 * (2.0 * power(middle.map(|x| f64::from(*x)))).log10();
                assert!(level < -80.0, "{hz} Hz from {from} to {to}: {level:.1} dB");
            }
        }
    }

    #[test]
    fn blocks_do_not_matter_and_the_length_is_exact() {
        let rates = [(FORTY_FOUR, 16_000), (8000, 48_000), (48_000, 8000), (3, 2)];
        for (from, to) in rates {
            let (filter, sound) = (filter(from, to), tone(100.0, from, 3001));
            let whole = run(&filter, &sound, sound.len());
            let exact = (3001 * u64::from(to)).div_ceil(u64::from(from));
            assert_eq!(whole.len() as u64, exact, "from {from} to {to}");
            for len in [1, 7, 480] {
                assert_eq!(run(&filter, &sound, len), whole, "from {from} to {to} by {len}");
            }
        }
        assert!(run(&filter(3, 2), &[], 1).is_empty());
    }

    #[test]
    fn rates_without_a_common_divisor_need_too_much() {
        assert!(Filter::new(767_999, 768_000, 32, 100.0).is_none());
        assert!(Filter::new(u32::MAX, 1, 32, 100.0).is_none());
    }
}
