//! Excitation of the vocoder: spectra of a pulse train at the pitch, and of noise.

use std::f64::consts::TAU;

/// Resolution of pulse times, in parts of a sample. A cosine table covers all their angles.
const SUBSAMPLES: usize = 64;
/// RMS amplitude of the noise in the real and imaginary part of every bin.
const NOISE_AMPLITUDE: f32 = 12.0;
/// Length of a window in hops.
const HOPS_PER_WINDOW: usize = 3;

/// Computes the spectra of pulses and noise in Hann windows centered on each hop.
///
/// The spectrum of a pulse at time t in a window w of N samples is known in closed form: bin k is
/// w(t) exp(-i 2 π k t / N).
#[derive(Debug)]
pub(crate) struct Excitation {
    hop: usize,
    /// Samples of a window.
    window: usize,
    rate: f64,
    /// One period of the cosine in `window * SUBSAMPLES` values.
    cosine: Vec<f32>,
}

/// Pulse train of a clause, extended as its pitch becomes known.
#[derive(Debug, Default)]
pub(crate) struct Pulses {
    /// Time, in units of 1 / `SUBSAMPLES` samples, and amplitude of each pulse.
    all: Vec<(usize, f32)>,
    /// Number of hops that are covered.
    hops: usize,
    /// Phase in periods since the start.
    phase: f64,
}

impl Excitation {
    pub(crate) fn new(hop: usize, rate: u32) -> Self {
        let window = hop * HOPS_PER_WINDOW;
        let len = window * SUBSAMPLES;
        let cosine = (0..len).map(|at| (TAU * at as f64 / len as f64).cos() as f32).collect();
        Self { hop, window, rate: f64::from(rate), cosine }
    }

    /// Numbers per spectrum: the real parts, then the imaginary parts.
    pub(crate) fn spectrum_len(&self) -> usize {
        self.window + 2
    }

    /// Adds the pulses of the hops whose neighbors' `pitch`, in hertz and 0 if unvoiced, is known.
    /// With `is_complete`, no more pitch follows.
    pub(crate) fn extend(&self, pulses: &mut Pulses, pitch: &[f32], is_complete: bool) {
        let until = if is_complete { pitch.len() } else { pitch.len().saturating_sub(1) };
        let at =
            |hop: Option<usize>| hop.and_then(|hop| pitch.get(hop)).map_or(0.0, |&p| f64::from(p));
        for hop in pulses.hops..until {
            let here = at(Some(hop));
            let edge = |other: f64| if other > 0.0 { (other + here) / 2.0 } else { here };
            let first = edge(at(hop.checked_sub(1)));
            let last = edge(at(Some(hop + 1)));
            for sample in 0..self.hop {
                if here <= 0.0 {
                    break;
                }
                let fraction = (sample as f64 + 0.5) / self.hop as f64;
                let hertz = first + (last - first) * fraction;
                let step = hertz / self.rate;
                let period = pulses.phase.floor();
                pulses.phase += step;
                if pulses.phase.floor() > period {
                    let beyond = (pulses.phase - pulses.phase.floor()) / step;
                    let time = (hop * self.hop + sample + 1) as f64 - beyond;
                    let time = (time * SUBSAMPLES as f64).round().max(0.0) as usize;
                    pulses.all.push((time, (self.rate / hertz).sqrt() as f32));
                }
            }
        }
        pulses.hops = pulses.hops.max(until);
    }

    /// Writes the pulse spectra of `hops` hops from `first` on, which may be negative. `out` has
    /// one row of hops per number of a spectrum.
    pub(crate) fn pulses(&self, pulses: &Pulses, first: isize, hops: usize, out: &mut [f32]) {
        out.fill(0.0);
        let table_len = self.cosine.len();
        let hop_subsamples = self.hop * SUBSAMPLES;
        let bins = self.spectrum_len() / 2;
        for &(time, amplitude) in &pulses.all {
            // The windows that contain this pulse begin in its hop and in the two hops before.
            for back in 0..HOPS_PER_WINDOW {
                let begin = (time / hop_subsamples) as isize - back as isize;
                let column = begin + 1 - first;
                if column < 0 || column >= hops as isize {
                    continue;
                }
                let column = column as usize;
                let local = (time as isize - begin * hop_subsamples as isize) as usize;
                let weight = amplitude * (0.5 - 0.5 * self.cosine[local]);
                let mut angle = 0;
                for bin in 0..bins {
                    // sin(x) = cos(x - π/2)
                    let quarter_back =
                        if angle < table_len / 4 { angle + table_len } else { angle }
                            - table_len / 4;
                    out[bin * hops + column] += weight * self.cosine[angle];
                    out[(bins + bin) * hops + column] -= weight * self.cosine[quarter_back];
                    angle += local;
                    if angle >= table_len {
                        angle -= table_len;
                    }
                }
            }
        }
    }

