//! Echo reference: the loudspeaker audio, addressed by sample index.

use afferent_graph::{NodeError, Timestamp};
use afferent_messages::{AudioBlock, SampleRate};

use super::{Aec, RATE};
use crate::{
    polyphase::{PolyphaseFilter, StreamState, rates_error},
    timeline::{Timeline, is_contiguous, sample_index},
};

/// Most samples that are kept: one minute.
const MAX_SAMPLES: usize = 60 * RATE.0 as usize;

/// Amplitude up to which the reference is inaudible: -80 dBFS.
const SILENCE_LEVEL: f32 = 1e-4;

/// Loudspeaker audio at [`RATE`], one channel; gaps are silence.
#[derive(Default)]
pub(super) struct Reference {
    timeline: Timeline,
    stream: Option<Stream>,
    /// The last block, downmixed to one channel.
    mono: Vec<f32>,
    /// Resampled audio of the last block.
    resampled: Vec<f32>,
}

/// A contiguous part of the reference stream.
struct Stream {
    rate: SampleRate,
    /// `None` if the rate is [`RATE`].
    resampler: Option<(PolyphaseFilter, StreamState)>,
    next_at: Timestamp,
}

impl Reference {
    /// True if some of the `len` samples from `index` on are missing and may still arrive: the
    /// known reference ended at most `max_wait` samples earlier.
    pub(super) fn is_awaited(&self, index: i64, len: usize, max_wait: usize) -> bool {
        let since = index.saturating_sub(self.timeline.end());
        self.stream.is_some() && since > -(len as i64) && since <= max_wait as i64
    }

    /// Adds a block that is heard from `at` on. If it does not continue the block before it, it
    /// replaces the audio from `at` on.
    pub(super) fn push(&mut self, block: &AudioBlock, at: Timestamp) -> Result<(), NodeError> {
        let continues =
            |stream: &Stream| stream.rate == block.rate && is_contiguous(stream.next_at, at);
        if !self.stream.as_ref().is_some_and(continues) {
            self.end_stream();
            self.stream = Some(Stream::new(block.rate, at)?);
            self.timeline.move_end(sample_index(RATE, at), MAX_SAMPLES);
        }
        self.downmix(block)?;
        if let Some(stream) = &mut self.stream {
            stream.next_at = at + block.duration();
            if let Some((_, state)) = &mut stream.resampler {
                state.push(&self.mono);
            }
        }
        self.append();
        Ok(())
    }

    /// Copies the samples from index `from` on to `to`. Returns true if any of them is audible.
    pub(super) fn read(&self, from: i64, to: &mut [f32]) -> bool {
        let mut is_audible = false;
        for (sample, index) in to.iter_mut().zip(from..) {
            *sample = self.timeline.sample(index);
            is_audible |= sample.abs() > SILENCE_LEVEL;
        }
        is_audible
    }

    /// Discards the samples before `index`.
    pub(super) fn discard_before(&mut self, index: i64) {
        self.timeline.discard_before(index);
    }

    /// Sets `mono` to the mean of the channels.
    fn downmix(&mut self, block: &AudioBlock) -> Result<(), NodeError> {
        self.mono.clear();
        self.mono.resize(block.len(), 0.0);
        let share = 1.0 / block.channels().max(1) as f32;
        for channel in 0..block.channels() {
            let samples = self.mono.iter_mut().zip(block.channel(channel)?);
            samples.for_each(|(sum, sample)| *sum += share * AudioBlock::sanitized(*sample));
        }
        Ok(())
    }

    /// Appends the resampled audio that is ready.
    fn append(&mut self) {
        match self.stream.as_mut().and_then(|stream| stream.resampler.as_mut()) {
            Some((filter, state)) => {
                self.resampled.resize(state.ready(filter), 0.0);
                state.pull(filter, &mut self.resampled);
                self.timeline.extend(self.resampled.iter().copied(), MAX_SAMPLES);
            }
            None => self.timeline.extend(self.mono.iter().copied(), MAX_SAMPLES),
        }
    }

