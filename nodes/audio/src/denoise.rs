//! Noise suppression.

use afferent_graph::{Cx, In, Node, NodeError, OpenCx, Port, Timestamp, choices, params, ports};
use afferent_messages::{AudioBlock, SampleRate};
use sonora_ns::{config::SuppressionLevel, noise_suppressor::NoiseSuppressor};

use crate::timeline::Segment;

choices! {
    /// Maximum attenuation of noise. Stronger suppression distorts speech more.
    pub enum NoiseLevel {
        /// At most 6 dB.
        Mild = "mild",
        /// At most 12 dB.
        Moderate = "moderate",
        /// At most 18 dB.
        Strong = "strong",
        /// At most 21 dB.
        Strongest = "strongest",
    }
}

params! {
    /// Settings of [`Denoise`].
    pub struct DenoiseParams {
        /// Maximum attenuation of noise.
        pub level: NoiseLevel = "moderate";
    }
}

/// Suppresses stationary noise, such as that of fans and streets.
///
/// The suppressor is that of WebRTC (crate `sonora-ns`): a Wiener filter in windows of 16 ms, with
/// a noise estimate that converges within one or two seconds. Background voices are hardly
/// attenuated. Speech loses 0.3 to 1.4 dB with `moderate`, which distorts speech least at a
/// signal-to-noise ratio of 5 dB; at 15 dB and more, `mild` does. Recognizers that were trained
/// with noise may perform better without this node.
///
/// A gap or a jump in the timestamps sends the tail and starts again; if time restarts at an
/// earlier value, the tail is dropped. The noise estimate is kept. Samples that are not finite, or
/// more than 60 dB above full scale, count as silence.
///
/// Latency: 16 ms.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, Timestamp};
/// use afferent_messages::{AudioBlock, SampleRate};
/// use afferent_nodes_audio::{Denoise, DenoiseParams, NoiseLevel};
///
/// let params = DenoiseParams { level: NoiseLevel::Moderate };
/// let mut denoise = NodeBench::new(Denoise::open(params, &OpenCx::default())?);
/// let mut block = AudioBlock::default();
/// block.reshape(SampleRate(16_000), 1, 1600)?.fill(0.0);
/// let sent = denoise.call(Denoise::AUDIO, Timestamp::ZERO, block)?;
/// assert_eq!(sent[0].1.header.at, Timestamp::ZERO);
/// assert_eq!(sent[0].1.get::<AudioBlock>().unwrap().len(), 1600 - 96);
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct Denoise {
    suppressor: NoiseSuppressor,
    segment: Option<Segment>,
    /// Samples that the suppressor has not processed.
    pending: Vec<f32>,
    /// Processed samples that were not sent.
    output: Vec<f32>,
    /// Samples that the suppressor will output before the first sample of the segment.
    skip_samples: usize,
}

/// Sample rate of the suppressor.
const RATE: SampleRate = SampleRate(16_000);

/// Samples per run of the suppressor, and the delay of its output.
const STEP_SAMPLES: usize = 160;
const DELAY_SAMPLES: usize = 96;

/// Full scale of the suppressor.
const FULL_SCALE: f32 = 32_768.0;

ports! {
    impl Denoise {
        /// Audio, one channel, 16 kHz, full scale ±1, blocks of any length.
        in AUDIO: AudioBlock;
        /// The same audio with less noise.
        out OUT = "audio": AudioBlock;
    }
}

impl Denoise {
    /// Runs the suppressor on the whole steps in `pending`.
    fn process_steps(&mut self) {
        let steps = self.pending.as_chunks::<STEP_SAMPLES>().0;
        for step in steps {
            let mut samples = step.map(|x| FULL_SCALE * AudioBlock::sanitized(x));
            self.suppressor.analyze(&samples);
            self.suppressor.process(&mut samples);
            let skip = self.skip_samples.min(STEP_SAMPLES);
            self.skip_samples -= skip;
            self.output.extend(samples[skip..].iter().map(|x| x / FULL_SCALE));
        }
        let done = steps.len() * STEP_SAMPLES;
        self.pending.drain(..done);
    }

    fn send_output(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(segment) = &mut self.segment else { return Ok(()) };
        segment.send(cx, Self::OUT, &mut self.output)
    }

