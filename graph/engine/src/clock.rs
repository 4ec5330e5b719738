//! Session clock: real or virtual.

pub(crate) mod generation;
pub(crate) mod lockstep;

use std::{sync::Arc, time::Instant};

use afferent_graph::Timestamp;

use crate::{
    clock::lockstep::Lockstep,
    supervision::current_call::CurrentCall,
    sys::stopwatch::{Stopwatch, ticks},
};

/// Clock of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClockKind {
    /// The monotonic clock of the machine. Zero is the start of the session.
    #[default]
    Real,
    /// A clock that advances only when no work is left, to the next time that a source asked for.
    ///
    /// A graph runs as fast as the machine can. No time passes while a packet waits, so a full
    /// queue blocks its sender whatever its policy, and a node with several inputs takes packets in
    /// the order of their timestamps. Deterministic nodes therefore give the same result in every
    /// run, on one thread or on many.
    Virtual,
}

/// Clock of a running session.
pub(crate) struct Clock {
    start: Instant,
    pub(crate) lockstep: Option<Lockstep>,
}

/// One reading of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Session time.
    pub(crate) now: Timestamp,
    /// Real time, in nanoseconds since the start of the session.
    pub(crate) real_ns: u64,
}

impl Clock {
    /// Clock that starts now.
    pub(crate) fn new(lockstep: Option<Lockstep>) -> Self {
        Self { start: Instant::now(), lockstep }
    }

    /// Real time, in nanoseconds since the start of the session.
    pub(crate) fn real_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Session clock as one thread reads it.
#[derive(Debug)]
pub(crate) struct ThreadClock {
    /// Index of the thread in the run.
    pub(crate) thread: usize,
    /// Read by the session if the call does not return.
    pub(crate) current_call: Arc<CurrentCall>,
    /// Last reading.
    pub(crate) moment: Moment,
    /// True for the virtual clock.
    pub(crate) is_virtual: bool,
    stopwatch: Stopwatch,
}

impl ThreadClock {
    /// Reads the clock once for a thread.
    pub(crate) fn new(clock: &Clock, thread: usize, current_call: Arc<CurrentCall>) -> Self {
        let moment = Moment { now: Timestamp::ZERO, real_ns: 0 };
        let (is_virtual, stopwatch) = (clock.lockstep.is_some(), Stopwatch::default());
        let mut watch = Self { thread, current_call, moment, is_virtual, stopwatch };
        watch.read(clock);
        watch
    }

    /// Reads the clock.
    #[inline]
    pub(crate) fn read(&mut self, clock: &Clock) -> Moment {
        let real_ns = self.ns_at(clock, ticks());
        let lockstep = if self.is_virtual { clock.lockstep.as_ref() } else { None };
        // An `i64` of nanoseconds lasts for 292 years.
        let now = lockstep.map_or(Timestamp(real_ns.cast_signed()), Lockstep::now);
        self.moment = Moment { now, real_ns };
        self.moment
    }

    /// Returns the tick counter, and true if the last clock reading is recent enough for
    /// [`ThreadClock::ns_at`] to convert these ticks later.
    #[inline]
    pub(crate) fn ticks(&self) -> (u64, bool) {
        let ticks = ticks();
        (ticks, self.stopwatch.is_soon(ticks))
    }

    /// Converts ticks that this thread has read to real time, in nanoseconds since the start of the
    /// session.
    #[inline]
    pub(crate) fn ns_at(&mut self, clock: &Clock, ticks: u64) -> u64 {
        self.stopwatch.ns_since(clock.start, ticks)
    }
}
