//! Sound by its place on the clock, and streams that are worked on by pieces.

use std::{collections::VecDeque, time::Duration};

use afferent_graph::{Cx, NodeError, Out, Timestamp};
use afferent_messages::{AudioBlock, SampleRate};

/// How far a time stamp may be from where the samples before it end, before it counts as a gap or a
/// jump.
pub(crate) const TOLERANCE: Duration = Duration::from_millis(10);

/// Whether `at` is where a stream goes on that should at `next`.
pub(crate) fn follows(next: Timestamp, at: Timestamp) -> bool {
    next.since(at).max(at.since(next)) <= TOLERANCE
}

/// The place of a time: the number of samples since the start of the session, rounded.
pub(crate) fn place(rate: SampleRate, at: Timestamp) -> i64 {
    let samples = i128::from(at.0) * i128::from(rate.0) + 500_000_000;
    let place = samples.div_euclid(1_000_000_000);
    i64::try_from(place).unwrap_or(if place < 0 { i64::MIN / 2 } else { i64::MAX / 2 })
}

/// The time of a place.
pub(crate) fn time(rate: SampleRate, place: i64) -> Timestamp {
    let nanos = i128::from(place) * 1_000_000_000 / i128::from(rate.0.max(1));
    Timestamp(i64::try_from(nanos).unwrap_or(i64::MAX))
}

/// Samples of one channel that are known, from one place to another.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    samples: VecDeque<f32>,
    /// Place of the first of them.
    first: i64,
}

impl Timeline {
    /// The place of the first sample that is known.
    pub(crate) fn first(&self) -> i64 {
        self.first
    }

    /// The place behind the last sample that is known.
    pub(crate) fn end(&self) -> i64 {
        self.first + self.samples.len() as i64
    }

    /// Adds samples at the end, and forgets the oldest of more than `kept`.
    pub(crate) fn extend(&mut self, samples: impl Iterator<Item = f32>, kept: usize) {
        self.samples.extend(samples);
        let excess = self.samples.len().saturating_sub(kept);
        self.forget(self.first + excess as i64);
    }

    /// Makes `end` the end: what lies behind it is dropped, and a gap before it is silence, or the
    /// begin of all that is known if it is longer than `longest` samples or nothing is known before.
    pub(crate) fn move_end(&mut self, end: i64, longest: usize) {
        let is_within = end >= self.first
            && !self.samples.is_empty()
            && end.saturating_sub(self.end()) <= longest as i64;
        match usize::try_from(end.saturating_sub(self.first)) {
            Ok(len) if is_within => self.samples.resize(len, 0.0),
            _ => {
                self.samples.clear();
                self.first = end;
            }
        }
    }

    /// Forgets what lies before `place`.
    pub(crate) fn forget(&mut self, place: i64) {
        let count = usize::try_from(place.saturating_sub(self.first)).unwrap_or(0);
        let count = count.min(self.samples.len());
        self.samples.drain(..count);
        self.first += count as i64;
    }

    /// The sample at `place`; silence where none is known.
    pub(crate) fn sample(&self, place: i64) -> f32 {
        let at = usize::try_from(place.saturating_sub(self.first)).ok();
        at.and_then(|at| self.samples.get(at)).copied().unwrap_or(0.0)
    }
}

/// A stream of blocks that follow each other, and of which as much goes out as came in.
#[derive(Debug)]
pub(crate) struct Run {
    rate: SampleRate,
    /// Samples of each channel that came in and went out.
    taken: usize,
    sent: usize,
    /// Time of the first sample, as the last block has it.
    start: Timestamp,
    /// Time of the sample that should come next.
    next_at: Timestamp,
}

impl Run {
    /// A stream that begins at `at`.
    pub(crate) fn new(rate: SampleRate, at: Timestamp) -> Self {
        Self { rate, taken: 0, sent: 0, start: at, next_at: at }
    }

    /// Whether a block at `at` goes on with it.
    pub(crate) fn goes_on(&self, at: Timestamp) -> bool {
        follows(self.next_at, at)
    }

