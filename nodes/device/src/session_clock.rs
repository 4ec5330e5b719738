//! Session time of stamps of the monotonic clock.

use afferent_graph::Timestamp;
use rustix::time::{ClockId, clock_gettime};

/// Converts times of the monotonic clock to session time.
#[derive(Debug, Default)]
pub(crate) struct SessionClock {
    /// Monotonic time at the start of the session.
    start: Offset,
    start_ns: i64,
}

impl SessionClock {
    /// Compares the clocks. `now` is the session time of a call, which must have just begun: after a
    /// wait, stamps would be early by the length of the wait.
    pub(crate) fn compare(&mut self, now: Timestamp) {
        self.start_ns = self.start.update(monotonic_ns().saturating_sub(now.0));
    }

    /// Session time of a monotonic time.
    pub(crate) fn session_time(&self, monotonic_ns: i64) -> Timestamp {
        Timestamp(monotonic_ns.saturating_sub(self.start_ns))
    }
}

/// Difference of two clocks, from readings whose second clock may be read too late.
#[derive(Debug, Clone, Default)]
pub(crate) struct Offset(Option<i64>);

impl Offset {
    /// Share of a larger difference that is believed: most are delays, but clocks drift.
    const RISE: i64 = 16;

    /// Takes a difference that may be too large; returns the best one so far.
    pub(crate) fn update(&mut self, found: i64) -> i64 {
        let best = match self.0 {
            Some(best) if found > best => {
                best.saturating_add(found.saturating_sub(best) / Self::RISE)
            }
            _ => found,
        };
        *self.0.insert(best)
    }
}

/// Reads the monotonic clock, in nanoseconds.
pub(crate) fn monotonic_ns() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_ignored_and_drift_is_followed() {
        let mut offset = Offset::default();
        let found = [100, 3300, 100, 90, 90].map(|found| offset.update(found));
        assert_eq!(found, [100, 300, 100, 90, 90]);
        let mut last = 0;
        for step in 0..1000 {
            last = offset.update(90 + 10_000 * step);
        }
        let lag = 90 + 10_000 * 999 - last;
        assert!((0..=160_000).contains(&lag), "{lag}");
    }

    #[test]
    fn stamps_keep_their_distance_to_the_start_of_the_call() {
        let mut clock = SessionClock::default();
        let now = Timestamp(5_000_000_000);
        let before = monotonic_ns();
        clock.compare(now);
        let after = monotonic_ns();
        let found = clock.session_time(before - 7_000_000);
        let expected = now.0 - 7_000_000;
        assert!((expected - (after - before)..=expected).contains(&found.0), "{found}");
    }
}
