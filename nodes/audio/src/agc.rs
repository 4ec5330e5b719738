//! Automatic gain control.

use std::time::Duration;

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, params, ports};
use afferent_messages::{AudioBlock, SampleRate};

params! {
    /// Settings of [`Agc`].
    pub struct AgcParams {
        /// Target level of speech.
        pub target_dbfs: f32 = "-23", range -60.0..=-6.0, unit "dBFS";
        /// Maximum gain.
        pub max_gain_db: f32 = "30", range 0.0..=60.0, unit "dB";
        /// Level below which audio is not speech; it does not change the gain.
        pub gate_dbfs: f32 = "-55", range -120.0..=0.0, unit "dBFS";
        /// Time constant of the gain for speech that is more than 6 dB louder than before.
        pub attack: Duration = "300ms", range 0.01..=60.0;
        /// Time constant of the gain for all other speech.
        pub release: Duration = "1500ms", range 0.01..=60.0;
    }
}

/// Brings speech to a target level with a slowly changing gain.
///
/// The speech level is the mean power of the 10 ms steps that are at most 16 dB below it. A step
/// counts only if it is above `gate_dbfs` and 8 dB above the quietest step of the last two seconds,
/// so neither silence nor stationary noise changes the gain. The first second of speech has more
/// weight than later speech. All channels have the same gain. A limiter attenuates samples above -1
/// dBFS at once and recovers within 50 ms, so the output never clips. Samples that are not finite,
/// or more than 60 dB above full scale, count as silence.
///
/// Latency: none. The gain depends only on past audio.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, ParamValues, Params, Timestamp};
/// use afferent_messages::AudioBlock;
/// use afferent_messages::SampleRate;
/// use afferent_nodes_audio::{Agc, AgcParams};
///
/// let params = AgcParams::from_values(&ParamValues::new()).unwrap();
/// let mut agc = NodeBench::new(Agc::open(params, &OpenCx::default())?);
/// let mut silence = AudioBlock::default();
/// silence.reshape(SampleRate(48_000), 2, 480)?.fill(0.001);
/// let sent = agc.call(Agc::AUDIO, Timestamp::ZERO, silence)?;
/// assert_eq!(sent[0].1.get::<AudioBlock>().unwrap().channel(1)?, [0.001; 480]);
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct Agc {
    params: AgcParams,
    rate: SampleRate,
    level: SpeechLevel,
    step: Step,
    /// Linear gain that `gain` approaches.
    target_gain: f32,
    gain: f32,
    /// Linear gain of the limiter, at most 1.
    limiter_gain: f32,
}

/// A measurement step: sum of squares over the samples of all channels, and their number.
#[derive(Debug, Default)]
struct Step {
    sum: f32,
    samples: usize,
}

/// Running estimate of the speech level.
#[derive(Debug)]
struct SpeechLevel {
    gate: f32,
    attack_s: f32,
    release_s: f32,
    /// Mean power of speech.
    power: f32,
    /// Seconds of speech in the mean.
    seconds: f32,
    /// Fraction of the recent speech steps whose power is near the mean.
    near_fraction: f32,
    /// Power, smoothed over a few steps.
    smoothed: f32,
    /// Minimum of the smoothed power in each of the last windows, the current one first.
    window_minima: [f32; FLOOR_WINDOWS],
    /// Steps in the current window.
    window_steps: usize,
}

/// Length of a measurement step, in seconds.
const STEP_S: f32 = 0.01;
const STEPS_PER_SECOND: usize = 100;

/// The noise floor is the minimum over this many windows, of this many steps each: two seconds.
const FLOOR_WINDOWS: usize = 4;
const FLOOR_WINDOW_STEPS: usize = 50;

/// Least ratio of the power of speech to the noise floor: 8 dB.
const MIN_FLOOR_RATIO: f32 = 6.3;

/// Steps whose power is below this ratio to the speech level, -16 dB, are pauses.
const PAUSE_RATIO: f32 = 0.025;

/// Steps whose power is above this ratio to the speech level, 6 dB, are from a louder speaker.
const LOUDER_RATIO: f32 = 4.0;

