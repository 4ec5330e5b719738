//! Playout: audio between packets and an output device.

use std::{collections::VecDeque, time::Duration};

use afferent_core::Error;

use crate::{AudioBlock, Cdr, CdrMessage, SampleRate};
use afferent_graph::{Cx, Field, Out, Payload, RecordCodec, Timestamp, WireCodec};

/// Gain of the playout from now on.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Gain {
    /// Gain in decibels; 0 leaves the sound unchanged.
    pub decibels: f32,
}

impl Payload for Gain {
    const TYPE: &'static str = "audio/Gain";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const WIRE: Option<&'static dyn WireCodec> = Some(&Cdr::<Self>::NEW);

    fn fields(&self) -> Vec<(&'static str, Field)> {
        vec![("gain_db", Field::Number(f64::from(self.decibels)))]
    }
}

impl CdrMessage for Gain {
    const MESSAGE: &'static str = "afferent_msgs/msg/Gain";
    const SCHEMA: &'static str = "float32 decibels\n";
    type Wire = (f32,);

    fn to_wire(&self) -> Self::Wire {
        (self.decibels,)
    }

    fn from_wire((decibels,): Self::Wire) -> Result<Self, String> {
        Ok(Self { decibels })
    }
}

/// Playout progress of an audio stream. The timestamp of the packet is the time of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Played {
    /// Stream time up to which audio was played or discarded.
    pub until: Timestamp,
    /// True if more audio is queued or in the device.
    pub is_playing: bool,
}

impl Payload for Played {
    const TYPE: &'static str = "audio/Played";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const WIRE: Option<&'static dyn WireCodec> = Some(&Cdr::<Self>::NEW);

    fn fields(&self) -> Vec<(&'static str, Field)> {
        vec![("until_ns", Field::Int(self.until.0)), ("is_playing", Field::Bool(self.is_playing))]
    }
}

impl CdrMessage for Played {
    const MESSAGE: &'static str = "afferent_msgs/msg/Played";
    const SCHEMA: &'static str = "int64 until_ns\nbool is_playing\n";
    type Wire = (i64, bool);

    fn to_wire(&self) -> Self::Wire {
        (self.until.0, self.is_playing)
    }

    fn from_wire((until, is_playing): Self::Wire) -> Result<Self, String> {
        Ok(Self { until: Timestamp(until), is_playing })
    }
}

/// Queue between the packets of an audio sink and its output device.
///
/// Audio stays in the queue until shortly before it is audible. An interrupt can therefore discard
/// everything except the few milliseconds that the device already holds, which are followed by a
/// short fade-out. Positions count the samples per channel that the device has played or will play,
/// including silence. Samples are interleaved.
#[derive(Debug)]
pub struct Playout {
    rate: SampleRate,
    channels: usize,
    /// Length of fade-outs and gain ramps, in samples per channel.
    fade: usize,
    waiting: VecDeque<f32>,
    /// Queued segments: stream time and number of samples per channel.
    stamps: VecDeque<(Timestamp, usize)>,
    /// Segments in the device that were not played yet: device position, stream time, and number of
    /// samples per channel.
    pieces: VecDeque<(u64, Timestamp, usize)>,
    /// Device position of the next sample.
    position: u64,
    gain: f32,
    wanted_gain: f32,
    /// Samples of the last call of [`Playout::next`] or [`Playout::flush`].
    samples: Vec<f32>,
}

impl Playout {
    /// Period at which the device is filled.
    const DEVICE_PERIOD: Duration = Duration::from_millis(10);
    /// Queued duration above which the sink accepts no more packets.
    const MAX_QUEUED: Duration = Duration::from_secs(30);

    /// Creates an empty queue for audio of this rate and number of channels.
    pub fn new(rate: SampleRate, channels: usize, fade: Duration) -> Self {
        Self {
            rate,
            channels: channels.max(1),
            fade: rate.samples(fade).max(1),
            waiting: VecDeque::new(),
            stamps: VecDeque::new(),
            pieces: VecDeque::new(),
            position: 0,
            gain: 1.0,
            wanted_gain: 1.0,
            samples: Vec::new(),
        }
    }