    /// Appends the tail of the resampler, and ends the stream.
    fn end_stream(&mut self) {
        let Some(stream) = &mut self.stream else { return };
        if let Some((filter, state)) = &mut stream.resampler {
            state.push_silence(filter);
            self.append();
        }
        self.stream = None;
    }
}

impl Stream {
    fn new(rate: SampleRate, at: Timestamp) -> Result<Self, NodeError> {
        if rate == RATE {
            return Ok(Self { rate, resampler: None, next_at: at });
        }
        let filter =
            if rate.0 == 0 { None } else { PolyphaseFilter::new(rate.0, RATE.0, 32, 100.0) };
        let filter = filter.ok_or_else(|| rates_error(Aec::REFERENCE, rate.0, RATE.0))?;
        let state = filter.state(1);
        Ok(Self { rate, resampler: Some((filter, state)), next_at: at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(rate: u32, samples: &[f32]) -> AudioBlock {
        let mut block = AudioBlock::default();
        let to = block.reshape(SampleRate(rate), 1, samples.len()).unwrap();
        to.copy_from_slice(samples);
        block
    }

    /// The first `len` samples of the session.
    fn read(reference: &Reference, len: usize) -> Vec<f32> {
        let mut samples = vec![9.0; len];
        reference.read(0, &mut samples);
        samples
    }

    #[test]
    fn gaps_are_silence_and_later_blocks_replace_the_audio_from_their_start_on() {
        let mut reference = Reference::default();
        reference.push(&block(16_000, &[1.0; 320]), Timestamp(0)).unwrap();
        reference.push(&block(16_000, &[2.0; 320]), Timestamp(40_000_000)).unwrap();
        let known = read(&reference, 1000);
        assert_eq!((known[319], known[320], known[639], known[640]), (1.0, 0.0, 0.0, 2.0));
        assert_eq!((known[959], known[960], reference.timeline.end()), (2.0, 0.0, 960));

        reference.push(&block(16_000, &[3.0; 16]), Timestamp(10_000_000)).unwrap();
        let known = read(&reference, 1000);
        assert_eq!((known[159], known[160], known[175], known[176]), (1.0, 3.0, 3.0, 0.0));
        assert_eq!(reference.timeline.end(), 176);

        reference.discard_before(170);
        assert_eq!(read(&reference, 176)[169..=170], [0.0, 3.0]);
        reference.push(&block(16_000, &[4.0; 4]), Timestamp(-1_000_000)).unwrap();
        assert_eq!(
            (reference.timeline.first(), reference.timeline.end()),
            (-16, -12),
            "a block before all known audio replaces everything"
        );
    }

    #[test]
    fn other_rates_and_channels_are_aligned_by_their_timestamps() {
        let mut reference = Reference::default();
        let mut stereo = AudioBlock::default();
        for at in 0..4 {
            let samples = stereo.reshape(SampleRate(24_000), 2, 480).unwrap();
            samples[..480].fill(0.75);
            samples[480..].fill(0.25);
            // A timestamp offset below the tolerance is not a gap.
            reference.push(&stereo, Timestamp(20_000_000 * (at + 1) + 3_000_000)).unwrap();
        }
        let known = read(&reference, 1648);
        assert!(known[..300].iter().all(|x| x.abs() < 1e-3) && known[367].abs() < 0.05);
        assert!(known[450..1500].iter().all(|x| (x - 0.5).abs() < 1e-3));
        assert!((1600..=1648).contains(&reference.timeline.end()), "{}", reference.timeline.end());
    }

    #[test]
    fn unsupported_rates_are_rejected() {
        for rate in [0, 47_999_999] {
            let error = Reference::default().push(&block(rate, &[0.0]), Timestamp(0));
            let error = error.unwrap_err().to_string();
            assert!(error.contains(&format!("cannot resample {rate} Hz to 16000 Hz")), "{error}");
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut reference = Reference::default();
        let mut at = Timestamp(0);
        for _ in 0..70 {
            reference.push(&block(16_000, &[0.5; 16_000]), at).unwrap();
            at = Timestamp(at.0 + 1_000_000_000);
        }
        assert_eq!(
            (reference.timeline.first(), reference.timeline.end()),
            (10 * 16_000, 70 * 16_000)
        );
    }
}