/// If less than this fraction of the steps above the gate, over about two seconds, is near the
/// speech level, the speaker has become much quieter.
const MIN_NEAR_FRACTION: f32 = 0.3;
const NEAR_FRACTION_S: f32 = 2.0;

/// Factor of the speech level per step for a speaker that has become much quieter: -12 dB per
/// second.
const DECAY_PER_STEP: f32 = 0.973;

/// Seconds of speech before the gain follows the speech level.
const MIN_SPEECH_S: f32 = 0.2;

/// Seconds of speech at the start in which every step above the gate counts, pauses included.
const INITIAL_S: f32 = 1.0;

/// Peak level of the output: -1 dBFS.
const PEAK_LIMIT: f32 = 0.891;

/// Time constants of the gain within a step, and of the recovery of the limiter, in seconds.
const GAIN_S: f32 = 0.02;
const LIMITER_S: f32 = 0.05;

ports! {
    impl Agc {
        /// Audio, any sample rate and channels, full scale ±1, blocks of any length.
        in AUDIO: AudioBlock;
        /// The same audio at the target level, peaks at most -1 dBFS.
        out OUT = "audio": AudioBlock, in_step;
    }
}

impl Agc {
    /// Updates the speech level and the target gain with a complete step.
    fn finish_step(&mut self) {
        let power = self.step.sum / self.step.samples.max(1) as f32;
        self.step = Step::default();
        self.level.update(power);
        if self.level.seconds >= MIN_SPEECH_S {
            let gain = amplitude_from_db(self.params.target_dbfs) / self.level.power.sqrt();
            self.target_gain = gain.min(amplitude_from_db(self.params.max_gain_db));
        }
    }

    /// Applies the gain to planar `samples` of `channels` channels.
    fn apply(&mut self, samples: &mut [f32], channels: usize) {
        let len = samples.len() / channels;
        let per_step = (self.rate.0 as usize / STEPS_PER_SECOND).max(1) * channels;
        let smoothing = |seconds: f32| 1.0 - (-1.0 / (seconds * self.rate.0.max(1) as f32)).exp();
        let (gain_smoothing, limiter_smoothing) = (smoothing(GAIN_S), smoothing(LIMITER_S));
        for index in 0..len {
            self.gain += gain_smoothing * (self.target_gain - self.gain);
            self.limiter_gain += limiter_smoothing * (1.0 - self.limiter_gain);
            let mut peak = 0.0_f32;
            for channel in 0..channels {
                let sample = AudioBlock::sanitized(samples[channel * len + index]);
                samples[channel * len + index] = sample;
                self.step.sum += sample * sample;
                peak = peak.max(sample.abs());
            }
            self.limiter_gain = self.limiter_gain.min(PEAK_LIMIT / (peak * self.gain).max(1e-9));
            let factor = self.gain * self.limiter_gain;
            for channel in 0..channels {
                samples[channel * len + index] *= factor;
            }
            self.step.samples += channels;
            if self.step.samples >= per_step {
                self.finish_step();
            }
        }
    }
}

impl SpeechLevel {
    /// The estimate before any speech.
    fn new(params: &AgcParams) -> Self {
        Self {
            gate: amplitude_from_db(params.gate_dbfs).powi(2),
            attack_s: params.attack.as_secs_f32(),
            release_s: params.release.as_secs_f32(),
            power: 0.0,
            seconds: 0.0,
            near_fraction: 1.0,
            smoothed: 0.0,
            window_minima: [f32::INFINITY; FLOOR_WINDOWS],
            window_steps: 0,
        }
    }

