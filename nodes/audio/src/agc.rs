//! Brings speech to one level.

use std::time::Duration;

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, params, ports};
use afferent_messages::{AudioBlock, SampleRate};

params! {
    /// Settings of [`Agc`].
    pub struct AgcParams {
        /// Level of speech that is sent.
        pub target_dbfs: f32 = "-23", range -60.0..=-6.0, unit "dBFS";
        /// Sound is made louder by at most this.
        pub max_gain_db: f32 = "30", range 0.0..=60.0, unit "dB";
        /// Sound below this level is no speech: the gain stays as it is.
        pub gate_dbfs: f32 = "-55", range -120.0..=0.0, unit "dBFS";
        /// How fast the gain falls for speech that is much louder than before.
        pub attack: Duration = "300ms", range 0.01..=60.0;
        /// How fast the gain follows otherwise.
        pub release: Duration = "1500ms", range 0.01..=60.0;
    }
}

/// Brings speech to one level, by a gain that changes slowly.
///
/// The gain is what brings the level of speech to the target: the mean power of the steps of 10 ms
/// that are no more than 16 dB below it. A step counts only if it is above `gate_dbfs` and 8 dB
/// above the quietest sound of the last two seconds, so that neither silence nor steady noise
/// moves the gain. The first second of speech weighs more than later ones. All channels have the
/// same gain. Samples that would be louder than -1 dBFS are turned down at once, and the gain
/// recovers within 50 ms: nothing is clipped. What is no number, or more than 60 dB over full scale, is
/// taken for silence.
///
/// Latency: none; the gain follows what came before.
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
    /// Factor that the samples of the present step move to, and where it is.
    target_gain: f32,
    gain: f32,
    /// What the limiter leaves of the gain.
    limit: f32,
}

/// The sum of the squares of samples of all channels, and their number.
#[derive(Debug, Default)]
struct Step {
    sum: f32,
    samples: usize,
}

/// The level of speech as it goes on.
#[derive(Debug)]
struct SpeechLevel {
    gate: f32,
    attack_s: f32,
    release_s: f32,
    /// Mean power of speech.
    power: f32,
    /// Seconds of speech that it is the mean of.
    seconds: f32,
    /// Share of the steps that may be speech which come near it.
    share: f32,
    /// Power over the last steps.
    smooth: f32,
    /// Least smooth power of each of the last windows, the present one first.
    quietest: [f32; WINDOWS],
    /// Steps in the present window.
    steps: usize,
}

/// Length of a step in seconds, and how many there are in a second.
const STEP_S: f32 = 0.01;
const STEPS_A_SECOND: usize = 100;

/// Windows of half a second in which the quietest sound is looked for.
const WINDOWS: usize = 4;
const WINDOW_STEPS: usize = 50;

/// Speech is this much louder than the quietest sound, as a ratio of powers: 8 dB.
const OVER_QUIETEST: f32 = 6.3;

/// Steps further below the level of speech than 16 dB are pauses in it.
const PAUSE: f32 = 0.025;

/// Steps further above it than 6 dB are somebody louder.
const LOUDER: f32 = 4.0;

/// Where less than this share of what was loud enough to be speech, over some two seconds, comes
/// near the level, somebody speaks much more quietly than before.
const SHARE: f32 = 0.3;
const SHARE_S: f32 = 2.0;

/// What that takes off the level in a step: 12 dB a second.
const FALL: f32 = 0.973;

/// Seconds of speech from which on the gain is that of its level, and until which all of it counts.
const HEARD_S: f32 = 0.2;
const FIRST_S: f32 = 1.0;

/// Loudest sample that is sent: -1 dBFS.
const CEILING: f32 = 0.891;

/// Time in which the gain moves to that of its step, and the limiter recovers, in seconds.
const GAIN_S: f32 = 0.02;
const LIMITER_S: f32 = 0.05;

ports! {
    impl Agc {
        /// Sound, any rate and channels, full scale ±1, blocks of any length.
        in AUDIO: AudioBlock;
        /// The same sound at the level, no louder than -1 dBFS.
        out OUT = "audio": AudioBlock, in_step;
    }
}

impl Agc {
    /// Takes the measure of a step that is complete.
    fn end_step(&mut self) {
        let power = self.step.sum / self.step.samples.max(1) as f32;
        self.step = Step::default();
        self.level.update(power);
        if self.level.seconds >= HEARD_S {
            let wanted = from_db(self.params.target_dbfs) / self.level.power.sqrt();
            self.target_gain = wanted.min(from_db(self.params.max_gain_db));
        }
    }

    /// Applies the gain to `samples` of `channels` channels.
    fn apply(&mut self, samples: &mut [f32], channels: usize) {
        let len = samples.len() / channels;
        let per_step = (self.rate.0 as usize / STEPS_A_SECOND).max(1) * channels;
        let follow = |seconds: f32| 1.0 - (-1.0 / (seconds * self.rate.0.max(1) as f32)).exp();
        let (gain_share, limit_share) = (follow(GAIN_S), follow(LIMITER_S));
        for place in 0..len {
            self.gain += gain_share * (self.target_gain - self.gain);
            self.limit += limit_share * (1.0 - self.limit);
            let mut peak = 0.0_f32;
            for channel in 0..channels {
                let sample = AudioBlock::heard(samples[channel * len + place]);
                samples[channel * len + place] = sample;
                self.step.sum += sample * sample;
                peak = peak.max(sample.abs());
            }
            self.limit = self.limit.min(CEILING / (peak * self.gain).max(1e-9));
            let factor = self.gain * self.limit;
            for channel in 0..channels {
                samples[channel * len + place] *= factor;
            }
            self.step.samples += channels;
            if self.step.samples >= per_step {
                self.end_step();
            }
        }
    }
}

