//! Restarts, interrupts and stops.

pub(crate) mod current_call;
pub(crate) mod failure_log;
pub(crate) mod interrupt;
pub(crate) mod stop;

use afferent_graph::Timestamp;
use afferent_spec::Restart;

/// Restarts of one node, or of one process.
#[derive(Debug, Default)]
pub struct Restarts {
    /// Restarts since the node was last healthy.
    count: u32,
    /// Time of the last restart.
    last: Option<Timestamp>,
}

impl Restarts {
    /// Time of the next restart of a node that failed at `now`; `None` if its limit is reached.
    pub fn next(&mut self, policy: Restart, now: Timestamp) -> Option<Timestamp> {
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
    use std::time::Duration;

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