    /// Updates the estimate with the power of the next step.
    fn update(&mut self, power: f32) {
        // The power of 10 ms depends on the position of the pitch pulses, so a few steps are
        // averaged.
        self.smoothed += 0.4 * (power - self.smoothed);
        if self.window_steps == FLOOR_WINDOW_STEPS {
            self.window_minima.rotate_right(1);
            (self.window_minima[0], self.window_steps) = (f32::INFINITY, 0);
        }
        self.window_steps += 1;
        self.window_minima[0] = self.window_minima[0].min(self.smoothed);
        let floor = self.window_minima.iter().copied().fold(f32::INFINITY, f32::min);
        if self.smoothed < self.gate || self.smoothed < MIN_FLOOR_RATIO * floor {
            return;
        }
        let is_near = self.smoothed >= PAUSE_RATIO * self.power;
        self.near_fraction +=
            STEP_S / NEAR_FRACTION_S * (f32::from(u8::from(is_near)) - self.near_fraction);
        if !is_near && self.seconds >= INITIAL_S {
            if self.near_fraction < MIN_NEAR_FRACTION {
                self.power *= DECAY_PER_STEP;
            }
            return;
        }
        self.seconds = (self.seconds + STEP_S).min(self.release_s.max(INITIAL_S));
        let is_louder = self.smoothed > LOUDER_RATIO * self.power;
        let seconds = if is_louder { self.attack_s.min(self.seconds) } else { self.seconds };
        self.power += (STEP_S / seconds).min(1.0) * (self.smoothed - self.power);
    }
}

/// Ratio of amplitudes.
fn amplitude_from_db(db: f32) -> f32 {
    10.0_f32.powf(db / 20.0)
}

impl Node for Agc {
    type Params = AgcParams;

    const NAME: &'static str = "agc";
    const SUMMARY: &'static str = "Brings speech to a target level with a slowly changing gain.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "none";

    fn open(params: AgcParams, _: &OpenCx) -> Result<Self, NodeError> {
        let level = SpeechLevel::new(&params);
        let (step, rate) = (Step::default(), SampleRate(0));
        Ok(Self { params, rate, level, step, target_gain: 1.0, gain: 1.0, limiter_gain: 1.0 })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(mut block) = cx.take(Self::AUDIO) else { return Ok(()) };
        if block.rate != self.rate {
            (self.rate, self.step) = (block.rate, Step::default());
        }
        let channels = block.channels();
        if channels > 0 {
            self.apply(block.samples.data_mut()?, channels);
        }
        cx.send(Self::OUT, block);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::{NodeBench, ParamValues, Params, Timestamp};

    use super::*;
    use crate::testing::INVALID_SAMPLES;

    /// One minute of speech with pauses, 16 kHz.
    fn speech() -> Vec<f32> {
        let file = include_bytes!("../../../pipelines/assets/other_speech.wav");
        let samples = file[44..].as_chunks().0.iter();
        samples.map(|bytes| f32::from(i16::from_le_bytes(*bytes)) / 32_768.0).collect()
    }

    fn open() -> NodeBench<Agc> {
        let params = AgcParams::from_values(&ParamValues::new()).unwrap();
        NodeBench::new(Agc::open(params, &OpenCx::default()).unwrap())
    }

    fn run(agc: &mut NodeBench<Agc>, sound: &[f32], len: usize) -> Vec<f32> {
        let mut result = Vec::new();
        for samples in sound.chunks(len) {
            let mut block = AudioBlock::default();
            let to = block.reshape(SampleRate(16_000), 1, samples.len()).unwrap();
            to.copy_from_slice(samples);
            let sent = agc.call(Agc::AUDIO, Timestamp::ZERO, block).unwrap();
            result.extend_from_slice(sent[0].1.get::<AudioBlock>().unwrap().channel(0).unwrap());
        }
        result
    }

    /// Speech level in dBFS: mean power of the steps within 16 dB of it, found by iteration.
    fn level(sound: &[f32]) -> f32 {
        let mean = |powers: &[f32]| powers.iter().sum::<f32>() / powers.len() as f32;
        let powers = sound.chunks(320).map(|x| x.iter().map(|x| x * x).sum::<f32>() / 320.0);
        let powers: Vec<f32> = powers.collect();
        let mut level = mean(&powers);
        for _ in 0..10 {
            let active: Vec<f32> =
                powers.iter().copied().filter(|power| *power > PAUSE_RATIO * level).collect();
            level = mean(&active);
        }
        10.0 * level.log10()
    }

    #[test]
    fn speech_reaches_the_target_level() {
        let speech = speech();
        let own = level(&speech);
        for dbfs in [-40.0, -30.0, -20.0, -12.0, -6.0] {
            let gain = amplitude_from_db(dbfs - own);
            // A microphone clips at full scale.
            let sound: Vec<f32> = speech.iter().map(|x| (gain * x).clamp(-1.0, 1.0)).collect();
            let found = run(&mut open(), &sound, 320);
            for (part, seconds) in found[16_000 * 3..].chunks_exact(16_000 * 5).enumerate() {
                let off = level(seconds) + 23.0;
                assert!(off.abs() < 3.0, "{dbfs} dBFS, part {part}: {off:.1} dB off");
            }
            assert!(found.iter().all(|x| x.abs() <= PEAK_LIMIT));
        }
    }

    #[test]
    fn silence_and_stationary_noise_do_not_change_the_gain() {
        let mut agc = open();
        let mut sound = speech();
        sound.truncate(16_000 * 10);
        let mut seed = 1_u32;
        let mut noise = |level: f32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            level * (seed as f32 / 2_147_483_648.0 - 1.0)
        };
        let ratio = |after: &[f32], before: &[f32]| {
            let sum = |sound: &[f32]| sound.iter().map(|x| x * x).sum::<f32>();
            10.0 * (sum(&after[1600..]) / sum(&before[1600..])).log10()
        };
        run(&mut agc, &sound, 320);
        for level in [0.0002, 0.02] {
            let noise: Vec<f32> = (0..16_000 * 20).map(|_| noise(level)).collect();
            let first = ratio(&run(&mut agc, &noise[..16_000], 160), &noise[..16_000]);
            let later = run(&mut agc, &noise[16_000..], 160);
            let last = ratio(&later[16_000 * 18..], &noise[16_000 * 19..]);
            assert!((last - first).abs() < 1.5, "{level}: {first:.1} dB, then {last:.1} dB");
        }
    }