    /// Takes in a block.
    pub(crate) fn take(&mut self, block: &AudioBlock, at: Timestamp) {
        self.start = at - self.rate.duration(self.taken);
        self.next_at = at + block.duration();
        self.taken += block.len();
    }

    /// The time of the first sample.
    pub(crate) fn start(&self) -> Timestamp {
        self.start
    }

    /// Sends what was made of it by `port`, one channel, but no more than came in.
    pub(crate) fn send(
        &mut self,
        cx: &mut Cx<'_>,
        port: Out<AudioBlock>,
        made: &mut Vec<f32>,
    ) -> Result<(), NodeError> {
        let (len, at) = self.let_out(made.len());
        if len > 0 {
            let mut block = cx.loan(port);
            block.reshape(self.rate, 1, len)?.copy_from_slice(&made[..len]);
            cx.send_at(port, at, block);
        }
        made.clear();
        Ok(())
    }

    /// Sends the rest that was made of it, unless what comes next, at `next`, begins before that: time
    /// began anew, and nothing that is later may come first.
    pub(crate) fn end(
        mut self,
        cx: &mut Cx<'_>,
        port: Out<AudioBlock>,
        made: &mut Vec<f32>,
        next: Timestamp,
    ) -> Result<(), NodeError> {
        if next < self.start + self.rate.duration(self.sent) {
            made.clear();
        }
        self.send(cx, port, made)
    }

    /// How many of `made` samples go out now, and the time of the first.
    fn let_out(&mut self, made: usize) -> (usize, Timestamp) {
        let at = self.start + self.rate.duration(self.sent);
        let len = made.min(self.taken - self.sent);
        self.sent += len;
        (len, at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: SampleRate = SampleRate(16_000);

    #[test]
    fn times_and_places_belong_together() {
        for place in [-3, 0, 1, 16_000 * 3600 * 24 * 365] {
            assert_eq!(super::place(RATE, time(RATE, place)), place);
        }
        assert_eq!(place(RATE, Timestamp(31_250)), 1);
        assert_eq!(place(SampleRate(u32::MAX), Timestamp(i64::MAX)), i64::MAX / 2);
        assert_eq!(place(SampleRate(u32::MAX), Timestamp(i64::MIN)), i64::MIN / 2);
    }

    #[test]
    fn gaps_are_silence_unless_they_are_long() {
        let mut line = Timeline::default();
        line.extend([1.0; 4].into_iter(), 100);
        line.move_end(6, 4);
        line.extend([2.0; 2].into_iter(), 100);
        let known = |line: &Timeline| (0..8).map(|at| line.sample(at)).collect::<Vec<_>>();
        assert_eq!(known(&line), [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 2.0, 2.0]);
        line.move_end(2, 4);
        assert_eq!((line.first(), line.end(), line.sample(2)), (0, 2, 0.0));
        line.move_end(20, 4);
        assert_eq!((line.first(), line.end()), (20, 20));
        line.move_end(-5, 4);
        assert_eq!((line.first(), line.end()), (-5, -5));
        line.extend([3.0; 10].into_iter(), 4);
        assert_eq!((line.first(), line.end(), line.sample(1)), (1, 5, 3.0));
    }

    #[test]
    fn no_more_goes_out_than_came_in() {
        let mut block = AudioBlock::default();
        block.reshape(RATE, 1, 160).unwrap();
        let mut run = Run::new(RATE, Timestamp(5_000_000));
        run.take(&block, Timestamp(5_000_000));
        assert_eq!(run.let_out(100), (100, Timestamp(5_000_000)));
        assert_eq!(run.let_out(100), (60, Timestamp(11_250_000)));
        assert!(run.goes_on(Timestamp(24_000_000)) && !run.goes_on(Timestamp(26_000_000)));
        // The clock of the device is followed.
        run.take(&block, Timestamp(16_000_000));
        assert_eq!(run.let_out(1000), (160, Timestamp(16_000_000)));
    }
}