    /// Ends the segment; the next one begins at `next`.
    fn end_segment(&mut self, cx: &mut Cx<'_>, next: Timestamp) -> Result<(), NodeError> {
        let whole = (self.pending.len() + DELAY_SAMPLES).next_multiple_of(STEP_SAMPLES);
        self.pending.resize(whole, 0.0);
        self.process_steps();
        self.skip_samples = DELAY_SAMPLES;
        let segment = self.segment.take();
        segment.map_or(Ok(()), |segment| segment.finish(cx, Self::OUT, &mut self.output, next))
    }
}

/// Advice for audio with several channels.
pub(crate) const MONO_HINT: &str = "set mix: mono on wav_source, or channels: 1 on microphone";

/// Checks that audio has one channel and 16 kHz.
pub(crate) fn expect_speech_format(
    block: &AudioBlock,
    port: In<AudioBlock>,
) -> Result<(), NodeError> {
    let reason = if block.rate != RATE {
        format!(
            "the audio has {} Hz, but this node needs {} Hz; insert a resample node with rate: {}",
            block.rate.0, RATE.0, RATE.0
        )
    } else if block.channels() != 1 {
        let channels = block.channels();
        format!("the audio has {channels} channels, but this node needs one; {MONO_HINT}")
    } else {
        return Ok(());
    };
    Err(NodeError::InvalidInput { port: port.name().into(), reason })
}

impl Node for Denoise {
    type Params = DenoiseParams;

    const NAME: &'static str = "denoise";
    const SUMMARY: &'static str = "Suppresses stationary noise.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "16 ms";

