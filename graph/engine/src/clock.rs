//! Session clock: real or virtual.

pub(crate) mod discipline;
pub(crate) mod generation;
pub(crate) mod lockstep;

use std::{sync::Arc, time::Instant};

use afferent_graph::{SessionStart, Timestamp};

use crate::{
    clock::{discipline::Discipline, lockstep::Lockstep},
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

impl ClockKind {
    /// Civil time of a session that starts now; on the virtual clock the same for every session.
    pub fn session_start(self) -> SessionStart {
        match self {
            Self::Real => SessionStart::now(),
            Self::Virtual => SessionStart::VIRTUAL,
        }
    }
}

/// Clock of a running session.
pub(crate) struct Clock {
    start: Instant,
    pub(crate) lockstep: Option<Lockstep>,
    /// Correction in a graph of several processes, whose machines share one session time.
    discipline: Option<Discipline>,
}

/// One reading of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Session time.
    pub(crate) now: Timestamp,
    /// Real time, in nanoseconds since the start of the session: session time of the real clock.
    pub(crate) real_ns: u64,
}

impl Moment {
    /// Session time in nanoseconds, for reports.
    pub(crate) fn session_ns(self) -> u64 {
        u64::try_from(self.now.0).unwrap_or(0)
    }
}

impl Clock {
    /// Clock that starts, or has started, at `start`; `follows` makes [`Clock::slew`] possible.
    pub(crate) fn new(start: Instant, lockstep: Option<Lockstep>, follows: bool) -> Self {
        Self { start, lockstep, discipline: follows.then(Discipline::default) }
    }

    fn elapsed_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Real time after `ns` by the clock of the system.
    #[inline]
    fn corrected(&self, ns: u64) -> u64 {
        self.discipline.as_ref().map_or(ns, |discipline| discipline.correct(ns))
    }

    /// The clock runs `error_ns` late against that of another machine; it is slewed to agree with it.
    pub(crate) fn slew(&self, error_ns: i64) {
        if let Some(discipline) = &self.discipline {
            discipline.slew(self.elapsed_ns(), error_ns);
        }
    }

    /// Reads the clock from any thread.
    pub(crate) fn moment(&self) -> Moment {
        let real_ns = self.corrected(self.elapsed_ns());
        Moment { now: self.session_time(real_ns), real_ns }
    }

    /// Session time at `real_ns`: that, or virtual time.
    #[inline]
    fn session_time(&self, real_ns: u64) -> Timestamp {
        // An `i64` of nanoseconds lasts for 292 years.
        self.lockstep.as_ref().map_or(Timestamp(real_ns.cast_signed()), Lockstep::now)
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
        // The flag is at hand; the shared clock may not be in the cache.
        let now = match self.is_virtual {
            true => clock.session_time(real_ns),
            false => Timestamp(real_ns.cast_signed()),
        };
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
        clock.corrected(self.stopwatch.ns_since(clock.start, ticks))
    }
}
