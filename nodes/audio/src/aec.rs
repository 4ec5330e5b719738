//! Removes the sound of the loudspeaker from that of the microphone.

mod canceller;
mod reference;

use std::time::Duration;

use afferent_graph::{
    AudioBlock, Cx, In, Node, NodeError, OpenCx, Out, Port, SampleRate, Timestamp, params,
};

use canceller::{BLOCK, Canceller};
use reference::Reference;

use crate::timeline::{Run, place};

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
/// | port        | payload       | what                                                              |
/// |-------------|---------------|-------------------------------------------------------------------|
/// | `audio`     | `audio/Block` | in: the microphone, one channel, 16 kHz, blocks of any length     |
/// | `reference` | `audio/Block` | in: what the loudspeaker plays, with the times when it is audible |
/// | `audio`     | `audio/Block` | out: the microphone without the echo of the reference             |
///
/// The canceller is AEC3 of WebRTC (the crate `sonora-aec3`): it finds the delay of the echo, up to
/// some 500 ms, subtracts what an adaptive filter of 52 ms makes of the reference, and suppresses
/// what remains in the bands where the reference was loud. It needs about a second of sound
/// to learn a room, and goes on learning.
///
/// The reference has any rate and channels. Gaps in it are silence; a block that begins before the
/// end of the one before replaces what was to be heard from there on. Both streams are brought
/// together by their time stamps: clocks of devices that run apart are followed by a sample now
/// and then. A gap in the sound of the microphone or a jump of its time sends what is left and starts
/// again, with the room as it was learned. A reference that comes after the sound of its time is
/// waited for, as long as the reference before it has not ended; with a speaker that reports blocks
/// when it takes them, nothing waits. Without a reference, or a second after it has become silent,
/// the sound of the microphone passes as it is.
///
/// Latency: 8 ms, with late references up to `wait` more.
///
/// ```
/// use afferent_graph::{AudioBlock, Node, NodeBench, OpenCx, ParamValues, Params, Timestamp};
/// use afferent_graph::SampleRate;
/// use afferent_nodes_audio::{Aec, AecParams};
///
/// let params = AecParams::from_values(&ParamValues::new()).unwrap();
/// let mut aec = NodeBench::new(Aec::open(params, &OpenCx::default())?);
/// let mut block = AudioBlock::default();
/// block.reshape(SampleRate(16_000), 1, 320)?.fill(0.25);
/// // Nothing is played: the sound passes, 64 samples later, with its own time.
/// let sent = aec.call(Aec::AUDIO, Timestamp::ZERO, block)?;
/// assert_eq!(sent[0].1.header.at, Timestamp::ZERO);
/// assert_eq!(sent[0].1.get::<AudioBlock>().unwrap().channel(0)?, [0.25; 256]);
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct Aec {
    lead: i64,
    wait: usize,
    reference: Reference,
    canceller: Canceller,
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

impl Aec {
    /// The microphone.
    pub const AUDIO: In<AudioBlock> = In::new("audio");
    /// What the loudspeaker plays.
    pub const REFERENCE: In<AudioBlock> = In::new("reference");
    /// The microphone without the loudspeaker.
    pub const OUT: Out<AudioBlock> = Out::new("audio");

    fn hear(&mut self, cx: &mut Cx<'_>, block: &AudioBlock) -> Result<(), NodeError> {
        check_microphone(block)?;
        let at = cx.at();
        if self.stream.as_ref().is_some_and(|running| !running.run.goes_on(at)) {
            self.send_tail(cx)?;
        }
        let lead = self.lead;
        let running = self.stream.get_or_insert_with(|| Running {
            run: Run::new(RATE, at),
            seen: 0,
            place: place(RATE, at) + lead,
        });
        running.run.take(block, at);
        self.pending.extend_from_slice(block.channel(0)?);
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
        let (len, at) = running.run.send(self.made.len());
        if len > 0 {
            let mut block = cx.loan(Self::OUT);
            block.reshape(RATE, 1, len)?.copy_from_slice(&self.made[..len]);
            cx.send_at(Self::OUT, at, block);
        }
        self.made.clear();
        Ok(())
    }

    /// Sends the rest of a stream that has ended.
    fn send_tail(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let whole = self.pending.len().next_multiple_of(BLOCK) + BLOCK;
        self.pending.resize(whole, 0.0);
        self.work(0);
        self.send_made(cx)?;
        self.pending.clear();
        self.stream = None;
        Ok(())
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

fn check_microphone(block: &AudioBlock) -> Result<(), NodeError> {
    let reason = if block.rate != RATE {
        format!(
            "the sound has {} Hz, but the canceller hears {} Hz; put a resample node with rate: {} \
             before it",
            block.rate.0, RATE.0, RATE.0
        )
    } else if block.channels() != 1 {
        let channels = block.channels();
        format!("the sound has {channels} channels, but the canceller hears one; mix them before")
    } else {
        return Ok(());
    };
    Err(NodeError::InvalidInput { port: Aec::AUDIO.name(), reason })
}

impl Node for Aec {
    type Params = AecParams;

    const NAME: &'static str = "aec";
    const SUMMARY: &'static str = "Removes the sound of the loudspeaker from that of the microphone.";
    const PORTS: &'static [Port] = &[
        Self::AUDIO.port().help("the microphone, one channel, 16 kHz, blocks of any length"),
        Self::REFERENCE
            .port()
            .help("what the loudspeaker plays, any rate, with the times when it is audible")
            .optional(),
        Self::OUT.port().help("the microphone without the echo of the reference"),
    ];
    const LATENCY: &'static str = "8 ms, with late references up to wait more";

    fn open(params: AecParams, _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self {
            lead: i64::try_from(RATE.samples(params.lead)).unwrap_or(0),
            wait: RATE.samples(params.wait),
            reference: Reference::default(),
            canceller: Canceller::new(),
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
        self.send_tail(cx)
    }
}
