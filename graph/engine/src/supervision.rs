//! What happens when a node errs, panics, or exceeds its deadline.

use std::time::Duration;

use afferent_graph::Timestamp;

/// What happens when a call of a node fails: it errs, panics, or exceeds its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// It is not called again: its streams end, the rest goes on, and the run fails in the end.
    #[default]
    Stop,
    /// It is closed, and opened again after a while; its inputs wait in their queues. Who receives
    /// from it is told by [`Cx::restarted`](afferent_graph::Cx::restarted).
    Restart(Restart),
    /// What the call sent is dropped, and the node is called with the next packet.
    Degrade(Degrade),
}

/// How a node is restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restart {
    /// Time before the first restart; it doubles with each that follows, up to 30 s.
    pub backoff: Duration,
    /// Restarts before the node is stopped. Who works for a minute starts over, with both.
    pub limit: u32,
}

/// What stands in for the results of a call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Degrade {
    /// Nothing.
    #[default]
    Nothing,
    /// On each output the value before, with the time of the packet of the call.
    Last,
}

impl Default for Restart {
    fn default() -> Self {
        Self { backoff: Duration::from_millis(100), limit: 5 }
    }
}

impl Restart {
    /// The longest time before a restart.
    pub const LONGEST: Duration = Duration::from_secs(30);
    /// Who works for so long is healthy again.
    pub const HEALTHY: Duration = Duration::from_secs(60);
}

/// The restarts of one node.
#[derive(Debug, Default)]
pub(crate) struct Restarts {
    /// Since the node was last healthy.
    count: u32,
    /// When the last restart was due.
    last: Option<Timestamp>,
}

impl Restarts {
    /// When to restart a node that failed at `now`; `None` when it has had its restarts.
    pub(crate) fn next(&mut self, policy: Restart, now: Timestamp) -> Option<Timestamp> {
        if self.last.is_some_and(|last| now.since(last) >= Restart::HEALTHY) {
            self.count = 0;
        }
        if self.count >= policy.limit {
            return None;
        }
        let doubled = policy.backoff.saturating_mul(1 << self.count.min(20));
        self.count += 1;
        let at = now + doubled.min(Restart::LONGEST);
        self.last = Some(at);
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn the_time_doubles_up_to_the_limit() {
        let policy = Restart { backoff: Duration::from_millis(10), limit: 3 };
        let mut restarts = Restarts::default();
        let due = [0, 20, 50, 100].map(|at| restarts.next(policy, ms(at)));
        assert_eq!(due, [Some(ms(10)), Some(ms(40)), Some(ms(90)), None]);
    }

    #[test]
    fn a_minute_of_work_makes_healthy() {
        let policy = Restart { backoff: Duration::from_millis(10), limit: 1 };
        let mut restarts = Restarts::default();
        assert_eq!(restarts.next(policy, ms(0)), Some(ms(10)));
        assert_eq!(restarts.next(policy, ms(60_009)), None);
        assert_eq!(restarts.next(policy, ms(60_010)), Some(ms(60_020)));
    }

    #[test]
    fn nothing_overflows() {
        let policy = Restart { backoff: Duration::MAX, limit: u32::MAX };
        let mut restarts = Restarts::default();
        for _ in 0..100 {
            assert_eq!(restarts.next(policy, ms(0)), Some(ms(30_000)));
        }
    }
}
