//! Removes the sound of the loudspeaker from that of the microphone.

mod canceller;
mod reference;

use std::time::Duration;

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, params, ports};
use afferent_messages::{AudioBlock, SampleRate};

use canceller::{BLOCK, Canceller};
use reference::Reference;

use crate::{
    denoise::expect_speech,
    timeline::{Run, place},
};

params! {
    /// Settings of [`Aec`].
    pub struct AecParams {
        /// By how much the time stamps of the reference may be late: the echo of a sound may come
        /// this much before it.
        pub lead: Duration = "10ms", range 0.0..=0.1;
        /// How long the sound of the microphone is held back for a reference that is late.
        pub wait: Duration = "60ms", range 0.0..=1.0;
    }
}

/// Removes the sound of the loudspeaker from that of the microphone.
///
/// The canceller is AEC3 of WebRTC (the crate `sonora-aec3`): it finds the delay of the echo, up to
/// some 500 ms, subtracts what an adaptive filter of 52 ms makes of the reference, and suppresses
/// what remains in the bands where the reference was loud. It needs about a second of sound
/// to learn a room, and goes on learning; what it does not know yet it suppresses. In the place of
/// what is suppressed comes noise like that of the room, whose level it learns while nobody
/// speaks, the louder the slower (0.2 dB a second).
///
/// The reference has any rate and channels. Gaps in it are silence; a block that begins before the
/// end of the one before replaces what was to be heard from there on. Both streams are brought
/// together by their time stamps: clocks of devices that run apart are followed by a sample now and
/// then. A gap in the sound of the microphone or a jump of its time sends what is left and starts
/// again, with the room as it was learned; where time begins anew, what is left is dropped. A
/// reference that comes after the sound of its time is waited for, as long as the reference before
/// it has not ended; with a speaker that reports blocks when it takes them, nothing waits. Without
/// a reference, half a minute after the start or after it has become silent, the sound of the
/// microphone passes as it is, at no cost. What is no number, or more than 60 dB over full scale,
/// is taken for silence.
///
/// Latency: 8 ms, with late references up to `wait` more.
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
/// // Nothing is played: the sound passes, 64 samples later, with its own time.
/// let sent = aec.call(Aec::AUDIO, Timestamp::ZERO, block)?;
/// assert_eq!(sent[0].1.header.at, Timestamp::ZERO);
/// assert_eq!(sent[0].1.get::<AudioBlock>().unwrap().len(), 256);
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct Aec {
    lead: i64,
    wait: usize,
    reference: Reference,
    canceller: Canceller,
    is_primed: bool,
    stream: Option<Running>,
    /// Samples that the canceller has not seen yet.
    pending: Vec<f32>,
    /// Samples that it has made and that were not sent yet.
    made: Vec<f32>,
}

/// Blocks of the microphone that follow each other.
struct Running {
    run: Run,
    /// Samples that the canceller saw.
    seen: usize,
    /// Place of the reference for the next of them.
    place: i64,
}

/// The rate of the canceller.
const RATE: SampleRate = SampleRate(16_000);

/// By how many samples the reference may be from where time stamps say before it follows them, and
/// before it jumps there.
const SLACK: i64 = 16;
const JUMP: i64 = 160;

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
    fn hear(&mut self, cx: &mut Cx<'_>, block: &AudioBlock) -> Result<(), NodeError> {
        expect_speech(block, Self::AUDIO)?;
        let at = cx.at();
        if self.stream.as_ref().is_some_and(|running| !running.run.goes_on(at)) {
            self.end_stream(cx, at)?;
        }
        let lead = self.lead;
        let running = self.stream.get_or_insert_with(|| Running {
            run: Run::new(RATE, at),
            seen: 0,
            place: place(RATE, at) + lead,
        });
        running.run.take(block, at);
        self.pending.extend(block.channel(0)?.iter().map(|sample| AudioBlock::heard(*sample)));
        if !std::mem::replace(&mut self.is_primed, true) {
            self.canceller.prime(&self.pending);
        }
        self.work(self.wait.max(block.len()));
        self.send_made(cx)
    }

    /// Runs the canceller on whole blocks, but holds back up to `wait` samples where the reference
    /// is not there yet.
    fn work(&mut self, wait: usize) {
        let Some(running) = &mut self.stream else { return };
        let mut done = 0;
        for block in self.pending.as_chunks::<BLOCK>().0 {
            running.follow(self.lead);
            let awaited = self.reference.is_awaited(running.place, BLOCK, wait);
            if awaited && self.pending.len() - done <= wait {
                break;
            }
            let (mut sound, mut reference) = (*block, [0.0; BLOCK]);
            let sounds = self.reference.read(running.place, &mut reference);
            self.canceller.process(&mut sound, sounds.then_some(&reference));
            // The first block that comes out lies before the stream.
            if running.seen > 0 {
                self.made.extend_from_slice(&sound);
            }
            running.seen += BLOCK;
            running.place += BLOCK as i64;
            done += BLOCK;
        }
        self.pending.drain(..done);
        // A second is kept for a jump back.
        self.reference.forget(running.place.saturating_sub(i64::from(RATE.0)));
    }

    /// Sends what was made, but no more than came in.
    fn send_made(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(running) = &mut self.stream else { return Ok(()) };
        running.run.send(cx, Self::OUT, &mut self.made)
    }

    /// Ends the stream; what comes next begins at `next`.
    fn end_stream(&mut self, cx: &mut Cx<'_>, next: Timestamp) -> Result<(), NodeError> {
        let whole = self.pending.len().next_multiple_of(BLOCK) + BLOCK;
        self.pending.resize(whole, 0.0);
        self.work(0);
        self.pending.clear();
        let stream = self.stream.take();
        stream.map_or(Ok(()), |running| running.run.end(cx, Self::OUT, &mut self.made, next))
    }
}

