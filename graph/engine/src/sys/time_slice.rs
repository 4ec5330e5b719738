//! Time slices of threads (EEVDF).
//!
//! A thread that wakes another one on the same processor keeps running until it sleeps or its time
//! slice ends, and the packet waits. Since version 6.12, Linux lets a thread request its slice
//! length. A shorter slice gives no more time, but the thread preempts others when it wakes.
//! Threads nearer to the sinks therefore request shorter slices: packets in flight go on before new
//! ones enter.
#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "system calls that no library offers as functions")
)]

use std::time::Duration;

/// Shortest slice that Linux accepts.
const SHORTEST: Duration = Duration::from_micros(100);

/// Number of threads in a row with different slices; the longest is shorter than the default of the
/// system.
const STEPS: u32 = 4;

/// Slice of a thread with `threads` threads downstream of it.
pub(crate) fn before(threads: u32) -> Duration {
    SHORTEST * (1 << threads.min(STEPS))
}

/// Requests slices of this length for the calling thread. Has no effect on systems without the
/// feature and on real-time threads.
#[cfg(target_os = "linux")]
pub(crate) fn request(slice: Duration) {
    const TIME_SHARING: [u32; 2] =
        [libc::SCHED_OTHER.cast_unsigned(), libc::SCHED_BATCH.cast_unsigned()];
    let known = attributes().filter(|known| TIME_SHARING.contains(&known.sched_policy));
    if let Some(mut wanted) = known {
        wanted.sched_runtime = u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: the kernel reads as many bytes as the attributes state.
        let _ = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const wanted, 0) };
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn request(_: Duration) {}

/// Scheduling attributes of the calling thread.
#[cfg(target_os = "linux")]
fn attributes() -> Option<libc::sched_attr> {
    let size = size_of::<libc::sched_attr>() as u32;
    let mut found = libc::sched_attr {
        size,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel writes at most `size` bytes.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut found, size, 0) };
    (result == 0).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_nearer_to_the_sinks_have_shorter_slices() {
        let slices = [0, 1, 2, 3, 4, 5, u32::MAX].map(before);
        assert!(slices.is_sorted() && slices[0] < slices[1] && slices[4] == slices[6]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_system_keeps_what_it_is_asked_for() {
        let thread = std::thread::spawn(|| {
            let nice = attributes().unwrap().sched_nice;
            request(before(2));
            (attributes().unwrap().sched_runtime, nice == attributes().unwrap().sched_nice)
        });
        let (kept, same_nice) = thread.join().unwrap();
        assert!(same_nice);
        match kept {
            0 => println!("skipped: slices of threads, which this Linux does not know"),
            ns => assert_eq!(Duration::from_nanos(ns), before(2)),
        }
    }
}
