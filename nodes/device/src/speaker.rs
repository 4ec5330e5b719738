//! Sound to a loudspeaker.

use std::{
    thread,
    time::{Duration, Instant},
};

use afferent_graph::{
    AudioBlock, Cx, In, Node, NodeError, OpenCx, Port, SampleRate, Timestamp, Weight, params,
};

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
        /// Sound that waits to be played; what comes when it is full is dropped.
        pub buffer: Duration = "30s", range 0.02..=600.0;
    }
}

/// Plays sound.
///
/// | port    | type         | unit                   | rate                     |
/// |---------|--------------|------------------------|--------------------------|
/// | `audio` | `AudioBlock` | full scale ±1, clipped by the device | `rate`, with `channels` channels |
///
/// Latency: what waits in the buffer, and what the device needs.
///
/// Needs the feature `audio-device`. A node does not wait while it handles a packet, so sound
/// that comes faster than it is played, such as synthetic speech, waits in a buffer of length
/// `buffer`; what does not fit is dropped and logged. Sound is played in the order in which it
/// comes, whatever its time. An interrupt drops what still waits at once. Sound that comes late,
/// after the block before it was played to its end, is logged as well. When the stream ends, the
/// node waits until all is played.
///
/// ```
/// use std::time::Duration;
///
/// use afferent_graph::{Node, OpenCx};
/// use afferent_nodes_device::{Speaker, SpeakerParams};
///
/// let (device, buffer) = ("in the next room".to_owned(), Duration::from_secs(1));
/// let params = SpeakerParams { device, rate: 24_000, channels: 1, buffer };
/// let error = Speaker::check(&params, &OpenCx::default()).unwrap_err().to_string();
/// assert!(error.starts_with("device \"in the next room\": "));
/// ```
pub struct Speaker {
    rate: SampleRate,
    channels: usize,
    playback: Playback,
    /// When the last block ended; `None` before the first.
    last_end: Option<Timestamp>,
    /// How often sound came late, and how often it found no room.
    late: u64,
    dropped: u64,
    /// Channel by channel for each time.
    interleaved: Vec<f32>,
}

impl Speaker {
    /// Sound in.
    pub const AUDIO: In<AudioBlock> = In::new("audio");

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
        Err(NodeError::InvalidInput { port: Self::AUDIO.name(), reason })
    }

    /// Waits until everything is played, unless the device has stopped playing or an interrupt
    /// drops what waits.
    fn drain(&mut self, cx: &Cx<'_>) -> Result<(), NodeError> {
        let (mut queued, mut since) = (self.playback.queued(), Instant::now());
        while queued > 0 && since.elapsed() < Duration::from_secs(1) {
            self.playback.health()?;
            if cx.cancelled() {
                self.playback.flush();
                return Ok(());
            }
            thread::sleep(Duration::from_millis(5));
            let left = self.playback.queued();
            if left < queued {
                (queued, since) = (left, Instant::now());
            }
        }
        Ok(())
    }
}

impl Node for Speaker {
    type Params = SpeakerParams;

    const NAME: &'static str = "speaker";
    const SUMMARY: &'static str = "Plays sound.";
    const PORTS: &'static [Port] =
        &[Self::AUDIO.port().help("full scale ±1, rate and channels of the device")];
    // It waits at the end, which must not hold up others.
    const WEIGHT: Weight = Weight::Heavy;
    const LATENCY: &'static str = "what waits in the buffer, and what the device needs";

    fn check(params: &SpeakerParams, _: &OpenCx) -> Result<(), NodeError> {
        sound::check(&params.device, Direction::Playback)
    }

    fn open(params: SpeakerParams, _: &OpenCx) -> Result<Self, NodeError> {
        let (rate, channels) = (SampleRate(params.rate), params.channels);
        let playback = Playback::open(&Request {
            device: &params.device,
            direction: Direction::Playback,
            rate: rate.0,
            channels,
            buffer: rate.samples(params.buffer).max(1),
        })?;
        let (last_end, late, dropped) = (None, 0, 0);
        let interleaved = Vec::new();
        Ok(Self { rate, channels, playback, last_end, late, dropped, interleaved })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(block) = cx.get(Self::AUDIO) else { return Ok(()) };
        self.check_input(block)?;
        self.playback.health()?;
        let (at, length) = (cx.at(), block.duration());
        match self.last_end {
            None => self.playback.start()?,
            Some(end) if at.since(end) < length && self.playback.queued() == 0 => {
                self.late += 1;
                log(self.late, "sound came late to a speaker");
            }
            Some(_) => {}
        }
        self.last_end = Some(at + length);
        let samples = block.samples.data::<f32>()?;
        self.interleaved.clear();
        for time in 0..block.len() {
            self.interleaved.extend(samples.iter().skip(time).step_by(block.len()));
        }
        if self.playback.write(&self.interleaved) < block.len() {
            self.dropped += 1;
            log(self.dropped, "the buffer of a speaker was full; give it a longer one");
        }
        Ok(())
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        self.drain(cx)
    }

    fn cancel(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        self.playback.flush();
        Ok(())
    }
}
