//! Sample positions by timestamp, and streams that are processed in pieces.

use std::{collections::VecDeque, time::Duration};

use afferent_graph::{Cx, NodeError, Out, Timestamp};
use afferent_messages::{AudioBlock, SampleRate};

/// Largest difference between a timestamp and the end of the audio before it that is not a gap or a
/// jump.
pub(crate) const TIMESTAMP_TOLERANCE: Duration = Duration::from_millis(10);

/// True if a block at `at` continues a stream whose next sample is expected at `expected`.
pub(crate) fn is_contiguous(expected: Timestamp, at: Timestamp) -> bool {
    expected.since(at).max(at.since(expected)) <= TIMESTAMP_TOLERANCE
}

/// Index of the sample at `at`, counted from the start of the session, rounded to the nearest.
pub(crate) fn sample_index(rate: SampleRate, at: Timestamp) -> i64 {
    let samples = i128::from(at.0) * i128::from(rate.0) + 500_000_000;
    let index = samples.div_euclid(1_000_000_000);
    i64::try_from(index).unwrap_or(if index < 0 { i64::MIN / 2 } else { i64::MAX / 2 })
}

/// Timestamp of the sample at `index`.
pub(crate) fn sample_time(rate: SampleRate, index: i64) -> Timestamp {
    let nanos = i128::from(index) * 1_000_000_000 / i128::from(rate.0.max(1));
    Timestamp(i64::try_from(nanos).unwrap_or(i64::MAX))
}

/// A contiguous range of samples of one channel, addressed by sample index.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    samples: VecDeque<f32>,
    /// Index of the first sample.
    first: i64,
}

impl Timeline {
    /// Index of the first sample.
    pub(crate) fn first(&self) -> i64 {
        self.first
    }

    /// Index after the last sample.
    pub(crate) fn end(&self) -> i64 {
        self.first + self.samples.len() as i64
    }

    /// Appends samples, and discards the oldest of more than `max_len`.
    pub(crate) fn extend(&mut self, samples: impl Iterator<Item = f32>, max_len: usize) {
        self.samples.extend(samples);
        let excess = self.samples.len().saturating_sub(max_len);
        self.discard_before(self.first + excess as i64);
    }

    /// Moves the end to `end`: discards the samples from there on, or fills the gap with silence.
    /// If the gap is longer than `max_gap` samples, or no sample is known before `end`, the
    /// timeline becomes empty and begins at `end`.
    pub(crate) fn move_end(&mut self, end: i64, max_gap: usize) {
        let is_within = end >= self.first
            && !self.samples.is_empty()
            && end.saturating_sub(self.end()) <= max_gap as i64;
        match usize::try_from(end.saturating_sub(self.first)) {
            Ok(len) if is_within => self.samples.resize(len, 0.0),
            _ => {
                self.samples.clear();
                self.first = end;
            }
        }
    }

    /// Discards the samples before `index`.
    pub(crate) fn discard_before(&mut self, index: i64) {
        let count = usize::try_from(index.saturating_sub(self.first)).unwrap_or(0);
        let count = count.min(self.samples.len());
        self.samples.drain(..count);
        self.first += count as i64;
    }

    /// The sample at `index`; silence outside the known range.
    pub(crate) fn sample(&self, index: i64) -> f32 {
        let offset = usize::try_from(index.saturating_sub(self.first)).ok();
        offset.and_then(|offset| self.samples.get(offset)).copied().unwrap_or(0.0)
    }
}

/// A contiguous part of a stream. It sends exactly as many samples as it received.
#[derive(Debug)]
pub(crate) struct Segment {
    rate: SampleRate,
    /// Samples per channel that were received and sent.
    received: usize,
    sent: usize,
    /// Timestamp of the first sample, derived from the last block.
    start: Timestamp,
    /// Expected timestamp of the next sample.
    next_at: Timestamp,
}

impl Segment {
    /// A segment that begins at `at`.
    pub(crate) fn new(rate: SampleRate, at: Timestamp) -> Self {
        Self { rate, received: 0, sent: 0, start: at, next_at: at }
    }

    /// True if a block at `at` continues the segment.
    pub(crate) fn continues_at(&self, at: Timestamp) -> bool {
        is_contiguous(self.next_at, at)
    }

