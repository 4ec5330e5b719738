//! Audio capture.

use std::time::Duration;

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, params, ports};
use afferent_messages::{AudioBlock, SampleRate};

use crate::{
    Direction, StreamRequest,
    audio_device::{self, Capture},
    warn_rarely,
};

params! {
    /// Settings of [`Microphone`].
    pub struct MicrophoneParams {
        /// System name of the device; on Linux, the name of an ALSA PCM.
        pub device: String = "default";
        /// Sample rate of the device.
        pub rate: u32 = "16000", range 1000.0..=768000.0, unit "Hz";
        /// Number of channels of the device.
        pub channels: usize = "1", range 1.0..=64.0;
        /// Length of a block.
        pub block: Duration = "20ms", range 0.001..=1.0;
        /// Audio that is buffered while downstream nodes are busy; more is lost.
        pub buffer: Duration = "2s", range 0.02..=60.0;
    }
}

/// Captures audio from an input device, block by block.
///
/// Needs the feature `audio-device` and the real clock. The timestamp of a block is that of its
/// first sample. The first sample is placed on the session clock when it arrives; later samples are
/// counted. Drift of more than 10 ms between the device clock and the session clock is corrected: a
/// block is shifted by at most a thousandth of its length.
///
/// After an overrun, which is logged, the next sample is placed on the session clock again, but not
/// before the end of the audio that was sent, since the device may run fast. During continuous
/// loss, this happens once per buffer length.
///
/// Latency: one block, plus the latency of the device.
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
    /// Samples per channel of a block.
    block_len: usize,
    capture: Capture,
    is_started: bool,
    clock: CaptureClock,
    /// Last value of [`Capture::lost`], and the number of times that it increased.
    lost: u64,
    overruns: u64,
    /// Interleaved samples of a block.
    interleaved: Vec<f32>,
}

/// Maps captured samples to the session clock.
#[derive(Default)]
struct CaptureClock {
    /// Timestamp of the first sample since the last placement; `None` before it.
    start: Option<Timestamp>,
    /// Samples since `start`.
    position: usize,
    /// End of the last block.
    end: Option<Timestamp>,
    /// Samples in the ring buffer before its first loss.
    before_loss: Option<usize>,
}

/// Lateness of device callbacks that is not clock drift, in nanoseconds.
const JITTER_NS: i64 = 10_000_000;

/// Time in which drift is corrected, in nanoseconds.
const DRIFT_CORRECTION_NS: f64 = 20e9;

/// Largest correction of a block, as a fraction of its length.
const MAX_CORRECTION: f64 = 1e-3;

impl CaptureClock {
    /// Timestamp of the next block of `len` samples, while `available` samples wait.
    fn next_timestamp(
        &mut self,
        now: Timestamp,
        rate: SampleRate,
        available: usize,
        len: usize,
    ) -> Timestamp {
        let first = now - rate.duration(available);
        let start = self.start.get_or_insert(self.end.map_or(first, |end| first.max(end)));
        let late = first.0.saturating_sub((*start + rate.duration(self.position)).0);
        let drift = late.saturating_sub(late.clamp(-JITTER_NS, JITTER_NS)) as f64;
        let correction = (drift / DRIFT_CORRECTION_NS).clamp(-MAX_CORRECTION, MAX_CORRECTION);
        start.0 += (correction * rate.duration(len).as_nanos() as f64) as i64;
        *start + rate.duration(self.position)
    }

    /// Counts a sent block of `len` samples that ends at `end`.
    fn advance(&mut self, len: usize, end: Timestamp) {
        self.position += len;
        self.end = Some(end);
        if let Some(before) = &mut self.before_loss {
            *before = before.saturating_sub(len);
            if *before < len {
                (self.before_loss, self.start, self.position) = (None, None, 0);
            }
        }
    }

    /// Records a loss after the `available` waiting samples. Only the first loss in the buffer
    /// counts: the samples after it are placed so that the newest arrives now.
    fn record_loss(&mut self, available: usize) {
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
    /// Checks for a loss; `available` samples in the buffer precede it.
    fn check_loss(&mut self, available: usize) {
        let lost = self.capture.lost();
        if lost == self.lost {
            return;
        }
        self.lost = lost;
        self.overruns += 1;
        self.clock.record_loss(available);
        warn_rarely(self.overruns, "the buffer of a microphone was full; audio was lost");
    }

    fn send_block(&mut self, cx: &mut Cx<'_>, at: Timestamp) -> Result<(), NodeError> {
        self.interleaved.resize(self.block_len * self.channels, 0.0);
        self.capture.read(&mut self.interleaved);
        let mut block = cx.loan(Self::AUDIO);
        let planar = block.reshape(self.rate, self.channels, self.block_len)?;
        for (channel, plane) in planar.chunks_exact_mut(self.block_len).enumerate() {
            let samples = self.interleaved.iter().skip(channel).step_by(self.channels);
            plane.iter_mut().zip(samples).for_each(|(to, from)| *to = *from);
        }
        cx.send_at(Self::AUDIO, at, block);
        self.clock.advance(self.block_len, at + self.rate.duration(self.block_len));
        Ok(())
    }
}

impl Node for Microphone {
    type Params = MicrophoneParams;