    /// Writes noise for `hops` hops from `first` on. It depends only on the hop and on `seed`.
    pub(crate) fn noise(&self, seed: u64, first: isize, hops: usize, out: &mut [f32]) {
        let scale = NOISE_AMPLITUDE * 12_f32.sqrt();
        for column in 0..hops {
            let hop = first.wrapping_add_unsigned(column) as u64;
            let mut state = seed ^ hop.wrapping_mul(0xd6e8_feb8_6659_fd93);
            for row in 0..self.spectrum_len() {
                let uniform = (split_mix(&mut state) >> 40) as f32 / (1 << 24) as f32;
                out[row * hops + column] = (uniform - 0.5) * scale;
            }
        }
    }
}

/// SplitMix64 generator (Steele, Lea, and Flood, 2014).
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pulses_occur_once_per_period() {
        let excitation = Excitation::new(160, 16_000);
        let (mut whole, mut parts) = (Pulses::default(), Pulses::default());
        let pitch = [0.0, 100.0, 100.0, 100.0, 0.0, 0.0, 125.0, 125.0];
        excitation.extend(&mut whole, &pitch, true);
        for known in 1..=pitch.len() {
            excitation.extend(&mut parts, &pitch[..known], known == pitch.len());
        }
        assert_eq!(whole.all, parts.all);
        let times: Vec<f64> =
            whole.all.iter().map(|&(t, _)| t as f64 / SUBSAMPLES as f64).collect();
        assert_eq!(times[..2], [320.0, 480.0]);
        assert!((times[4] - times[3] - 128.0).abs() < 1.0, "{times:?}");
    }

    /// Compares with the definition of the discrete Fourier transform.
    #[test]
    fn spectra_are_those_of_the_windowed_pulse() {
        let excitation = Excitation::new(16, 1600);
        let pulses = Pulses { all: vec![(20 * SUBSAMPLES, 2.0)], ..Pulses::default() };
        let hops = 4;
        let mut found = vec![0.0; excitation.spectrum_len() * hops];
        excitation.pulses(&pulses, 0, hops, &mut found);
        // The window of hop 1 begins at sample 0, that of hop 2 at 16, that of hop 3 at 32: after
        // the pulse at 20.
        for (hop, local) in [(1, 20.0), (2, 4.0)] {
            for bin in 0..25 {
                let weight = 2.0 * (0.5 - 0.5 * (TAU * local / 48.0_f64).cos());
                let angle = TAU * f64::from(bin) * local / 48.0;
                let real = f64::from(found[bin as usize * hops + hop]);
                let imaginary = f64::from(found[(25 + bin as usize) * hops + hop]);
                assert!((real - weight * angle.cos()).abs() < 1e-5, "hop {hop}, bin {bin}");
                assert!((imaginary + weight * angle.sin()).abs() < 1e-5, "hop {hop}, bin {bin}");
            }
        }
        assert!((0..excitation.spectrum_len()).all(|row| found[row * hops + 3] == 0.0));
    }

    #[test]
    fn noise_depends_only_on_the_hop() {
        let excitation = Excitation::new(160, 16_000);
        let (mut one, mut two) = (vec![0.0; 482 * 4], vec![0.0; 482 * 3]);
        excitation.noise(7, -1, 4, &mut one);
        excitation.noise(7, 1, 3, &mut two);
        assert!((0..482).all(|row| one[row * 4 + 2] == two[row * 3]));
        let power = one.iter().map(|value| value * value).sum::<f32>() / one.len() as f32;
        assert!((power.sqrt() / NOISE_AMPLITUDE - 1.0).abs() < 0.05, "{power}");
    }
}
