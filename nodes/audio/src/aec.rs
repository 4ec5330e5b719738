//! Acoustic echo cancellation.

mod canceler;
mod reference;

use std::time::Duration;

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, params, ports};
use afferent_messages::{AudioBlock, SampleRate};

use canceler::{BLOCK_SAMPLES, Canceler};
use reference::Reference;

use crate::{
    denoise::expect_speech_format,
    timeline::{Segment, sample_index},
};

params! {
    /// Settings of [`Aec`].
    pub struct AecParams {
        /// Largest lateness of the reference timestamps: an echo may arrive this much before the
        /// reference says.
        pub lead: Duration = "10ms", range 0.0..=0.1;
        /// Longest time that microphone audio is held back for a late reference.
        pub wait: Duration = "60ms", range 0.0..=1.0;
    }
}

/// Removes the echo of the loudspeaker from the microphone.
///
/// The canceler is AEC3 of WebRTC (crate `sonora-aec3`). It estimates the echo delay, up to about
/// 500 ms, subtracts the reference filtered by an adaptive filter of 52 ms, and suppresses the
/// residual echo in the bands in which the reference was loud. It converges on a room within about
/// a second and keeps adapting; until then it suppresses. Suppressed audio is replaced by comfort
/// noise. Its level follows the noise of the room while nothing is spoken, upwards by 0.2 dB per
/// second at most.
///
/// The reference may have any sample rate and channels. Gaps in it are silence. A block that begins
/// before the end of the previous one replaces the audio from there on. Microphone and reference
/// are aligned by their timestamps; clock drift between the devices is corrected by single samples.
/// A gap or a jump in the microphone timestamps sends the remaining audio and starts again with the
/// learned room; if time restarts at an earlier value, the remaining audio is dropped.
///
/// Microphone audio waits for a late reference, unless the reference has ended. Nothing waits if
/// the speaker node reports audio before it is heard. After half a minute without reference, the
/// microphone passes unchanged, at no cost. Samples that are not finite, or more than 60 dB above
/// full scale, count as silence.
///
/// Latency: 8 ms, with a late reference up to `wait` more.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, ParamValues, Params, Timestamp};
/// use afferent_messages::AudioBlock;
/// use afferent_messages::SampleRate;
/// use afferent_nodes_audio::{Aec, AecParams};
///
/// let params = AecParams::from_values(&ParamValues::new()).unwrap();
/// let mut aec = NodeBench::new(Aec::open(params, &OpenCx::default())?);
/// let mut block = AudioBlock::default();
/// block.reshape(SampleRate(16_000), 1, 320)?.fill(0.25);
/// // Without a reference, audio passes 64 samples later with its own timestamp.
/// let sent = aec.call(Aec::AUDIO, Timestamp::ZERO, block)?;
/// assert_eq!(sent[0].1.header.at, Timestamp::ZERO);
/// assert_eq!(sent[0].1.get::<AudioBlock>().unwrap().len(), 256);
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct Aec {
    lead_samples: i64,
    wait_samples: usize,
    reference: Reference,
    canceler: Canceler,
    is_primed: bool,
    stream: Option<Stream>,
    /// Microphone samples that the canceler has not processed.
    pending: Vec<f32>,
    /// Processed samples that were not sent.
    output: Vec<f32>,
}

/// A contiguous part of the microphone stream.
struct Stream {
    segment: Segment,
    /// Samples that the canceler has processed.
    processed: usize,
    /// Sample index in the reference that belongs to the next microphone sample.
    reference_index: i64,
}

/// Sample rate of the canceler.
const RATE: SampleRate = SampleRate(16_000);

/// Misalignment of the reference, in samples, from which on it is corrected sample by sample.
const DRIFT_TOLERANCE: i64 = 16;

/// Misalignment of the reference, in samples, from which on it is corrected at once.
const MAX_DRIFT: i64 = 160;

ports! {
    impl Aec {
        /// Microphone, one channel, 16 kHz, full scale ±1, blocks of any length.
        in AUDIO: AudioBlock;
        /// Echo reference: the audio that the loudspeaker plays, any sample rate and channels,
        /// timestamped with the time at which it is heard.
        in REFERENCE: AudioBlock, optional;
        /// Microphone without the echo of the reference, one channel, 16 kHz.
        out OUT = "audio": AudioBlock;
    }
}

