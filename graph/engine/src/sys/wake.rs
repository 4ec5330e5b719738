//! How a sleeping thread learns that there is something to do.

use std::{
    hint,
    sync::{OnceLock, atomic::Ordering},
    time::{Duration, Instant},
};

use crate::sys::threading::{
    AtomicBool,
    thread::{self, Thread},
};

/// The alarm of one thread, shared by everything that can give it work.
///
/// Ringing it again before the thread has answered costs one atomic exchange; the operating
/// system is asked only when the thread sleeps, and then once.
///
/// What a thread looks at when it wakes stands together.
#[derive(Default)]
pub(crate) struct Waker {
    rung: AtomicBool,
    /// Somebody wants its figures.
    asked: AtomicBool,
    /// The run is to end.
    stops: AtomicBool,
    /// Its sources are to end.
    completes: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Waker {
    /// Says whose alarm it is. Before that, ringing is remembered and wakes nobody.
    pub(crate) fn belongs_to(&self, thread: Thread) {
        drop(self.thread.set(thread));
    }

    /// What was done before is seen by the thread after it has answered.
    pub(crate) fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Asks the thread for its figures, until they are told.
    pub(crate) fn ask(&self) {
        self.asked.store(true, Ordering::Release);
        self.ring();
    }

    /// The figures were told.
    pub(crate) fn told(&self) {
        self.asked.store(false, Ordering::Release);
    }

    /// Whether somebody waits for the figures of the thread.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// Tells the thread that the run is to end.
    pub(crate) fn stop(&self) {
        self.stops.store(true, Ordering::Release);
        self.ring();
    }

    /// Whether the run is to end.
    #[inline]
    pub(crate) fn stops(&self) -> bool {
        self.stops.load(Ordering::Acquire)
    }

    /// Tells the thread that its sources are to end.
    pub(crate) fn complete(&self) {
        self.completes.store(true, Ordering::Release);
        self.ring();
    }

    /// Whether its sources are to end.
    #[inline]
    pub(crate) fn completes(&self) -> bool {
        self.completes.load(Ordering::Acquire)
    }

    /// Whether it rings.
    pub(crate) fn rings(&self) -> bool {
        self.rung.load(Ordering::Acquire)
    }

    /// Turns it off; whether it rang. Look for work afterwards, not before.
    pub(crate) fn answer(&self) -> bool {
        // The load alone keeps the cache line shared while nothing happens.
        self.rings() && self.rung.swap(false, Ordering::AcqRel)
    }

    /// Sleeps until it rings, no longer than `at_most`, and perhaps not so long. Only for the thread
    /// that it belongs to.
    pub(crate) fn sleep(&self, at_most: Option<Duration>) {
        match at_most {
            _ if self.rings() => {}
            None => thread::park(),
            Some(left) if left.is_zero() => {}
            Some(left) => thread::park_timeout(left),
        }
    }

    /// As [`Waker::sleep`], but looks for the alarm for as long as `spin` first.
    pub(crate) fn spin(&self, spin: Duration, at_most: Option<Duration>) {
        let begin = Instant::now();
        let spin = at_most.map_or(spin, |most| most.min(spin));
        while begin.elapsed() < spin {
            if self.rings() {
                return;
            }
            hint::spin_loop();
        }
        self.sleep(at_most.map(|most| most.saturating_sub(begin.elapsed())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_looks_for_ever_keeps_its_time_and_hears_the_alarm() {
        let waker = Waker::default();
        waker.spin(Duration::MAX, Some(Duration::from_millis(1)));
        waker.ring();
        waker.spin(Duration::MAX, None);
        assert!(waker.answer());
    }
}