impl SpeechLevel {
    /// The level before some speech was heard.
    fn new(params: &AgcParams) -> Self {
        Self {
            gate: from_db(params.gate_dbfs).powi(2),
            attack_s: params.attack.as_secs_f32(),
            release_s: params.release.as_secs_f32(),
            power: 0.0,
            seconds: 0.0,
            share: 1.0,
            smooth: 0.0,
            quietest: [f32::INFINITY; WINDOWS],
            steps: 0,
        }
    }

    /// Takes in the power of the next step.
    fn update(&mut self, power: f32) {
        // Three steps or so, because the power of 10 ms depends on where the pitch pulses lie.
        self.smooth += 0.4 * (power - self.smooth);
        if self.steps == WINDOW_STEPS {
            self.quietest.rotate_right(1);
            (self.quietest[0], self.steps) = (f32::INFINITY, 0);
        }
        self.steps += 1;
        self.quietest[0] = self.quietest[0].min(self.smooth);
        let floor = self.quietest.iter().copied().fold(f32::INFINITY, f32::min);
        if self.smooth < self.gate || self.smooth < OVER_QUIETEST * floor {
            return;
        }
        let is_near = self.smooth >= PAUSE * self.power;
        self.share += STEP_S / SHARE_S * (f32::from(u8::from(is_near)) - self.share);
        if !is_near && self.seconds >= FIRST_S {
            if self.share < SHARE {
                self.power *= FALL;
            }
            return;
        }
        self.seconds = (self.seconds + STEP_S).min(self.release_s.max(FIRST_S));
        let is_louder = self.smooth > LOUDER * self.power;
        let seconds = if is_louder { self.attack_s.min(self.seconds) } else { self.seconds };
        self.power += (STEP_S / seconds).min(1.0) * (self.smooth - self.power);
    }
}

/// Ratio of amplitudes.
fn from_db(db: f32) -> f32 {
    10.0_f32.powf(db / 20.0)
}

impl Node for Agc {
    type Params = AgcParams;

    const NAME: &'static str = "agc";
    const SUMMARY: &'static str = "Brings speech to one level, by a gain that changes slowly.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "none";

    fn open(params: AgcParams, _: &OpenCx) -> Result<Self, NodeError> {
        let level = SpeechLevel::new(&params);
        let (step, rate) = (Step::default(), SampleRate(0));
        Ok(Self { params, rate, level, step, target_gain: 1.0, gain: 1.0, limit: 1.0 })
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
    use crate::sample::NO_SOUND;

    /// A minute of speech with pauses, 16 kHz.
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

    /// The level of the parts within 16 dB of it, found again and again.
    fn level(sound: &[f32]) -> f32 {
        let mean = |powers: &[f32]| powers.iter().sum::<f32>() / powers.len() as f32;
        let powers = sound.chunks(320).map(|x| x.iter().map(|x| x * x).sum::<f32>() / 320.0);
        let powers: Vec<f32> = powers.collect();
        let mut level = mean(&powers);
        for _ in 0..10 {
            let active: Vec<f32> =
                powers.iter().copied().filter(|power| *power > PAUSE * level).collect();
            level = mean(&active);
        }
        10.0 * level.log10()
    }

    #[test]
    fn speech_comes_to_the_target() {
        let speech = speech();
        let own = level(&speech);
        for dbfs in [-40.0, -30.0, -20.0, -12.0, -6.0] {
            let gain = from_db(dbfs - own);
            // A microphone clips what is beyond full scale.
            let sound: Vec<f32> = speech.iter().map(|x| (gain * x).clamp(-1.0, 1.0)).collect();
            let found = run(&mut open(), &sound, 320);
            for (part, seconds) in found[16_000 * 3..].chunks_exact(16_000 * 5).enumerate() {
                let off = level(seconds) + 23.0;
                assert!(off.abs() < 3.0, "{dbfs} dBFS, part {part}: {off:.1} dB off");
            }
            assert!(found.iter().all(|x| x.abs() <= CEILING));
        }
    }

    #[test]
    fn silence_and_steady_noise_do_not_move_the_gain() {
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
    fn somebody_louder_or_quieter_is_followed() {
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
    fn blocks_do_not_matter_and_channels_share_the_gain() {
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
    fn what_is_no_sound_is_silence() {
        let (mut agc, speech) = (open(), &speech()[..16_000 * 4]);
        assert_eq!(run(&mut agc, &NO_SOUND.repeat(40), 160), [0.0; 160]);
        let off = level(&run(&mut agc, speech, 320)[16_000 * 3..]) + 23.0;
        assert!(off.abs() < 3.0, "{off:.1} dB off");
    }
}
