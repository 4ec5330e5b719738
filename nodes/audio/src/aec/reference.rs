//! What the loudspeaker plays, by its place on the clock.

use afferent_graph::{NodeError, Timestamp};
use afferent_messages::{AudioBlock, SampleRate};

use super::{Aec, RATE};
use crate::{
    polyphase::{Filter, Stream},
    timeline::{Timeline, follows, place},
};

/// More than this is not kept; the oldest is forgotten.
const KEPT: usize = 60 * RATE.0 as usize;

/// What is not louder than this, -80 dBFS, has no echo.
const SILENCE: f32 = 1e-4;

/// Sound of the loudspeaker at [`RATE`], one channel; silence where there is none.
#[derive(Default)]
pub(super) struct Reference {
    line: Timeline,
    stream: Option<Running>,
    /// One channel of a block.
    mono: Vec<f32>,
    /// At the rate of the canceller.
    resampled: Vec<f32>,
}

/// Blocks that follow each other.
struct Running {
    rate: SampleRate,
    /// `None` where the rates are equal.
    resampler: Option<(Filter, Stream)>,
    next_at: Timestamp,
}

impl Reference {
    /// Whether some of the `len` samples from `place` on are not known, but ended no more than `wait`
    /// samples ago, so that more may come.
    pub(super) fn is_awaited(&self, place: i64, len: usize, wait: usize) -> bool {
        let since = place.saturating_sub(self.line.end());
        self.stream.is_some() && since > -(len as i64) && since <= wait as i64
    }

    /// Adds a block that is audible from `at`. What was to be heard behind `at` is replaced where
    /// the block does not follow the one before.
    pub(super) fn push(&mut self, block: &AudioBlock, at: Timestamp) -> Result<(), NodeError> {
        let goes_on =
            |running: &Running| running.rate == block.rate && follows(running.next_at, at);
        if !self.stream.as_ref().is_some_and(goes_on) {
            self.end_stream();
            self.stream = Some(Running::new(block.rate, at)?);
            self.line.move_end(place(RATE, at), KEPT);
        }
        self.mix(block)?;
        if let Some(running) = &mut self.stream {
            running.next_at = at + block.duration();
            if let Some((_, stream)) = &mut running.resampler {
                stream.push(&self.mono);
            }
        }
        self.append();
        Ok(())
    }

    /// Writes the samples from the place `from` on to `to`; returns whether any of them sounds.
    pub(super) fn read(&self, from: i64, to: &mut [f32]) -> bool {
        let mut sounds = false;
        for (sample, place) in to.iter_mut().zip(from..) {
            *sample = self.line.sample(place);
            sounds |= sample.abs() > SILENCE;
        }
        sounds
    }

    /// Forgets what lies before `place`.
    pub(super) fn forget(&mut self, place: i64) {
        self.line.forget(place);
    }

    /// The mean of the channels.
    fn mix(&mut self, block: &AudioBlock) -> Result<(), NodeError> {
        self.mono.clear();
        self.mono.resize(block.len(), 0.0);
        let share = 1.0 / block.channels().max(1) as f32;
        for channel in 0..block.channels() {
            let samples = self.mono.iter_mut().zip(block.channel(channel)?);
            samples.for_each(|(sum, sample)| *sum += share * AudioBlock::heard(*sample));
        }
        Ok(())
    }

    /// Adds what the last block of the stream made ready.
    fn append(&mut self) {
        match self.stream.as_mut().and_then(|running| running.resampler.as_mut()) {
            Some((filter, stream)) => {
                self.resampled.resize(stream.ready(filter), 0.0);
                stream.pull(filter, &mut self.resampled);
                self.line.extend(self.resampled.iter().copied(), KEPT);
            }
            None => self.line.extend(self.mono.iter().copied(), KEPT),
        }
    }

    /// Adds what the resampler holds back.
    fn end_stream(&mut self) {
        let Some(running) = &mut self.stream else { return };
        if let Some((filter, stream)) = &mut running.resampler {
            stream.push_silence(filter);
            self.append();
        }
        self.stream = None;
    }
}

impl Running {
    fn new(rate: SampleRate, at: Timestamp) -> Result<Self, NodeError> {
        if rate == RATE {
            return Ok(Self { rate, resampler: None, next_at: at });
        }
        let filter = if rate.0 == 0 { None } else { Filter::new(rate.0, RATE.0, 32, 100.0) };
        let filter = filter.ok_or_else(|| {
            let reason = format!(
                "sound of {} Hz cannot be brought to {} Hz: the rates need a common divisor",
                rate.0, RATE.0
            );
            NodeError::InvalidInput { port: Aec::REFERENCE.name().into(), reason }
        })?;
        let stream = filter.stream(1);
        Ok(Self { rate, resampler: Some((filter, stream)), next_at: at })
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

    /// What is known of the first `len` samples of the session.
    fn read(reference: &Reference, len: usize) -> Vec<f32> {
        let mut samples = vec![9.0; len];
        reference.read(0, &mut samples);
        samples
    }

    #[test]
    fn gaps_are_silence_and_later_blocks_replace_what_was_to_come() {
        let mut reference = Reference::default();
        reference.push(&block(16_000, &[1.0; 320]), Timestamp(0)).unwrap();
        reference.push(&block(16_000, &[2.0; 320]), Timestamp(40_000_000)).unwrap();
        let known = read(&reference, 1000);
        assert_eq!((known[319], known[320], known[639], known[640]), (1.0, 0.0, 0.0, 2.0));
        assert_eq!((known[959], known[960], reference.line.end()), (2.0, 0.0, 960));

        reference.push(&block(16_000, &[3.0; 16]), Timestamp(10_000_000)).unwrap();
        let known = read(&reference, 1000);
        assert_eq!((known[159], known[160], known[175], known[176]), (1.0, 3.0, 3.0, 0.0));
        assert_eq!(reference.line.end(), 176);

        reference.forget(170);
        assert_eq!(read(&reference, 176)[169..=170], [0.0, 3.0]);
        reference.push(&block(16_000, &[4.0; 4]), Timestamp(-1_000_000)).unwrap();
        assert_eq!(
            (reference.line.first(), reference.line.end()),
            (-16, -12),
            "before all that is known"
        );
    }

    #[test]
    fn other_rates_and_channels_lie_where_their_time_stamps_say() {
        let mut reference = Reference::default();
        let mut stereo = AudioBlock::default();
        for at in 0..4 {
            let samples = stereo.reshape(SampleRate(24_000), 2, 480).unwrap();
            samples[..480].fill(0.75);
            samples[480..].fill(0.25);
            // Time stamps that are off by less than the tolerance are no gap.
            reference.push(&stereo, Timestamp(20_000_000 * (at + 1) + 3_000_000)).unwrap();
        }
        let known = read(&reference, 1648);
        assert!(known[..300].iter().all(|x| x.abs() < 1e-3) && known[367].abs() < 0.05);
        assert!(known[450..1500].iter().all(|x| (x - 0.5).abs() < 1e-3));
        assert!((1600..=1648).contains(&reference.line.end()), "{}", reference.line.end());
    }

    #[test]
    fn odd_rates_are_refused() {
        for rate in [0, 47_999_999] {
            let error = Reference::default().push(&block(rate, &[0.0]), Timestamp(0));
            let error = error.unwrap_err().to_string();
            assert!(error.contains("cannot be brought to 16000 Hz"), "{error}");
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
        assert_eq!((reference.line.first(), reference.line.end()), (10 * 16_000, 70 * 16_000));
    }
}