    /// Device position of the next sample.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Number of queued samples per channel.
    pub fn waiting(&self) -> usize {
        self.waiting.len() / self.channels
    }

    /// Appends a block of stream time `at`. It must have the rate and channels of the queue.
    ///
    /// # Errors
    /// If the tensor of the block is not of `f32`.
    pub fn push(&mut self, at: Timestamp, block: &AudioBlock) -> Result<(), Error> {
        let (samples, len) = (block.samples.data::<f32>()?, block.len());
        if len == 0 {
            return Ok(());
        }
        self.waiting.extend((0..len).flat_map(|time| samples.iter().skip(time).step_by(len)));
        self.stamps.push_back((at, len));
        Ok(())
    }

    /// Sends the samples that were last dequeued on `port`. They are audible from `at`.
    ///
    /// # Errors
    /// If the size overflows.
    pub fn send_heard(
        &self,
        cx: &mut Cx<'_>,
        port: Out<AudioBlock>,
        at: Timestamp,
    ) -> Result<(), Error> {
        let len = self.samples.len() / self.channels;
        if len == 0 {
            return Ok(());
        }
        let mut block = cx.loan(port);
        let to = block.reshape(self.rate, self.channels, len)?;
        for (channel, to) in to.chunks_exact_mut(len).enumerate() {
            let from = self.samples.iter().skip(channel).step_by(self.channels);
            to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        }
        cx.send_at(port, at, block);
        Ok(())
    }

    /// Sets the gain of samples dequeued from now on. A gain that is not finite is ignored.
    pub fn set_gain(&mut self, gain: Gain) {
        let wanted = 10.0_f32.powf(gain.decibels / 20.0);
        if wanted.is_finite() {
            self.wanted_gain = wanted;
        }
    }

    /// Dequeues samples up to device position `until`, padded with silence.
    pub fn next(&mut self, until: u64) -> &[f32] {
        let wanted = usize::try_from(until.saturating_sub(self.position)).unwrap_or(0);
        self.samples.clear();
        let sound = wanted.min(self.waiting());
        self.move_to_device(sound);
        let step = 1.0 / self.fade as f32;
        for time in self.samples.chunks_exact_mut(self.channels) {
            self.gain += (self.wanted_gain - self.gain).clamp(-step, step);
            time.iter_mut().for_each(|sample| *sample *= self.gain);
        }
        self.samples.resize(wanted * self.channels, 0.0);
        self.position += (wanted - sound) as u64;
        &self.samples
    }

    /// Discards the queue. Returns a short fade-out to append to the samples in the device.
    pub fn flush(&mut self) -> &[f32] {
        self.samples.clear();
        let fade = self.fade.min(self.waiting());
        self.move_to_device(fade);
        for (number, time) in self.samples.chunks_exact_mut(self.channels).enumerate() {
            let left = (fade - number) as f32 / (fade + 1) as f32;
            time.iter_mut().for_each(|sample| *sample *= left * self.gain);
        }
        self.waiting.clear();
        self.stamps.clear();
        &self.samples
    }

    /// Moves `count` samples per channel from the queue to the device.
    fn move_to_device(&mut self, count: usize) {
        self.samples.extend(self.waiting.drain(..count * self.channels));
        let mut left = count;
        while let Some((at, samples)) = self.stamps.front_mut().filter(|_| left > 0) {
            let taken = left.min(*samples);
            self.pieces.push_back((self.position, *at, taken));
            self.position += taken as u64;
            left -= taken;
            *samples -= taken;
            *at = *at + self.rate.duration(taken);
            if *samples == 0 {
                self.stamps.pop_front();
            }
        }
    }

    /// Playout progress when the device has played up to `position`, or `None` if nothing was
    /// played since the last call.
    pub fn played(&mut self, position: u64) -> Option<Played> {
        let mut until = None;
        while let Some((start, at, samples)) = self.pieces.front_mut() {
            let heard = position.saturating_sub(*start).min(*samples as u64);
            if heard == 0 {
                break;
            }
            // `heard` is at most `samples`.
            let heard = usize::try_from(heard).unwrap_or(*samples);
            *at = *at + self.rate.duration(heard);
            until = Some(*at);
            (*start, *samples) = (*start + heard as u64, *samples - heard);
            if *samples > 0 {
                break;
            }
            self.pieces.pop_front();
        }
        until.map(|until| Played { until, is_playing: self.is_playing() })
    }

