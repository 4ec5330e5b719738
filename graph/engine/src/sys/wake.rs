//! Waking sleeping threads.

use std::{
    hint,
    sync::{OnceLock, atomic::Ordering},
    time::{Duration, Instant},
};

use crate::sys::threading::{
    AtomicBool,
    thread::{self, Thread},
};

/// Wake flag of one thread, shared by everything that can give it work.
///
/// Setting the flag again before the thread has answered costs one atomic exchange. The operating
/// system is called only if the thread sleeps, and then once.
///
/// Fields that a waking thread reads share a cache line.
#[derive(Default)]
pub(crate) struct Waker {
    rung: AtomicBool,
    /// A reader waits for its figures.
    asked: AtomicBool,
    /// The run is to end.
    stops: AtomicBool,
    /// Its sources are to end.
    completes: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Waker {
    /// Sets the thread to wake. A wake before that is remembered.
    pub(crate) fn belongs_to(&self, thread: Thread) {
        drop(self.thread.set(thread));
    }

    /// Writes before this call are visible to the thread after it has answered.
    pub(crate) fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Asks the thread for its figures, until they are published.
    pub(crate) fn ask(&self) {
        self.asked.store(true, Ordering::Release);
        self.ring();
    }

    /// The figures were published.
    pub(crate) fn told(&self) {
        self.asked.store(false, Ordering::Release);
    }

    /// True if a reader waits for the figures of the thread.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// Tells the thread that the run is to end.
    pub(crate) fn stop(&self) {
        self.stops.store(true, Ordering::Release);
        self.ring();
    }

    /// True if the run is to end.
    #[inline]
    pub(crate) fn stops(&self) -> bool {
        self.stops.load(Ordering::Acquire)
    }

    /// Tells the thread that its sources are to end.
    pub(crate) fn complete(&self) {
        self.completes.store(true, Ordering::Release);
        self.ring();
    }

    /// True if its sources are to end.
    #[inline]
    pub(crate) fn completes(&self) -> bool {
        self.completes.load(Ordering::Acquire)
    }

    /// True if a wake is pending.
    pub(crate) fn rings(&self) -> bool {
        self.rung.load(Ordering::Acquire)
    }

    /// Clears the flag; true if it was set. Look for work afterwards, not before.
    pub(crate) fn answer(&self) -> bool {
        // The load alone keeps the cache line shared while nothing happens.
        self.rings() && self.rung.swap(false, Ordering::AcqRel)
    }

    /// Sleeps until woken, at most for `at_most`, possibly less. Only for the thread that the flag
    /// belongs to.
    pub(crate) fn sleep(&self, at_most: Option<Duration>) {
        match at_most {
            _ if self.rings() => {}
            None => thread::park(),
            Some(left) if left.is_zero() => {}
            Some(left) => thread::park_timeout(left),
        }
    }

    /// As [`Waker::sleep`], after polling the flag for `spin`.
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
    fn spinning_forever_keeps_the_timeout_and_sees_the_wake() {
        let waker = Waker::default();
        waker.spin(Duration::MAX, Some(Duration::from_millis(1)));
        waker.ring();
        waker.spin(Duration::MAX, None);
        assert!(waker.answer());
    }
}
