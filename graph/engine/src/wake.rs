//! How a sleeping thread learns that there is something to do.

use std::{
    hint,
    sync::{OnceLock, atomic::Ordering},
    time::{Duration, Instant},
};

use crate::threading::{
    AtomicBool,
    thread::{self, Thread},
};

/// The alarm of one thread, shared by everything that can give it work.
///
/// Ringing it again before the thread has answered costs one atomic exchange; the operating
/// system is asked only when the thread sleeps, and then once.
#[derive(Default)]
pub(crate) struct Waker {
    rung: AtomicBool,
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

    /// Whether it rings.
    pub(crate) fn rings(&self) -> bool {
        self.rung.load(Ordering::Acquire)
    }

    /// Turns it off; whether it rang. Look for work afterwards, not before.
    pub(crate) fn answer(&self) -> bool {
        // The load alone keeps the cache line shared while nothing happens.
        self.rings() && self.rung.swap(false, Ordering::AcqRel)
    }

    /// Looks for the alarm for as long as `spin`, no longer than `until`; whether it rings.
    pub(crate) fn spin(&self, spin: Duration, until: Option<Instant>) -> bool {
        let end = Instant::now() + spin;
        let end = until.map_or(end, |until| end.min(until));
        while !self.rings() {
            if Instant::now() >= end {
                return false;
            }
            hint::spin_loop();
        }
        true
    }

    /// Sleeps until it rings or the time has come. Only for the thread that it belongs to.
    pub(crate) fn sleep(&self, until: Option<Instant>) {
        while !self.rings() {
            match until.map(|until| until.saturating_duration_since(Instant::now())) {
                None => thread::park(),
                Some(left) if left.is_zero() => return,
                Some(left) => thread::park_timeout(left),
            }
        }
    }
}
