//! The monotonic clock that the processes of a machine share.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Monotonic clock of the machine, in nanoseconds.
pub fn monotonic_ns() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}

/// The instant at which the monotonic clock of the machine showed `ns`.
pub(crate) fn instant(ns: i64) -> Instant {
    let (now, since) = (Instant::now(), monotonic_ns().saturating_sub(ns));
    let since = Duration::from_nanos(u64::try_from(since).unwrap_or(0));
    now.checked_sub(since).unwrap_or(now)
}