    #[test]
    fn the_gain_follows_louder_and_quieter_speakers() {
        let (mut agc, speech) = (open(), speech());
        let mut change = |gain: f32| {
            let sound: Vec<f32> = speech[..16_000 * 20].iter().map(|x| gain * x).collect();
            level(&run(&mut agc, &sound, 320)[16_000 * 10..]) + 23.0
        };
        for gain in [1.0, 0.1, 1.5, 0.2] {
            let off = change(gain);
            assert!(off.abs() < 3.0, "gain {gain}: {off:.1} dB off");
        }
    }

    #[test]
    fn block_lengths_do_not_matter_and_channels_share_the_gain() {
        let speech = &speech()[..16_000 * 4];
        let whole = run(&mut open(), speech, speech.len());
        assert_eq!(run(&mut open(), speech, 333), whole);

        let mut stereo = AudioBlock::default();
        let samples = stereo.reshape(SampleRate(16_000), 2, speech.len()).unwrap();
        let (left, right) = samples.split_at_mut(speech.len());
        left.copy_from_slice(speech);
        right.iter_mut().zip(speech).for_each(|(to, from)| *to = -0.5 * from);
        let sent = open().call(Agc::AUDIO, Timestamp::ZERO, stereo).unwrap();
        let block = sent[0].1.get::<AudioBlock>().unwrap();
        let pairs = block.channel(0).unwrap().iter().zip(block.channel(1).unwrap());
        assert!(pairs.into_iter().all(|(left, right)| (left + 2.0 * right).abs() < 1e-6));
    }

    #[test]
    fn invalid_samples_count_as_silence() {
        let (mut agc, speech) = (open(), &speech()[..16_000 * 4]);
        assert_eq!(run(&mut agc, &INVALID_SAMPLES.repeat(40), 160), [0.0; 160]);
        let off = level(&run(&mut agc, speech, 320)[16_000 * 3..]) + 23.0;
        assert!(off.abs() < 3.0, "{off:.1} dB off");
    }
}
