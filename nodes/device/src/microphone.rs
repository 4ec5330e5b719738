//! Sound from a microphone.

use std::time::Duration;

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, params, ports};
use afferent_messages::{AudioBlock, SampleRate};

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
/// Latency: one block, and what the device needs.
///
/// Needs the feature `audio-device` and the real clock. The time of a block is that of its first
/// sample: the first sample is placed on the clock of the session when it arrives, those after it
/// are counted. Where the device's clock runs apart from that of the session by more than 10 ms, it
/// is followed: a block begins up to a thousandth of its length behind or before the end of the
/// last. After a loss, which is logged, the next sample is placed anew, and never before the end of
/// the sound that was sent: the device may be ahead of the clock. While sound is lost all the time,
/// it is placed anew each time that the buffer was sent.
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

/// How late callbacks may be, in nanoseconds, without the device's clock being slow.
const JITTER: i64 = 10_000_000;

/// In nanoseconds, the time in which it is made up for what the clocks are further apart; and the
/// share of a block by which it moves at most.
const FOLLOWED_IN: f64 = 20e9;
const FASTEST: f64 = 1e-3;

impl Place {
    /// The time of the next block of `len` samples, while `available` wait.
    fn next(
        &mut self,
        now: Timestamp,
        rate: SampleRate,
        available: usize,
        len: usize,
    ) -> Timestamp {
        let first = now - rate.duration(available);
        let start = self.start.get_or_insert(self.end.map_or(first, |end| first.max(end)));
        let late = first.0.saturating_sub((*start + rate.duration(self.position)).0);
        let drift = late.saturating_sub(late.clamp(-JITTER, JITTER)) as f64;
        let share = (drift / FOLLOWED_IN).clamp(-FASTEST, FASTEST);
        start.0 += (share * rate.duration(len).as_nanos() as f64) as i64;
        *start + rate.duration(self.position)
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

ports! {
    impl Microphone {
        /// Audio of the device, full scale ±1, at `rate`, with `channels` channels, one block every
        /// `block`.
        out AUDIO: AudioBlock;
    }
}

impl Microphone {
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
    const PORTS: &'static [Port] = Self::PORTS;
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
        let at = self.place.next(cx.now(), self.rate, available, self.len);
        self.send_block(cx, at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where a device that makes `rate` samples a second, which come 10 ms at a time, places blocks
    /// of 20 ms during an hour, in nanoseconds after the first sample of the block was heard.
    fn late(rate: f64) -> Vec<f64> {
        let (mut place, mut position, mut last) = (Place::default(), 0, Timestamp(i64::MIN));
        let mut late = Vec::new();
        for call in 1..180_000 {
            // The node is called late, too.
            let now = 20e6 * f64::from(call) + [3e6, 19e6, 1e6, 0.0, 9e6][call as usize % 5];
            let heard = (now / 1e9 * rate / 160.0).floor() as usize * 160;
            while heard - position >= 320 {
                let available = heard - position;
                let at = place.next(Timestamp(now as i64), SampleRate(16_000), available, 320);
                assert!(at > last, "{at} comes behind {last}");
                last = at;
                late.push(at.0 as f64 - position as f64 / rate * 1e9);
                place.sent(320, at + Duration::from_millis(20));
                position += 320;
            }
        }
        late
    }

    #[test]
    fn callbacks_that_are_late_do_not_move_time() {
        let late = late(16_000.0);
        assert!(late.iter().all(|at| (at - late[0]).abs() < 1.0));
    }

    #[test]
    fn the_clock_of_the_device_is_followed() {
        for rate in [16_001.6, 15_998.4] {
            let late = late(rate);
            assert!(late.iter().all(|late| late.abs() < 25e6), "{rate}: {:?}", late.last());
            // An overlap or a gap is far shorter than a sample.
            let steps = late.windows(2).map(|pair| (pair[1] - pair[0]).abs());
            assert!(steps.fold(0.0, f64::max) < 15e3, "{rate}");
        }
    }

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
            let at = place.next(now, rate, available, len);
            // A full buffer lasts twice its length.
            assert!(at >= end && now.since(at) <= Duration::from_millis(400), "{at} at {now}");
            end = at + rate.duration(len);
            place.sent(len, end);
            available -= len;
        }
    }
}