    fn open(params: DenoiseParams, _: &OpenCx) -> Result<Self, NodeError> {
        let level = match params.level {
            NoiseLevel::Mild => SuppressionLevel::K6dB,
            NoiseLevel::Moderate => SuppressionLevel::K12dB,
            NoiseLevel::Strong => SuppressionLevel::K18dB,
            NoiseLevel::Strongest => SuppressionLevel::K21dB,
        };
        Ok(Self {
            suppressor: NoiseSuppressor::with_level(level),
            segment: None,
            pending: Vec::new(),
            output: Vec::new(),
            skip_samples: DELAY_SAMPLES,
        })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        // Cloning the packet allows sending while the block is borrowed.
        let Some(packet) = cx.packet().cloned() else { return Ok(()) };
        let (Some(block), at) = (packet.get::<AudioBlock>(), cx.at()) else { return Ok(()) };
        expect_speech_format(block, Self::AUDIO)?;
        if self.segment.as_ref().is_some_and(|segment| !segment.continues_at(at)) {
            self.end_segment(cx, at)?;
        }
        self.segment.get_or_insert_with(|| Segment::new(RATE, at)).receive(block, at);
        self.pending.extend_from_slice(block.channel(0)?);
        self.process_steps();
        self.send_output(cx)
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        self.end_segment(cx, Timestamp(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::{NodeBench, Packet};

    use super::*;
    use crate::testing::INVALID_SAMPLES;

    const SECOND: usize = RATE.0 as usize;

    fn open(level: NoiseLevel) -> NodeBench<Denoise> {
        NodeBench::new(Denoise::open(DenoiseParams { level }, &OpenCx::default()).unwrap())
    }

    /// 20 s of speech, 16 kHz.
    fn speech() -> Vec<f32> {
        let file = include_bytes!("../../../pipelines/assets/other_speech.wav");
        let samples = file[44..].as_chunks().0.iter().take(20 * SECOND);
        samples.map(|bytes| f32::from(i16::from_le_bytes(*bytes)) / 32_768.0).collect()
    }

    fn noise(len: usize) -> Vec<f32> {
        let mut seed = 1_u32;
        let mut next = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed as f32 / 2_147_483_648.0 - 1.0
        };
        (0..len).map(|_| next()).collect()
    }

    fn packets(bench: &mut NodeBench<Denoise>, at: i64, sound: &[f32], len: usize) -> Vec<Packet> {
        let mut packets = Vec::new();
        for (number, samples) in sound.chunks(len).enumerate() {
            let mut block = AudioBlock::default();
            block.reshape(RATE, 1, samples.len()).unwrap().copy_from_slice(samples);
            let at = Timestamp(at) + RATE.duration(number * len);
            let sent = bench.call(Denoise::AUDIO, at, block).unwrap();
            packets.extend(sent.into_iter().map(|(_, packet)| packet));
        }
        packets
    }

    fn samples(packets: &[Packet]) -> Vec<f32> {
        let blocks = packets.iter().map(|packet| packet.get::<AudioBlock>().unwrap());
        blocks.flat_map(|block| block.channel(0).unwrap().to_vec()).collect()
    }

    /// Signal-to-distortion ratio of `sound` to `clean`, in decibels, for any gain.
    fn snr(clean: &[f32], sound: &[f32]) -> f64 {
        let dot =
            |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum() };
        let gain = dot(clean, sound) / dot(clean, clean);
        let signal = gain * gain * dot(clean, clean);
        10.0 * (signal / (dot(sound, sound) - signal)).log10()
    }

    #[test]
    fn noise_is_suppressed_and_speech_is_kept() {
        let speech = speech();
        let power = |sound: &[f32]| sound.iter().map(|x| x * x).sum::<f32>();
        let ratio = (power(&speech) / power(&noise(speech.len()))).sqrt();
        for (db, least) in [(5.0, 3.0), (15.0, 0.0)] {
            let gain = ratio * 10.0_f32.powf(-db / 20.0);
            let noisy: Vec<f32> =
                speech.iter().zip(noise(speech.len())).map(|(x, n)| x + gain * n).collect();
            let found = samples(&packets(&mut open(NoiseLevel::Moderate), 0, &noisy, 320));
            let range = 2 * SECOND..found.len();
            let before = snr(&speech[range.clone()], &noisy[range.clone()]);
            let gain = snr(&speech[range.clone()], &found[range.clone()]) - before;
            assert!(gain > least, "{db} dB: {gain:.1} dB more");
        }
    }

    #[test]
    fn levels_differ_in_the_residual_noise() {
        let noise: Vec<f32> = noise(5 * SECOND).iter().map(|x| 0.1 * x).collect();
        let left = |level| {
            let found = samples(&packets(&mut open(level), 0, &noise, 320));
            let power = |sound: &[f32]| sound.iter().map(|x| x * x).sum::<f32>();
            let range = 4 * SECOND..found.len();
            10.0 * (power(&found[range.clone()]) / power(&noise[range])).log10()
        };
        let [mild, moderate] = [left(NoiseLevel::Mild), left(NoiseLevel::Moderate)];
        let [strong, strongest] = [left(NoiseLevel::Strong), left(NoiseLevel::Strongest)];
        assert!(mild < -4.0 && moderate < mild - 3.0, "{mild}, {moderate}");
        assert!(strong < moderate - 3.0 && strongest < strong - 1.0, "{strong}, {strongest}");
    }

    #[test]
    fn timestamps_and_lengths_are_exact_for_any_block_length() {
        let sound = speech()[..SECOND + 77].to_vec();
        let mut all = Vec::new();
        for len in [64, 160, 333, 5000] {
            let mut bench = open(NoiseLevel::Moderate);
            let mut sent = packets(&mut bench, 3_000_000, &sound, len);
            sent.extend(bench.finish(Timestamp(0)).unwrap().into_iter().map(|(_, sent)| sent));
            let mut count = 0;
            for packet in &sent {
                let at = Timestamp(3_000_000) + RATE.duration(count);
                assert!(packet.header.at.0.abs_diff(at.0) < 10, "blocks of {len}");
                count += packet.get::<AudioBlock>().unwrap().len();
            }
            all.push(samples(&sent));
            assert_eq!(count, sound.len(), "blocks of {len}");
        }
        assert!(all.iter().all(|found| *found == all[0]));
        let gain = snr(&sound, &all[0]);
        assert!(gain > 10.0, "clean speech keeps its timing: {gain:.1} dB");
    }

    #[test]
    fn a_gap_sends_the_tail_and_starts_again() {
        let mut bench = open(NoiseLevel::Mild);
        let first = packets(&mut bench, 0, &[0.1; 400], 400);
        let second = packets(&mut bench, 1_000_000_000, &[0.1; 400], 400);
        let lens = |sent: &[Packet]| -> Vec<(i64, usize)> {
            let len = |packet: &Packet| packet.get::<AudioBlock>().unwrap().len();
            sent.iter().map(|packet| (packet.header.at.0 / 1000, len(packet))).collect()
        };
        assert_eq!(lens(&first), [(0, 224)]);
        assert_eq!(lens(&second), [(14_000, 176), (1_000_000, 224)]);
        let third = packets(&mut bench, 500_000_000, &[0.1; 400], 400);
        assert_eq!(lens(&third), [(500_000, 224)], "no tail if time restarts");
    }

    #[test]
    fn invalid_samples_count_as_silence() {
        let mut bench = open(NoiseLevel::Mild);
        let found = samples(&packets(&mut bench, 0, &INVALID_SAMPLES.repeat(80), 320));
        assert!(found.iter().all(|x| *x == 0.0), "{found:?}");
    }
}
