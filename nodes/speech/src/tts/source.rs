//! What the vocoder filters: the spectra of a pulse for each period of the pitch, and of noise.

use std::f64::consts::TAU;

/// Pulses lie at multiples of this part of a sample, so that a table has all their angles.
const PARTS: usize = 64;
/// Power of the noise in every part of every bin.
const NOISE_AMPLITUDE: f32 = 12.0;

/// Makes the spectra of pulses and noise in windows of three hops, centred on each hop.
///
/// A pulse at the time t of a window w is known in closed form: w(t) exp(-i 2 π k t / N) in bin k.
#[derive(Debug)]
pub(crate) struct Source {
    hop: usize,
    /// Samples of a window.
    window: usize,
    rate: f64,
    /// A period of the cosine, `window * PARTS` values.
    cosine: Vec<f32>,
}

/// The pulses of a clause, made as its pitch becomes known.
#[derive(Debug, Default)]
pub(crate) struct Pulses {
    /// Time in `PARTS` of a sample, and strength, of each.
    all: Vec<(usize, f32)>,
    /// Hops whose pulses are made.
    hops: usize,
    /// Periods since the begin.
    phase: f64,
}

/// Windows are this many hops long.
const OVERLAP: usize = 3;

impl Source {
    pub(crate) fn new(hop: usize, rate: u32) -> Self {
        let window = hop * OVERLAP;
        let circle = window * PARTS;
        let cosine = (0..circle).map(|at| (TAU * at as f64 / circle as f64).cos() as f32).collect();
        Self { hop, window, rate: f64::from(rate), cosine }
    }

    /// Numbers of a spectrum: real parts, then imaginary ones.
    pub(crate) fn rows(&self) -> usize {
        self.window + 2
    }

    /// Adds the pulses of the hops whose pitch, in hertz and 0 for none, is known on both sides.
    /// With `is_whole` there is no more pitch to come.
    pub(crate) fn extend(&self, pulses: &mut Pulses, pitch: &[f32], is_whole: bool) {
        let until = if is_whole { pitch.len() } else { pitch.len().saturating_sub(1) };
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
                let place = (sample as f64 + 0.5) / self.hop as f64;
                let hertz = first + (last - first) * place;
                let step = hertz / self.rate;
                let period = pulses.phase.floor();
                pulses.phase += step;
                if pulses.phase.floor() > period {
                    let beyond = (pulses.phase - pulses.phase.floor()) / step;
                    let time = (hop * self.hop + sample + 1) as f64 - beyond;
                    let time = (time * PARTS as f64).round().max(0.0) as usize;
                    pulses.all.push((time, (self.rate / hertz).sqrt() as f32));
                }
            }
        }
        pulses.hops = pulses.hops.max(until);
    }

    /// Writes the spectra of the pulses in the windows of the hops from `first` on, which may lie
    /// before the begin: `out` has a row of hops for each number of a spectrum.
    pub(crate) fn pulses(&self, pulses: &Pulses, first: isize, hops: usize, out: &mut [f32]) {
        out.fill(0.0);
        let circle = self.cosine.len();
        let hop_parts = self.hop * PARTS;
        let bins = self.rows() / 2;
        for &(time, strength) in &pulses.all {
            // The windows that this pulse lies in begin in its hop and in the two before.
            for part in 0..OVERLAP {
                let begin = (time / hop_parts) as isize - part as isize;
                let column = begin + 1 - first;
                if column < 0 || column >= hops as isize {
                    continue;
                }
                let column = column as usize;
                let local = (time as isize - begin * hop_parts as isize) as usize;
                let weight = strength * (0.5 - 0.5 * self.cosine[local]);
                let mut turn = 0;
                for bin in 0..bins {
                    let quarter_back =
                        if turn < circle / 4 { turn + circle } else { turn } - circle / 4;
                    out[bin * hops + column] += weight * self.cosine[turn];
                    out[(bins + bin) * hops + column] -= weight * self.cosine[quarter_back];
                    turn += local;
                    if turn >= circle {
                        turn -= circle;
                    }
                }
            }
        }
    }

    /// Writes noise for the hops from `first` on, the same for the same hop and `seed` every time.
    pub(crate) fn noise(&self, seed: u64, first: isize, hops: usize, out: &mut [f32]) {
        let scale = NOISE_AMPLITUDE * 12_f32.sqrt();
        for column in 0..hops {
            let hop = first.wrapping_add_unsigned(column) as u64;
            let mut state = seed ^ hop.wrapping_mul(0xd6e8_feb8_6659_fd93);
            for row in 0..self.rows() {
                let uniform = (split_mix(&mut state) >> 40) as f32 / (1 << 24) as f32;
                out[row * hops + column] = (uniform - 0.5) * scale;
            }
        }
    }
}

/// The generator SplitMix64 of Steele, Lea and Flood.
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
    fn pulses_come_once_a_period() {
        let source = Source::new(160, 16_000);
        let (mut whole, mut parts) = (Pulses::default(), Pulses::default());
        let pitch = [0.0, 100.0, 100.0, 100.0, 0.0, 0.0, 125.0, 125.0];
        source.extend(&mut whole, &pitch, true);
        for known in 1..=pitch.len() {
            source.extend(&mut parts, &pitch[..known], known == pitch.len());
        }
        assert_eq!(whole.all, parts.all);
        let times: Vec<f64> = whole.all.iter().map(|&(t, _)| t as f64 / PARTS as f64).collect();
        assert_eq!(times[..2], [320.0, 480.0]);
        assert!((times[4] - times[3] - 128.0).abs() < 1.0, "{times:?}");
    }

    /// The spectrum of a window by the definition of the discrete Fourier transform.
    #[test]
    fn a_spectrum_is_that_of_the_windowed_pulse() {
        let source = Source::new(16, 1600);
        let pulses = Pulses { all: vec![(20 * PARTS, 2.0)], ..Pulses::default() };
        let hops = 4;
        let mut found = vec![0.0; source.rows() * hops];
        source.pulses(&pulses, 0, hops, &mut found);
        // The window of hop 1 begins at sample 0, that of hop 2 at 16; hop 3's ends where 20 is not.
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
        assert!((0..source.rows()).all(|row| found[row * hops + 3] == 0.0));
    }

    #[test]
    fn noise_depends_on_the_hop_alone() {
        let source = Source::new(160, 16_000);
        let (mut one, mut two) = (vec![0.0; 482 * 4], vec![0.0; 482 * 3]);
        source.noise(7, -1, 4, &mut one);
        source.noise(7, 1, 3, &mut two);
        assert!((0..482).all(|row| one[row * 4 + 2] == two[row * 3]));
        let power = one.iter().map(|value| value * value).sum::<f32>() / one.len() as f32;
        assert!((power.sqrt() / NOISE_AMPLITUDE - 1.0).abs() < 0.05, "{power}");
    }
}
