//! The time of a session: real, or virtual.

use std::time::Instant;

use afferent_graph::Timestamp;

use crate::{lockstep::Lockstep, stopwatch::Stopwatch};

/// Which clock a run has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClockKind {
    /// The monotonic clock of the machine, from zero at the start of the session.
    #[default]
    Real,
    /// A clock that stands still while anything is left to do, then jumps to the next source.
    ///
    /// A graph that is paced by its sources runs as fast as the machine can. No time passes
    /// while a packet waits, so a queue that is full holds its sender up whatever its policy,
    /// and a node with several inputs takes their packets in the order of their timestamps: the
    /// result of deterministic nodes is the same every time, on one thread or on many.
    Virtual,
}

/// The clock of a running session.
pub(crate) struct Clock {
    start: Instant,
    pub(crate) lockstep: Option<Lockstep>,
}

/// One reading of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    /// On the clock of the session.
    pub(crate) now: Timestamp,
    /// On the real clock, in nanoseconds since the start of the session.
    pub(crate) real_ns: u64,
}

impl Clock {
    /// A clock that starts now.
    pub(crate) fn new(lockstep: Option<Lockstep>) -> Self {
        Self { start: Instant::now(), lockstep }
    }

    /// Reads the clock with the stopwatch of a thread.
    #[inline]
    pub(crate) fn read(&self, stopwatch: &mut Stopwatch) -> Moment {
        let real_ns = stopwatch.ns_since(self.start);
        let now = match &self.lockstep {
            Some(lockstep) => lockstep.now(),
            None => Timestamp(i64::try_from(real_ns).unwrap_or(i64::MAX)),
        };
        Moment { now, real_ns }
    }

    /// When the real clock shows `at`.
    pub(crate) fn instant(&self, at: Timestamp) -> Instant {
        self.start + at.since(Timestamp::ZERO)
    }
}
