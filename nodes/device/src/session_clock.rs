//! Session time of stamps of the monotonic clock.

use afferent_graph::Timestamp;
use rustix::time::{ClockId, clock_gettime};

use crate::offset::Offset;

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

/// Reads the monotonic clock, in nanoseconds.
pub(crate) fn monotonic_ns() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;

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