impl Running {
    /// Keeps the reference where the time stamps say.
    fn follow(&mut self, lead: i64) {
        let expected = place(RATE, self.run.start()) + self.seen as i64 + lead;
        match expected - self.place {
            off if off.abs() > JUMP => self.place = expected,
            off if off.abs() > SLACK => self.place += off.signum(),
            _ => (),
        }
    }
}

impl Node for Aec {
    type Params = AecParams;

    const NAME: &'static str = "aec";
    const SUMMARY: &'static str =
        "Removes the sound of the loudspeaker from that of the microphone.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "8 ms, with late references up to wait more";

    fn open(params: AecParams, _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self {
            lead: i64::try_from(RATE.samples(params.lead)).unwrap_or(0),
            wait: RATE.samples(params.wait),
            reference: Reference::default(),
            canceller: Canceller::new(),
            is_primed: false,
            stream: None,
            pending: Vec::new(),
            made: Vec::new(),
        })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        // A second holder, so that sound can be sent while the packet is read.
        let Some(packet) = cx.packet().cloned() else { return Ok(()) };
        let Some(block) = packet.get::<AudioBlock>() else { return Ok(()) };
        if cx.port() == Some(Self::REFERENCE.name()) {
            // Sound waits for the next block of the microphone, because what is sent descends from
            // the packet of the call: an interrupt would take it with the words of the agent.
            return self.reference.push(block, cx.at());
        }
        self.hear(cx, block)
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        self.end_stream(cx, Timestamp(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::{NodeBench, Packet, ParamValues, Params};

    use super::*;
    use crate::sample::NO_SOUND;

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

    /// Noise in bursts, as loud as speech.
    fn sound(len: usize, mut seed: u32, level: f32) -> Vec<f32> {
        let (mut last, mut sound) = (0.0, Vec::new());
        for place in 0..len {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            last = 0.7 * last + 0.3 * (seed as f32 / 2_147_483_648.0 - 1.0);
            let burst = if place / 2400 % 3 == 2 { 0.1 } else { 1.0 };
            sound.push(level * burst * last);
        }
        sound
    }

    /// What a microphone hears `delay` samples later.
    fn echo(played: &[f32], delay: usize) -> Vec<f32> {
        let at = |place: usize, back: usize| {
            place.checked_sub(delay + back).map_or(0.0, |place| played[place])
        };
        let sample = |place| 0.4 * at(place, 0) - 0.2 * at(place, 53) + 0.1 * at(place, 307);
        (0..played.len()).map(sample).collect()
    }

    fn power(sound: &[f32]) -> f32 {
        sound.iter().map(|x| x * x).sum::<f32>() / sound.len() as f32
    }

    fn db(ratio: f32) -> f32 {
        10.0 * ratio.log10()
    }

    /// What passes of `microphone` while `played` is played, from `start` on.
    fn run(
        aec: &mut NodeBench<Aec>,
        start: Timestamp,
        microphone: &[f32],
        played: &[f32],
        len: usize,
    ) -> Vec<Packet> {
        let mut packets = Vec::new();
        let mut played = played.chunks(320).enumerate();
        for (place, samples) in microphone.chunks(len).enumerate() {
            let end = (place + 1) * len;
            for (place, samples) in played.by_ref().take(end.div_ceil(320) - place * len / 320) {
                let at = start + RATE.duration(place * 320);
                assert!(aec.call(Aec::REFERENCE, at, block(samples)).unwrap().is_empty());
            }
            let at = start + RATE.duration(place * len);
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
    fn an_echo_is_removed_and_who_speaks_is_not() {
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
        // Noise over noise is the worst case: no band is free for either.
        assert!(loss.abs() < 6.0, "{loss} dB");
    }

    #[test]
    fn times_are_those_of_the_samples_whatever_the_blocks() {
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
            // What the canceller is primed with depends on the first block.
            let off = found.iter().zip(&whole).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(off < 0.01, "blocks of {len}: {off}");
            let lost: Vec<f32> = found.iter().zip(&microphone).map(|(a, b)| a - b).collect();
            let snr = db(power(&microphone) / power(&lost));
            assert!(snr > 20.0, "blocks of {len}: {snr} dB");
        }
    }

    #[test]
    fn without_a_reference_sound_passes_as_it_is_after_a_while() {
        let microphone = sound(SECOND * 32, 5, 0.1);
        let passed = samples(&run(&mut open(), Timestamp(0), &microphone, &[], 320));
        assert_eq!(passed[SECOND * 31..], microphone[SECOND * 31..passed.len()]);
    }

    #[test]
    fn a_gap_or_jump_sends_what_is_left_and_the_room_stays_known() {
        let played = sound(SECOND * 5, 1, 0.5);
        let heard = echo(&played, 640);
        let mut aec = open();
        let first = run(&mut aec, Timestamp(0), &heard[..SECOND * 4 + 30], &played, 310);
        for start in [Timestamp(9_000_000_000), Timestamp(3_000_000_000)] {
            let packets = run(&mut aec, start, &heard, &played, 320);
            if start.0 > 5_000_000_000 {
                let sent = samples(&first).len() + packets[0].get::<AudioBlock>().unwrap().len();
                assert_eq!(sent, SECOND * 4 + 30, "the tail comes before the jump");
            } else {
                assert_eq!(packets[0].header.at, start, "no tail where time begins anew");
            }
            let passed = samples(&packets);
            let range = SECOND / 2..SECOND * 3;
            let removed = db(power(&heard[range.clone()]) / power(&passed[range]));
            assert!(removed > 20.0, "after the jump to {start}: {removed} dB");
        }
    }

    #[test]
    fn what_is_no_sound_is_outlived() {
        let played = sound(SECOND * 4, 1, 0.5);
        let mut aec = open();
        run(&mut aec, Timestamp(0), &NO_SOUND.repeat(80), &NO_SOUND.repeat(80), 320);
        let heard = echo(&played, 640);
        let passed = samples(&run(&mut aec, Timestamp(20_000_000), &heard, &played, 320));
        let removed = db(power(&heard[SECOND * 2..]) / power(&passed[SECOND * 2..]));
        assert!(removed > 25.0, "{removed} dB");
    }

    #[test]
    fn references_that_come_late_are_waited_for() {
        let played = sound(SECOND * 4, 1, 0.5);
        let heard = echo(&played, 160);
        let mut aec = open();
        let mut passed = Vec::new();
        for (place, (sound, reference)) in heard.chunks(320).zip(played.chunks(320)).enumerate() {
            let at = Timestamp::ZERO + RATE.duration(place * 320);
            let sent = aec.call(Aec::AUDIO, at, block(sound)).unwrap();
            passed.extend(sent.into_iter().map(|(_, packet)| packet));
            aec.call(Aec::REFERENCE, at, block(reference)).unwrap();
        }
        let held = heard.len() - samples(&passed).len();
        assert!(held <= 960 + 384, "no more than `wait` is held back: {held}");
        let passed = samples(&passed);
        let removed = db(power(&heard[SECOND * 2..]) / power(&passed[SECOND * 2..]));
        assert!(removed > 25.0, "{removed} dB");
    }

    #[test]
    fn clocks_that_run_apart_are_followed() {
        let played = sound(SECOND * 10, 1, 0.5);
        let heard = echo(&played, 640);
        let mut aec = open();
        let mut passed = Vec::new();
        for (place, (sound, reference)) in heard.chunks(320).zip(played.chunks(320)).enumerate() {
            let at = Timestamp::ZERO + RATE.duration(place * 320);
            aec.call(Aec::REFERENCE, at, block(reference)).unwrap();
            // The microphone's clock is off by 100 parts in a million.
            let at = Timestamp(at.0 + at.0 / 10_000);
            let sent = aec.call(Aec::AUDIO, at, block(sound)).unwrap();
            passed.extend(sent.into_iter().map(|(_, packet)| packet));
        }
        let passed = samples(&passed);
        let removed = db(power(&heard[SECOND * 2..]) / power(&passed[SECOND * 2..]));
        assert!(removed > 20.0, "{removed} dB");
    }

    #[test]
    fn other_rates_and_channels_are_refused() {
        for (rate, channels, reason) in [(48_000, 1, "rate: 16000"), (16_000, 2, "channels: mono")]
        {
            let mut block = AudioBlock::default();
            block.reshape(SampleRate(rate), channels, 160).unwrap();
            let error = open().call(Aec::AUDIO, Timestamp(0), block).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