    const NAME: &'static str = "microphone";
    const SUMMARY: &'static str = "Captures audio from an input device, block by block.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "one block, plus the latency of the device";

    fn check(params: &MicrophoneParams, _: &OpenCx) -> Result<(), NodeError> {
        audio_device::check(&params.device, Direction::Capture)
    }

    fn open(params: MicrophoneParams, _: &OpenCx) -> Result<Self, NodeError> {
        let (rate, channels) = (SampleRate(params.rate), params.channels);
        let block_len = rate.samples(params.block).max(1);
        let capture = Capture::open(&StreamRequest {
            device: &params.device,
            direction: Direction::Capture,
            rate: rate.0,
            channels,
            buffer: rate.samples(params.buffer).max(2 * block_len),
        })?;
        Ok(Self {
            rate,
            channels,
            block_len,
            capture,
            is_started: false,
            clock: CaptureClock::default(),
            lost: 0,
            overruns: 0,
            interleaved: Vec::new(),
        })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if !self.is_started {
            // Started here and not in `open`, so that audio from before the start of the graph is
            // not captured.
            self.capture.start()?;
            self.is_started = true;
        }
        let available = self.capture.available();
        self.check_loss(available);
        if available < self.block_len {
            self.capture.health()?;
            cx.resume_at(cx.now() + self.rate.duration(self.block_len - available));
            return Ok(());
        }
        let at = self.clock.next_timestamp(cx.now(), self.rate, available, self.block_len);
        self.send_block(cx, at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lateness of the timestamps, in nanoseconds, for one hour of 20 ms blocks from a device that
    /// captures `rate` samples per second in callbacks of 10 ms.
    fn lateness(rate: f64) -> Vec<f64> {
        let (mut clock, mut position, mut last) = (CaptureClock::default(), 0, Timestamp(i64::MIN));
        let mut late = Vec::new();
        for call in 1..180_000 {
            // The node is called late as well.
            let now = 20e6 * f64::from(call) + [3e6, 19e6, 1e6, 0.0, 9e6][call as usize % 5];
            let heard = (now / 1e9 * rate / 160.0).floor() as usize * 160;
            while heard - position >= 320 {
                let available = heard - position;
                let at =
                    clock.next_timestamp(Timestamp(now as i64), SampleRate(16_000), available, 320);
                assert!(at > last, "{at} is not after {last}");
                last = at;
                late.push(at.0 as f64 - position as f64 / rate * 1e9);
                clock.advance(320, at + Duration::from_millis(20));
                position += 320;
            }
        }
        late
    }

    #[test]
    fn late_callbacks_do_not_shift_timestamps() {
        let late = lateness(16_000.0);
        assert!(late.iter().all(|at| (at - late[0]).abs() < 1.0));
    }

    #[test]
    fn device_clock_drift_is_corrected() {
        for rate in [16_001.6, 15_998.4] {
            let late = lateness(rate);
            assert!(late.iter().all(|late| late.abs() < 25e6), "{rate}: {:?}", late.last());
            // Each overlap or gap is much shorter than a sample.
            let steps = late.windows(2).map(|pair| (pair[1] - pair[0]).abs());
            assert!(steps.fold(0.0, f64::max) < 15e3, "{rate}");
        }
    }

    /// Half of the audio is lost: a block of 20 ms is read every 40 ms, at 1 kHz.
    #[test]
    fn timestamps_stay_near_now_during_continuous_loss() {
        let (rate, buffer, len) = (SampleRate(1000), 200, 20);
        let (mut clock, mut available, mut end) = (CaptureClock::default(), 0, Timestamp::ZERO);
        for now in (40..60_000).step_by(40).map(|ms| Timestamp(ms * 1_000_000)) {
            available += 2 * len;
            if available > buffer {
                available = buffer;
                clock.record_loss(available);
            }
            let at = clock.next_timestamp(now, rate, available, len);
            // With half of the audio lost, a full buffer spans twice its length.
            assert!(at >= end && now.since(at) <= Duration::from_millis(400), "{at} at {now}");
            end = at + rate.duration(len);
            clock.advance(len, end);
            available -= len;
        }
    }
}
