//! Atomics of the standard library, or of the model checker.

#[cfg(not(shuttle))]
pub(crate) use std::sync::atomic::AtomicUsize;

#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic::AtomicUsize;

/// Scheduling point that the model checker does not see by itself.
#[inline(always)]
pub(crate) fn step() {
    #[cfg(shuttle)]
    shuttle::thread::yield_now();
}
