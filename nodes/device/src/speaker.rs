//! Sound to a loudspeaker.

use std::time::Duration;

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, Weight, params, ports};
use afferent_messages::{AudioBlock, Gain, Played, Playout, SampleRate};

use crate::{
    Direction, Request, log,
    sound::{self, Playback},
};

params! {
    /// Settings of [`Speaker`].
    pub struct SpeakerParams {
        /// Name of the device as the system has it; on Linux that of an ALSA PCM.
        pub device: String = "default";
        /// Sample rate.
        pub rate: u32 = "24000", range 1000.0..=768000.0, unit "Hz";
        /// Number of channels.
        pub channels: usize = "1", range 1.0..=64.0;
        /// Sound that is handed to the device ahead of time; an interrupt cannot take it back.
        pub buffer: Duration = "40ms", range 0.02..=10.0;
        /// How long interrupted sound takes to fade out.
        pub fade: Duration = "8ms", range 0.0..=1.0;
    }
}

/// Plays sound.
///
/// Latency: `buffer`, and what the device needs.
///
/// Needs the feature `audio-device`. Sound that comes faster than it is played, such as synthetic
/// speech, waits here; of more than half a minute, whoever makes it waits, and `gain` comes late
/// too. Sound is played in the order in which it comes, whatever its time. After an interrupt the
/// device plays what it has and fades out within `fade`; the rest is never heard. Sound that comes
/// late, after the block before it was played to its end, is logged. When the stream ends, the node
/// waits until all is played.
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
    /// Samples of a channel that the device has ahead of time.
    buffer: usize,
    playback: Playback,
    playout: Playout,
    /// When the last block ended; `None` before the first.
    last_end: Option<Timestamp>,
    /// How often sound came late.
    late: u64,
    /// When `played` is told next.
    tell_at: Timestamp,
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
    /// How often `played` is told.
    const TELL: Duration = Duration::from_millis(20);

    fn check_input(&self, block: &AudioBlock) -> Result<(), NodeError> {
        let (rate, channels) = (block.rate, block.channels());
        if (rate, channels) == (self.rate, self.channels) {
            return Ok(());
        }
        let reason = format!(
            "sound of {} Hz and {channels} channels for a device of {} Hz and {}; put a resample \
             node before it, or set rate and channels",
            rate.0, self.rate.0, self.channels
        );
        Err(NodeError::InvalidInput { port: Self::AUDIO.name().into(), reason })
    }

    /// Gives the device what it should have ahead of time, and tells how much was heard.
    fn play(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        self.playback.health()?;
        let queued = self.playback.queued();
        let room = self.buffer.saturating_sub(queued).min(self.playout.waiting());
        let samples = self.playout.next(self.playout.position() + room as u64);
        self.playback.write(samples);
        let at = cx.now() + self.rate.duration(queued);
        self.playout.send_heard(cx, Self::HEARD, at)?;
        self.tell(cx);
        self.playout.call_again(cx);
        Ok(())
    }

    fn tell(&mut self, cx: &mut Cx<'_>) {
        let played = self.playout.position().saturating_sub(self.playback.queued() as u64);
        if cx.now() < self.tell_at && self.playout.is_playing() {
            return;
        }
        self.tell_at = cx.now() + Self::TELL;
        if let Some(played) = self.playout.played(played) {
            let now = cx.now();
            cx.send_at(Self::PLAYED, now, played);
        }
    }
}

impl Node for Speaker {
    type Params = SpeakerParams;

    const NAME: &'static str = "speaker";
    const SUMMARY: &'static str = "Plays sound.";
    const PORTS: &'static [Port] = Self::PORTS;
    // The device must not wait for others.
    const WEIGHT: Weight = Weight::Heavy;
    const TIMED: bool = true;
    const LATENCY: &'static str = "buffer, and what the device needs";

    fn check(params: &SpeakerParams, _: &OpenCx) -> Result<(), NodeError> {
        sound::check(&params.device, Direction::Playback)
    }

    fn open(params: SpeakerParams, _: &OpenCx) -> Result<Self, NodeError> {
        let (rate, channels) = (SampleRate(params.rate), params.channels);
        let buffer = rate.samples(params.buffer).max(1);
        let playback = Playback::open(&Request {
            device: &params.device,
            direction: Direction::Playback,
            rate: rate.0,
            channels,
            // The fade goes behind what the device has.
            buffer: buffer + rate.samples(params.fade) + 1,
        })?;
        Ok(Self {
            rate,
            channels,
            buffer,
            playback,
            playout: Playout::new(rate, channels, params.fade),
            last_end: None,
            late: 0,
            tell_at: Timestamp::ZERO,
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
                    self.late += 1;
                    log(self.late, "sound came late to a speaker");
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
        // What was heard until now is told at once.
        self.tell_at = cx.now();
        self.tell(cx);
        self.playout.call_again(cx);
        Ok(())
    }
}
