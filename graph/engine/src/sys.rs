//! Threads, locks, wakes and clocks of the operating system.

pub(crate) mod stopwatch;
pub(crate) mod thread_schedule;
pub(crate) mod threading;
pub(crate) mod time_slice;
pub(crate) mod wake;
