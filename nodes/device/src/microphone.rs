//! Sound from a microphone.

use std::time::Duration;

use afferent_graph::{
    AudioBlock, Cx, Node, NodeError, OpenCx, Out, Port, SampleRate, Timestamp, params,
};

use crate::{
    Direction, Request, log,
    sound::{self, Capture},
};

params! {
    /// Settings of [`Microphone`].
    pub struct MicrophoneParams {
        /// Name of the device as the system has it; on Linux that of an ALSA PCM.
        pub device: String = "default";
        /// Sample rate.
        pub rate: u32 = "16000", range 1000.0..=768000.0, unit "Hz";
        /// Number of channels.
        pub channels: usize = "1", range 1.0..=64.0;
        /// Length of a block.
        pub block: Duration = "20ms", range 0.001..=1.0;
        /// Sound that is kept while the nodes behind this one are busy; what comes then is lost.
        pub buffer: Duration = "2s", range 0.02..=60.0;
    }
}

/// Reads a microphone block by block.
///
/// | port    | type         | unit          | rate                    |
/// |---------|--------------|---------------|-------------------------|
/// | `audio` | `AudioBlock` | full scale ±1 | one every `block`       |
///
/// Latency: one block, and what the device needs.
///
/// Needs the feature `audio-device` and the real clock. The time of a block is that of its first
/// sample: the first sample is placed on the clock of the session when it arrives, those after it
/// are counted. After a loss, which is logged, the next sample is placed anew, and never before
/// the end of the sound that was sent: the device may be ahead of the clock. While sound is lost all
/// the time, it is placed anew each time that the buffer was sent.
///
/// ```
/// use std::time::Duration;
///
/// use afferent_graph::{Node, OpenCx};
/// use afferent_nodes_device::{Microphone, MicrophoneParams};
///
/// let (block, buffer) = (Duration::from_millis(20), Duration::from_secs(2));
/// let device = "in the next room".to_owned();
/// let params = MicrophoneParams { device, rate: 16_000, channels: 1, block, buffer };
/// let error = Microphone::check(&params, &OpenCx::default()).unwrap_err().to_string();
/// assert!(error.starts_with("device \"in the next room\": "));
/// ```
pub struct Microphone {
    rate: SampleRate,
    channels: usize,
    /// Samples of a block.
    len: usize,
    capture: Capture,
    started: bool,
    place: Place,
    /// What [`Capture::lost`] was last, and how often it grew.
    lost: u64,
    losses: u64,
    /// Channel by channel for each time.
    interleaved: Vec<f32>,
}

/// Where sound is on the clock of the session.
#[derive(Default)]
struct Place {
    /// Time of the first sample since it was placed, once it is there, and samples since then.
    start: Option<Timestamp>,
    position: usize,
    /// End of the last block.
    end: Option<Timestamp>,
    /// Samples in the buffer that came before the first loss in it.
    before_loss: Option<usize>,
}

impl Place {
    /// The time of the next sample, while `available` wait.
    fn next(&mut self, now: Timestamp, rate: SampleRate, available: usize) -> Timestamp {
        let first = now - rate.duration(available);
        let start = *self.start.get_or_insert(self.end.map_or(first, |end| first.max(end)));
        start + rate.duration(self.position)
    }

    /// A block of `len` samples was sent, which ends at `end`.
    fn sent(&mut self, len: usize, end: Timestamp) {
        self.position += len;
        self.end = Some(end);
        if let Some(before) = &mut self.before_loss {
            *before = before.saturating_sub(len);
            if *before < len {
                (self.before_loss, self.start, self.position) = (None, None, 0);
            }
        }
    }

    /// Sound was lost behind the `available` samples that wait. A loss behind another changes
    /// nothing: what is placed anew ends with the sound of now.
    fn lost(&mut self, available: usize) {
        self.before_loss.get_or_insert(available);
    }
}

impl Microphone {
    /// Sound out.
    pub const AUDIO: Out<AudioBlock> = Out::new("audio");

    /// Looks for a loss; `available` samples of the buffer came before it.
    fn note_loss(&mut self, available: usize) {
        let lost = self.capture.lost();
        if lost == self.lost {
            return;
        }
        self.lost = lost;
        self.losses += 1;
        self.place.lost(available);
        log(self.losses, "the buffer of a microphone was full, and sound was lost");
    }

    fn send_block(&mut self, cx: &mut Cx<'_>, at: Timestamp) -> Result<(), NodeError> {
        self.interleaved.resize(self.len * self.channels, 0.0);
        self.capture.read(&mut self.interleaved);
        let mut block = cx.loan(Self::AUDIO);
        let planar = block.reshape(self.rate, self.channels, self.len)?;
        for (channel, plane) in planar.chunks_exact_mut(self.len).enumerate() {
            let samples = self.interleaved.iter().skip(channel).step_by(self.channels);
            plane.iter_mut().zip(samples).for_each(|(to, from)| *to = *from);
        }
        cx.send_at(Self::AUDIO, at, block);
        self.place.sent(self.len, at + self.rate.duration(self.len));
        Ok(())
    }
}

impl Node for Microphone {
    type Params = MicrophoneParams;

    const NAME: &'static str = "microphone";
    const SUMMARY: &'static str = "Reads a microphone block by block.";
    const PORTS: &'static [Port] = &[Self::AUDIO.port().help("full scale ±1")];
    const LATENCY: &'static str = "one block, and what the device needs";

    fn check(params: &MicrophoneParams, _: &OpenCx) -> Result<(), NodeError> {
        sound::check(&params.device, Direction::Capture)
    }

    fn open(params: MicrophoneParams, _: &OpenCx) -> Result<Self, NodeError> {
        let (rate, channels) = (SampleRate(params.rate), params.channels);
        let len = rate.samples(params.block).max(1);
        let capture = Capture::open(&Request {
            device: &params.device,
            direction: Direction::Capture,
            rate: rate.0,
            channels,
            buffer: rate.samples(params.buffer).max(2 * len),
        })?;
        Ok(Self {
            rate,
            channels,
            len,
            capture,
            started: false,
            place: Place::default(),
            lost: 0,
            losses: 0,
            interleaved: Vec::new(),
        })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if !self.started {
            // Not before, or it would hear what was said while models were loaded.
            self.capture.start()?;
            self.started = true;
        }
        let available = self.capture.available();
        self.note_loss(available);
        if available < self.len {
            self.capture.health()?;
            cx.resume_at(cx.now() + self.rate.duration(self.len - available));
            return Ok(());
        }
        let at = self.place.next(cx.now(), self.rate, available);
        self.send_block(cx, at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half of the sound is lost: a block of 20 ms is taken each 40 ms, at 1 kHz.
    #[test]
    fn time_stays_near_now_while_sound_is_lost() {
        let (rate, buffer, len) = (SampleRate(1000), 200, 20);
        let (mut place, mut available, mut end) = (Place::default(), 0, Timestamp::ZERO);
        for now in (40..60_000).step_by(40).map(|ms| Timestamp(ms * 1_000_000)) {
            available += 2 * len;
            if available > buffer {
                available = buffer;
                place.lost(available);
            }
            let at = place.next(now, rate, available);
            // A full buffer lasts twice its length.
            assert!(at >= end && now.since(at) <= Duration::from_millis(400), "{at} at {now}");
            end = at + rate.duration(len);
            place.sent(len, end);
            available -= len;
        }
    }
}