    /// Counts a received block.
    pub(crate) fn receive(&mut self, block: &AudioBlock, at: Timestamp) {
        self.start = at - self.rate.duration(self.received);
        self.next_at = at + block.duration();
        self.received += block.len();
    }

    /// Timestamp of the first sample.
    pub(crate) fn start(&self) -> Timestamp {
        self.start
    }

    /// Sends `output`, one channel, by `port`, at most as many samples as were received, and clears
    /// it.
    pub(crate) fn send(
        &mut self,
        cx: &mut Cx<'_>,
        port: Out<AudioBlock>,
        output: &mut Vec<f32>,
    ) -> Result<(), NodeError> {
        let (len, at) = self.next_output(output.len());
        if len > 0 {
            let mut block = cx.loan(port);
            block.reshape(self.rate, 1, len)?.copy_from_slice(&output[..len]);
            cx.send_at(port, at, block);
        }
        output.clear();
        Ok(())
    }

    /// Sends the remaining `output`. If the next segment begins at `next`, before that output, the
    /// clock of the stream has restarted; the output is dropped, since timestamps must not
    /// decrease.
    pub(crate) fn finish(
        mut self,
        cx: &mut Cx<'_>,
        port: Out<AudioBlock>,
        output: &mut Vec<f32>,
        next: Timestamp,
    ) -> Result<(), NodeError> {
        if next < self.start + self.rate.duration(self.sent) {
            output.clear();
        }
        self.send(cx, port, output)
    }

    /// Number of samples to send of `available` ones, and the timestamp of the first.
    fn next_output(&mut self, available: usize) -> (usize, Timestamp) {
        let at = self.start + self.rate.duration(self.sent);
        let len = available.min(self.received - self.sent);
        self.sent += len;
        (len, at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: SampleRate = SampleRate(16_000);

    #[test]
    fn sample_indices_and_timestamps_convert_exactly() {
        for index in [-3, 0, 1, 16_000 * 3600 * 24 * 365] {
            assert_eq!(sample_index(RATE, sample_time(RATE, index)), index);
        }
        assert_eq!(sample_index(RATE, Timestamp(31_250)), 1);
        assert_eq!(sample_index(SampleRate(u32::MAX), Timestamp(i64::MAX)), i64::MAX / 2);
        assert_eq!(sample_index(SampleRate(u32::MAX), Timestamp(i64::MIN)), i64::MIN / 2);
    }

    #[test]
    fn short_gaps_are_filled_with_silence() {
        let mut timeline = Timeline::default();
        timeline.extend([1.0; 4].into_iter(), 100);
        timeline.move_end(6, 4);
        timeline.extend([2.0; 2].into_iter(), 100);
        let known = |timeline: &Timeline| (0..8).map(|at| timeline.sample(at)).collect::<Vec<_>>();
        assert_eq!(known(&timeline), [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 2.0, 2.0]);
        timeline.move_end(2, 4);
        assert_eq!((timeline.first(), timeline.end(), timeline.sample(2)), (0, 2, 0.0));
        timeline.move_end(20, 4);
        assert_eq!((timeline.first(), timeline.end()), (20, 20));
        timeline.move_end(-5, 4);
        assert_eq!((timeline.first(), timeline.end()), (-5, -5));
        timeline.extend([3.0; 10].into_iter(), 4);
        assert_eq!((timeline.first(), timeline.end(), timeline.sample(1)), (1, 5, 3.0));
    }

    #[test]
    fn a_segment_sends_as_much_as_it_received() {
        let mut block = AudioBlock::default();
        block.reshape(RATE, 1, 160).unwrap();
        let mut segment = Segment::new(RATE, Timestamp(5_000_000));
        segment.receive(&block, Timestamp(5_000_000));
        assert_eq!(segment.next_output(100), (100, Timestamp(5_000_000)));
        assert_eq!(segment.next_output(100), (60, Timestamp(11_250_000)));
        assert!(
            segment.continues_at(Timestamp(24_000_000))
                && !segment.continues_at(Timestamp(26_000_000))
        );
        // The start follows the clock of the device.
        segment.receive(&block, Timestamp(16_000_000));
        assert_eq!(segment.next_output(1000), (160, Timestamp(16_000_000)));
    }
}
