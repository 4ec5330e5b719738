//! Offset of the clock of another machine, by four timestamps.
//!
//! A ping leaves at `t1`, arrives at `t2` by the other clock, its pong leaves at `t3` and arrives at
//! `t4`. The offset is `((t2 − t1) + (t3 − t4)) / 2` if both ways take the same time; it is wrong by
//! at most half of the round trip. The estimate is that of the shortest of the last 16 round trips.

use std::collections::VecDeque;

/// Round trips that an estimate is chosen from.
const ROUND_TRIPS: usize = 16;

/// Offset of another clock from the own one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockOffset {
    /// Time of the other clock less that of the own clock, in nanoseconds.
    pub offset_ns: i64,
    /// Largest error, in nanoseconds: half of the round trip.
    pub bound_ns: u64,
}

/// Estimates the offset.
#[derive(Debug, Default)]
pub(super) struct ClockEstimate {
    /// Round trip and offset of each.
    round_trips: VecDeque<(u64, i64)>,
}

impl ClockEstimate {
    /// Adds a round trip.
    pub(super) fn add(&mut self, [t1, t2, t3, t4]: [i64; 4]) {
        let took = t4.saturating_sub(t1).saturating_sub(t3.saturating_sub(t2));
        let Ok(took) = u64::try_from(took) else { return };
        let (there, back) = (t2.saturating_sub(t1), t3.saturating_sub(t4));
        if self.round_trips.len() == ROUND_TRIPS {
            self.round_trips.pop_front();
        }
        self.round_trips.push_back((took, there.midpoint(back)));
    }

    /// The estimate, once a few round trips are known.
    pub(super) fn offset(&self) -> Option<ClockOffset> {
        let best = self.round_trips.iter().min_by_key(|(took, _)| *took)?;
        let &(took, offset_ns) = (self.round_trips.len() >= 4).then_some(best)?;
        Some(ClockOffset { offset_ns, bound_ns: took.div_ceil(2) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_round_trip_counts() {
        let mut clock = ClockEstimate::default();
        // The other clock is 1,000 ns ahead.
        clock.add([0, 1_100, 1_150, 250]);
        assert_eq!(clock.offset(), None);
        for at in 1..4 {
            clock.add([at * 10_000, at * 10_000 + 6_000, at * 10_000 + 6_000, at * 10_000 + 5_100]);
        }
        assert_eq!(clock.offset(), Some(ClockOffset { offset_ns: 1_000, bound_ns: 100 }));
        for _ in 0..ROUND_TRIPS {
            clock.add([0, 3_000, 3_000, 2_000]);
        }
        assert_eq!(clock.offset(), Some(ClockOffset { offset_ns: 2_000, bound_ns: 1_000 }));
        clock.add([i64::MIN, i64::MAX, i64::MIN, i64::MAX]);
    }
}