    /// Schedules the next call of the sink. While too much audio is queued, the sink accepts no
    /// packets on any input, so backpressure reaches the upstream nodes.
    pub fn call_again(&self, cx: &mut Cx<'_>) {
        let next = cx.now() + Self::DEVICE_PERIOD;
        if self.rate.duration(self.waiting()) > Self::MAX_QUEUED {
            cx.resume_at(next);
        } else if self.is_playing() {
            cx.wake_at(next);
        }
    }

    /// True if there is audio that was not played yet.
    pub fn is_playing(&self) -> bool {
        !self.pieces.is_empty() || !self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue at 1 kHz, where a sample lasts 1 ms. Fades take 4 ms.
    fn playout(channels: usize) -> Playout {
        Playout::new(SampleRate(1000), channels, Duration::from_millis(4))
    }

    fn ms(ms: i64) -> Timestamp {
        Timestamp(ms * 1_000_000)
    }

    fn block(channels: usize, samples: &[f32]) -> AudioBlock {
        let mut block = AudioBlock::default();
        let len = samples.len() / channels;
        block.reshape(SampleRate(1000), channels, len).unwrap().copy_from_slice(samples);
        block
    }

    #[test]
    fn gaps_are_filled_with_silence() {
        let mut playout = playout(1);
        assert_eq!(playout.next(2), [0.0, 0.0]);
        playout.push(ms(100), &block(1, &[1.0, 2.0, 3.0])).unwrap();
        playout.push(ms(200), &block(1, &[4.0, 5.0])).unwrap();
        assert_eq!(playout.next(6), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(playout.next(6), [0.0; 0]);
        assert_eq!(playout.next(8), [5.0, 0.0]);
        assert_eq!(playout.played(2), None);
        let heard = |until, is_playing| Some(Played { until: ms(until), is_playing });
        assert_eq!(playout.played(4), heard(102, true));
        assert_eq!(playout.played(6), heard(201, true));
        assert_eq!(playout.played(7), heard(202, false));
        assert_eq!(playout.played(8), None);
        assert!(!playout.is_playing());
    }

    #[test]
    fn flush_fades_out_and_discards_the_rest() {
        let mut playout = playout(2);
        playout.push(ms(0), &block(2, &[1.0; 40])).unwrap();
        assert_eq!(playout.next(10), [1.0; 20]);
        let fade: Vec<f32> = [0.8, 0.6, 0.4, 0.2].iter().flat_map(|level| [*level; 2]).collect();
        let faded = playout.flush().to_vec();
        assert!(faded.iter().zip(&fade).all(|(a, b)| (a - b).abs() < 1e-6) && faded.len() == 8);
        assert_eq!((playout.waiting(), playout.position()), (0, 14));
        assert_eq!(playout.played(11), Some(Played { until: ms(11), is_playing: true }));
        assert_eq!(playout.played(50), Some(Played { until: ms(14), is_playing: false }));
        assert_eq!(playout.next(16), [0.0; 4]);
        assert_eq!(playout.flush(), [0.0; 0]);
    }

    #[test]
    fn an_empty_block_is_ignored() {
        let mut playout = playout(2);
        playout.push(ms(0), &block(2, &[])).unwrap();
        assert!(!playout.is_playing());
        playout.push(ms(0), &block(2, &[1.0; 8])).unwrap();
        playout.push(ms(4), &block(2, &[])).unwrap();
        playout.next(4);
        assert_eq!(playout.played(4), Some(Played { until: ms(4), is_playing: false }));
    }

    #[test]
    fn gain_changes_are_ramped() {
        let mut playout = playout(1);
        playout.set_gain(Gain { decibels: -120.0 });
        for decibels in [f32::NAN, f32::INFINITY, 1e4] {
            playout.set_gain(Gain { decibels });
        }
        playout.push(ms(0), &block(1, &[1.0; 8])).unwrap();
        let played = playout.next(8).to_vec();
        let expected = [0.75, 0.5, 0.25, 0.0, 0.0, 0.0, 0.0, 0.0];
        assert!(played.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5), "{played:?}");
    }
}