impl Aec {
    fn process_microphone(&mut self, cx: &mut Cx<'_>, block: &AudioBlock) -> Result<(), NodeError> {
        expect_speech_format(block, Self::AUDIO)?;
        let at = cx.at();
        if self.stream.as_ref().is_some_and(|stream| !stream.segment.continues_at(at)) {
            self.end_stream(cx, at)?;
        }
        let lead = self.lead_samples;
        let stream = self.stream.get_or_insert_with(|| Stream {
            segment: Segment::new(RATE, at),
            processed: 0,
            reference_index: sample_index(RATE, at) + lead,
        });
        stream.segment.receive(block, at);
        self.pending.extend(block.channel(0)?.iter().map(|sample| AudioBlock::sanitized(*sample)));
        if !std::mem::replace(&mut self.is_primed, true) {
            self.canceler.prime(&self.pending);
        }
        self.process_blocks(self.wait_samples.max(block.len()));
        self.send_output(cx)
    }

    /// Runs the canceler on the whole blocks in `pending`. Holds back up to `max_wait` samples
    /// while their reference is missing.
    fn process_blocks(&mut self, max_wait: usize) {
        let Some(stream) = &mut self.stream else { return };
        let mut done = 0;
        for block in self.pending.as_chunks::<BLOCK_SAMPLES>().0 {
            stream.correct_drift(self.lead_samples);
            let awaited =
                self.reference.is_awaited(stream.reference_index, BLOCK_SAMPLES, max_wait);
            if awaited && self.pending.len() - done <= max_wait {
                break;
            }
            let (mut audio, mut reference) = (*block, [0.0; BLOCK_SAMPLES]);
            let is_audible = self.reference.read(stream.reference_index, &mut reference);
            self.canceler.process(&mut audio, is_audible.then_some(&reference));
            // The first output block belongs to the time before the stream.
            if stream.processed > 0 {
                self.output.extend_from_slice(&audio);
            }
            stream.processed += BLOCK_SAMPLES;
            stream.reference_index += BLOCK_SAMPLES as i64;
            done += BLOCK_SAMPLES;
        }
        self.pending.drain(..done);
        // One second is kept for a jump back.
        self.reference.discard_before(stream.reference_index.saturating_sub(i64::from(RATE.0)));
    }

    fn send_output(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        stream.segment.send(cx, Self::OUT, &mut self.output)
    }

    /// Ends the stream; the next one begins at `next`.
    fn end_stream(&mut self, cx: &mut Cx<'_>, next: Timestamp) -> Result<(), NodeError> {
        let whole = self.pending.len().next_multiple_of(BLOCK_SAMPLES) + BLOCK_SAMPLES;
        self.pending.resize(whole, 0.0);
        self.process_blocks(0);
        self.pending.clear();
        let stream = self.stream.take();
        stream.map_or(Ok(()), |stream| stream.segment.finish(cx, Self::OUT, &mut self.output, next))
    }
}

impl Stream {
    /// Aligns the reference with the microphone timestamps.
    fn correct_drift(&mut self, lead: i64) {
        let expected = sample_index(RATE, self.segment.start()) + self.processed as i64 + lead;
        match expected - self.reference_index {
            drift if drift.abs() > MAX_DRIFT => self.reference_index = expected,
            drift if drift.abs() > DRIFT_TOLERANCE => self.reference_index += drift.signum(),
            _ => (),
        }
    }
}

impl Node for Aec {
    type Params = AecParams;

    const NAME: &'static str = "aec";
    const SUMMARY: &'static str = "Removes the echo of the loudspeaker from the microphone.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "8 ms, with a late reference up to wait more";

