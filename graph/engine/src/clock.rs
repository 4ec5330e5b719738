//! The time of a session: real, or virtual.

pub(crate) mod generation;
pub(crate) mod lockstep;

use std::{
    sync::{Arc, atomic::AtomicUsize},
    time::Instant,
};

use afferent_graph::Timestamp;

use crate::{
    clock::lockstep::Lockstep,
    sys::stopwatch::{Stopwatch, ticks},
};

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
}

/// The clock of a session as one thread reads it.
#[derive(Debug)]
pub(crate) struct Watch {
    /// The thread, among those of the run.
    pub(crate) thread: usize,
    /// The node that it is calling, for when it does not come back.
    pub(crate) calling: Arc<AtomicUsize>,
    /// The last reading of the clock.
    pub(crate) moment: Moment,
    /// Whether the clock of the session is not the real one.
    pub(crate) is_virtual: bool,
    stopwatch: Stopwatch,
}

impl Watch {
    /// The watch of a thread, which has been read once.
    pub(crate) fn new(clock: &Clock, thread: usize, calling: Arc<AtomicUsize>) -> Self {
        let moment = Moment { now: Timestamp::ZERO, real_ns: 0 };
        let (is_virtual, stopwatch) = (clock.lockstep.is_some(), Stopwatch::default());
        let mut watch = Self { thread, calling, moment, is_virtual, stopwatch };
        watch.read(clock);
        watch
    }

    /// Reads the clock.
    #[inline]
    pub(crate) fn read(&mut self, clock: &Clock) -> Moment {
        let real_ns = self.ns_at(clock, ticks());
        let lockstep = if self.is_virtual { clock.lockstep.as_ref() } else { None };
        // They last for 292 years.
        let now = lockstep.map_or(Timestamp(real_ns.cast_signed()), Lockstep::now);
        self.moment = Moment { now, real_ns };
        self.moment
    }

    /// The ticks of now, and whether they are soon behind the last reading, so that this still
    /// serves and [`Watch::ns_at`] knows later what they mean.
    #[inline]
    pub(crate) fn ticks(&self) -> (u64, bool) {
        let ticks = ticks();
        (ticks, self.stopwatch.is_soon(ticks))
    }

    /// What the real clock showed when this thread read these ticks, in nanoseconds since the start
    /// of the session.
    #[inline]
    pub(crate) fn ns_at(&mut self, clock: &Clock, ticks: u64) -> u64 {
        self.stopwatch.ns_since(clock.start, ticks)
    }
}
