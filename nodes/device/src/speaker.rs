//! Audio playback.

use std::time::Duration;

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, Weight, params, ports};
use afferent_messages::{AudioBlock, Gain, Played, Playout, SampleRate};

use crate::{
    Direction, StreamRequest,
    audio_device::{self, Playback},
    warn_rarely,
};

params! {
    /// Settings of [`Speaker`].
    pub struct SpeakerParams {
        /// System name of the device; on Linux, the name of an ALSA PCM.
        pub device: String = "default";
        /// Sample rate of the device.
        pub rate: u32 = "24000", range 1000.0..=768000.0, unit "Hz";
        /// Number of channels of the device.
        pub channels: usize = "1", range 1.0..=64.0;
        /// Audio that the device buffers; an interrupt cannot take it back.
        pub buffer: Duration = "40ms", range 0.02..=10.0;
        /// Length of the fade-out after an interrupt.
        pub fade: Duration = "8ms", range 0.0..=1.0;
    }
}

/// Plays audio on an output device.
///
/// Needs the feature `audio-device`. Audio that arrives faster than it is played, such as
/// synthesized speech, is queued. While more than 30 s are queued, the node accepts no packet, so
/// `gain` takes effect late too. Audio is played in order of arrival, regardless of its timestamps.
/// After an interrupt the device plays its buffer, fades out within `fade`, and the rest is
/// discarded. Audio that arrives after the previous block was played to its end is logged as late.
/// When the stream ends, the node waits until everything is played.
///
/// Latency: `buffer`, plus the latency of the device.
///
/// ```
/// use afferent_graph::{Node, OpenCx, ParamValue, Params};
/// use afferent_nodes_device::{Speaker, SpeakerParams};
///
/// let device = ParamValue::Text("in the next room".to_owned());
/// let params = SpeakerParams::from_values(&[("device".to_owned(), device)].into())?;
/// let error = Speaker::check(&params, &OpenCx::default()).unwrap_err().to_string();
/// assert!(error.starts_with("device \"in the next room\": "));
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct Speaker {
    rate: SampleRate,
    channels: usize,
    /// Samples per channel that the device buffers.
    buffer_samples: usize,
    playback: Playback,
    playout: Playout,
    /// End of the last block; `None` before the first.
    last_end: Option<Timestamp>,
    /// Number of late blocks.
    late_blocks: u64,
    /// Next time at which `played` is sent.
    report_at: Timestamp,
}

ports! {
    impl Speaker {
        /// Audio to play, full scale ±1, at `rate`, with `channels` channels; the device clips it.
        in AUDIO: AudioBlock;
        /// Playback gain from now on.
        in GAIN: Gain, optional;
        /// Playback position, every 20 ms.
        out PLAYED: Played, optional;
        /// Audio as it is played, timestamped with the time at which it is heard: the echo
        /// reference of `aec`.
        out HEARD: AudioBlock, optional;
    }
}

impl Speaker {
    /// Time between two `played` packets.
    const REPORT_INTERVAL: Duration = Duration::from_millis(20);

    fn check_input(&self, block: &AudioBlock) -> Result<(), NodeError> {
        let (rate, channels) = (block.rate, block.channels());
        if (rate, channels) == (self.rate, self.channels) {
            return Ok(());
        }
        let reason = format!(
            "audio of {} Hz and {channels} channels for a device of {} Hz and {}; insert a resample \
             node, or set rate and channels",
            rate.0, self.rate.0, self.channels
        );
        Err(NodeError::InvalidInput { port: Self::AUDIO.name().into(), reason })
    }

    /// Fills the buffer of the device, and sends the playback position.
    fn play(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        self.playback.health()?;
        let queued = self.playback.queued();
        let missing = self.buffer_samples.saturating_sub(queued);
        let missing = missing.min(self.playout.waiting());
        let samples = self.playout.next(self.playout.position() + missing as u64);
        self.playback.write(samples);
        let at = cx.now() + self.rate.duration(queued);
        self.playout.send_heard(cx, Self::HEARD, at)?;
        self.report(cx);
        self.playout.call_again(cx);
        Ok(())
    }

    /// Sends the playback position, if it is due.
    fn report(&mut self, cx: &mut Cx<'_>) {
        let played = self.playout.position().saturating_sub(self.playback.queued() as u64);
        if cx.now() < self.report_at && self.playout.is_playing() {
            return;
        }
        self.report_at = cx.now() + Self::REPORT_INTERVAL;
        if let Some(played) = self.playout.played(played) {
            let now = cx.now();
            cx.send_at(Self::PLAYED, now, played);
        }
    }
}

impl Node for Speaker {
    type Params = SpeakerParams;

    const NAME: &'static str = "speaker";
    const SUMMARY: &'static str = "Plays audio on an output device.";
    const PORTS: &'static [Port] = Self::PORTS;
    // Other nodes must not delay the device.
    const WEIGHT: Weight = Weight::Heavy;
    const TIMED: bool = true;
    const HAS_EFFECTS: bool = true;
    const LATENCY: &'static str = "buffer, plus the latency of the device";

    fn check(params: &SpeakerParams, _: &OpenCx) -> Result<(), NodeError> {
        audio_device::check(&params.device, Direction::Playback)
    }

    fn open(params: SpeakerParams, _: &OpenCx) -> Result<Self, NodeError> {
        let (rate, channels) = (SampleRate(params.rate), params.channels);
        let buffer_samples = rate.samples(params.buffer).max(1);
        let playback = Playback::open(&StreamRequest {
            device: &params.device,
            direction: Direction::Playback,
            rate: rate.0,
            channels,
            // The fade is appended to the device buffer.
            buffer: buffer_samples + rate.samples(params.fade) + 1,
        })?;
        Ok(Self {
            rate,
            channels,
            buffer_samples,
            playback,
            playout: Playout::new(rate, channels, params.fade),
            last_end: None,
            late_blocks: 0,
            report_at: Timestamp::ZERO,
        })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if let Some(gain) = cx.get(Self::GAIN).copied() {
            self.playout.set_gain(gain);
        } else if let Some(block) = cx.get(Self::AUDIO) {
            self.check_input(block)?;
            let (at, length) = (cx.at(), block.duration());
            match self.last_end {
                None => self.playback.start()?,
                Some(end) if at.since(end) < length && !self.playout.is_playing() => {
                    self.late_blocks += 1;
                    warn_rarely(self.late_blocks, "audio arrived late at a speaker");
                }
                Some(_) => {}
            }
            self.last_end = Some(at + length);
            self.playout.push(at, block)?;
        }
        self.play(cx)
    }

    fn cancel(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if !self.playout.is_playing() {
            return Ok(());
        }
        let at = cx.now() + self.rate.duration(self.playback.queued());
        let fade = self.playout.flush();
        self.playback.write(fade);
        self.playout.send_heard(cx, Self::HEARD, at)?;
        // The position is reported at once.
        self.report_at = cx.now();
        self.report(cx);
        self.playout.call_again(cx);
        Ok(())
    }
}