    fn open(params: AecParams, _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self {
            lead_samples: i64::try_from(RATE.samples(params.lead)).unwrap_or(0),
            wait_samples: RATE.samples(params.wait),
            reference: Reference::default(),
            canceler: Canceler::new(),
            is_primed: false,
            stream: None,
            pending: Vec::new(),
            output: Vec::new(),
        })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        // Cloning the packet allows sending while the block is borrowed.
        let Some(packet) = cx.packet().cloned() else { return Ok(()) };
        let Some(block) = packet.get::<AudioBlock>() else { return Ok(()) };
        if cx.port() == Some(Self::REFERENCE.name()) {
            // Output is sent only in calls with microphone audio: a packet sent here would inherit
            // the epoch of the agent's speech, and an interrupt would drop it.
            return self.reference.push(block, cx.at());
        }
        self.process_microphone(cx, block)
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        self.end_stream(cx, Timestamp(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::{NodeBench, Packet, ParamValues, Params};

    use super::*;
    use crate::testing::INVALID_SAMPLES;

    const SECOND: usize = RATE.0 as usize;

    fn open() -> NodeBench<Aec> {
        let params = AecParams::from_values(&ParamValues::new()).unwrap();
        NodeBench::new(Aec::open(params, &OpenCx::default()).unwrap())
    }

    fn block(samples: &[f32]) -> AudioBlock {
        let mut block = AudioBlock::default();
        block.reshape(RATE, 1, samples.len()).unwrap().copy_from_slice(samples);
        block
    }

    /// Bursts of noise at the level of speech.
    fn sound(len: usize, mut seed: u32, level: f32) -> Vec<f32> {
        let (mut last, mut sound) = (0.0, Vec::new());
        for index in 0..len {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            last = 0.7 * last + 0.3 * (seed as f32 / 2_147_483_648.0 - 1.0);
            let burst = if index / 2400 % 3 == 2 { 0.1 } else { 1.0 };
            sound.push(level * burst * last);
        }
        sound
    }

    /// Echo of `played` at the microphone, `delay` samples later.
    fn echo(played: &[f32], delay: usize) -> Vec<f32> {
        let at = |index: usize, back: usize| {
            index.checked_sub(delay + back).map_or(0.0, |index| played[index])
        };
        let sample = |index| 0.4 * at(index, 0) - 0.2 * at(index, 53) + 0.1 * at(index, 307);
        (0..played.len()).map(sample).collect()
    }

    fn power(sound: &[f32]) -> f32 {
        sound.iter().map(|x| x * x).sum::<f32>() / sound.len() as f32
    }

    fn db(ratio: f32) -> f32 {
        10.0 * ratio.log10()
    }

    /// Output for `microphone` while `played` is played, both from `start` on.
    fn run(
        aec: &mut NodeBench<Aec>,
        start: Timestamp,
        microphone: &[f32],
        played: &[f32],
        len: usize,
    ) -> Vec<Packet> {
        let mut packets = Vec::new();
        let mut played = played.chunks(320).enumerate();
        for (number, samples) in microphone.chunks(len).enumerate() {
            let end = (number + 1) * len;
            for (block_number, samples) in
                played.by_ref().take(end.div_ceil(320) - number * len / 320)
            {
                let at = start + RATE.duration(block_number * 320);
                assert!(aec.call(Aec::REFERENCE, at, block(samples)).unwrap().is_empty());
            }
            let at = start + RATE.duration(number * len);
            let sent = aec.call(Aec::AUDIO, at, block(samples)).unwrap();
            packets.extend(sent.into_iter().map(|(_, packet)| packet));
        }
        packets
    }

    fn samples(packets: &[Packet]) -> Vec<f32> {
        let blocks = packets.iter().map(|packet| packet.get::<AudioBlock>().unwrap());
        blocks.flat_map(|block| block.channel(0).unwrap().to_vec()).collect()
    }

    #[test]
    fn echo_is_removed_and_near_end_speech_is_kept() {
        let played = sound(SECOND * 8, 1, 0.5);
        let echo = echo(&played, 640);
        let mut aec = open();
        let passed = samples(&run(&mut aec, Timestamp(0), &echo, &played, 320));
        let removed = db(power(&echo[SECOND * 2..]) / power(&passed[SECOND * 2..]));
        assert!(removed > 25.0, "{removed} dB");

        let mut near = sound(SECOND * 8, 99, 0.4);
        near[..SECOND * 4].fill(0.0);
        let both: Vec<f32> = echo.iter().zip(&near).map(|(a, b)| a + b).collect();
        let passed = samples(&run(&mut open(), Timestamp(0), &both, &played, 320));
        let range = SECOND * 5..SECOND * 7;
        let dot: f32 =
            near[range.clone()].iter().zip(&passed[range.clone()]).map(|(a, b)| a * b).sum();
        let loss = -2.0 * db(dot / near[range].iter().map(|x| x * x).sum::<f32>());
        // Noise over noise is the worst case: both occupy every band.
        assert!(loss.abs() < 6.0, "{loss} dB");
    }

    #[test]
    fn timestamps_are_exact_for_any_block_length() {
        let microphone = sound(SECOND, 5, 0.1);
        let whole = samples(&run(&mut open(), Timestamp(0), &microphone, &[], 64));
        for len in [100, 160, 320, 4000] {
            let mut aec = open();
            let start = Timestamp(7_000_000);
            let mut packets = run(&mut aec, start, &microphone, &[], len);
            packets.extend(aec.finish(Timestamp(0)).unwrap().into_iter().map(|(_, packet)| packet));
            let mut sent = 0;
            for packet in &packets {
                assert!((start + RATE.duration(sent)).0.abs_diff(packet.header.at.0) < 10);
                sent += packet.get::<AudioBlock>().unwrap().len();
            }
            let found = samples(&packets);
            assert_eq!(found.len(), microphone.len(), "blocks of {len}");
            // The priming of the canceler depends on the first block.
            let off = found.iter().zip(&whole).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(off < 0.01, "blocks of {len}: {off}");
            let lost: Vec<f32> = found.iter().zip(&microphone).map(|(a, b)| a - b).collect();
            let snr = db(power(&microphone) / power(&lost));
            assert!(snr > 20.0, "blocks of {len}: {snr} dB");
        }
    }

    #[test]
    fn without_a_reference_audio_passes_unchanged_after_a_while() {
        let microphone = sound(SECOND * 32, 5, 0.1);
        let passed = samples(&run(&mut open(), Timestamp(0), &microphone, &[], 320));
        assert_eq!(passed[SECOND * 31..], microphone[SECOND * 31..passed.len()]);
    }

    #[test]
    fn a_gap_or_jump_sends_the_tail_and_keeps_the_learned_room() {
        let played = sound(SECOND * 5, 1, 0.5);
        let heard = echo(&played, 640);
        let mut aec = open();
        let first = run(&mut aec, Timestamp(0), &heard[..SECOND * 4 + 30], &played, 310);
        for start in [Timestamp(9_000_000_000), Timestamp(3_000_000_000)] {
            let packets = run(&mut aec, start, &heard, &played, 320);
            if start.0 > 5_000_000_000 {
                let sent = samples(&first).len() + packets[0].get::<AudioBlock>().unwrap().len();
                assert_eq!(sent, SECOND * 4 + 30, "the tail is sent before the jump");
            } else {
                assert_eq!(packets[0].header.at, start, "no tail if time restarts");
            }
            let passed = samples(&packets);
            let range = SECOND / 2..SECOND * 3;
            let removed = db(power(&heard[range.clone()]) / power(&passed[range]));
            assert!(removed > 20.0, "after the jump to {start}: {removed} dB");
        }
    }

    #[test]
    fn the_canceler_recovers_from_invalid_samples() {
        let played = sound(SECOND * 4, 1, 0.5);
        let mut aec = open();
        run(&mut aec, Timestamp(0), &INVALID_SAMPLES.repeat(80), &INVALID_SAMPLES.repeat(80), 320);
        let heard = echo(&played, 640);
        let passed = samples(&run(&mut aec, Timestamp(20_000_000), &heard, &played, 320));
        let removed = db(power(&heard[SECOND * 2..]) / power(&passed[SECOND * 2..]));
        assert!(removed > 25.0, "{removed} dB");
    }

    #[test]
    fn microphone_audio_waits_for_a_late_reference() {
        let played = sound(SECOND * 4, 1, 0.5);
        let heard = echo(&played, 160);
        let mut aec = open();
        let mut passed = Vec::new();
        for (number, (sound, reference)) in heard.chunks(320).zip(played.chunks(320)).enumerate() {
            let at = Timestamp::ZERO + RATE.duration(number * 320);
            let sent = aec.call(Aec::AUDIO, at, block(sound)).unwrap();
            passed.extend(sent.into_iter().map(|(_, packet)| packet));
            aec.call(Aec::REFERENCE, at, block(reference)).unwrap();
        }
        let held = heard.len() - samples(&passed).len();
        assert!(held <= 960 + 384, "at most `wait` is held back: {held}");
        let passed = samples(&passed);
        let removed = db(power(&heard[SECOND * 2..]) / power(&passed[SECOND * 2..]));
        assert!(removed > 25.0, "{removed} dB");
    }

    #[test]
    fn clock_drift_is_corrected() {
        let played = sound(SECOND * 10, 1, 0.5);
        let heard = echo(&played, 640);
        let mut aec = open();
        let mut passed = Vec::new();
        for (number, (sound, reference)) in heard.chunks(320).zip(played.chunks(320)).enumerate() {
            let at = Timestamp::ZERO + RATE.duration(number * 320);
            aec.call(Aec::REFERENCE, at, block(reference)).unwrap();
            // The clock of the microphone is slow by 100 ppm.
            let at = Timestamp(at.0 + at.0 / 10_000);
            let sent = aec.call(Aec::AUDIO, at, block(sound)).unwrap();
            passed.extend(sent.into_iter().map(|(_, packet)| packet));
        }
        let passed = samples(&passed);
        let removed = db(power(&heard[SECOND * 2..]) / power(&passed[SECOND * 2..]));
        assert!(removed > 20.0, "{removed} dB");
    }

    #[test]
    fn other_rates_and_channels_are_rejected() {
        for (rate, channels, reason) in [(48_000, 1, "rate: 16000"), (16_000, 2, "mix: mono")] {
            let mut block = AudioBlock::default();
            block.reshape(SampleRate(rate), channels, 160).unwrap();
            let error = open().call(Aec::AUDIO, Timestamp(0), block).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
