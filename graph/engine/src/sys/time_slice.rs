//! How soon the system runs a thread that was woken.
//!
//! When both have the same processor, the thread that wakes another one goes on until it sleeps or
//! its slice of time is over, and a packet waits meanwhile. From version 6.12 on, Linux lets a
//! thread ask for the length of its slices. Shorter ones are no more time, but a thread with shorter
//! ones is let in when it wakes. So among the threads of a graph, those nearer to the sinks ask for
//! shorter slices: as within a thread, what is under way goes on before more comes in.
#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "system calls that no library offers as functions")
)]

use std::time::Duration;

/// The shortest that Linux gives.
const SHORTEST: Duration = Duration::from_micros(100);

/// So many threads in a row have different slices; the longest is shorter than what the system gives
/// by itself.
const STEPS: u32 = 4;

/// The slice of a thread whose packets pass so many threads more.
pub(crate) fn before(threads: u32) -> Duration {
    SHORTEST * (1 << threads.min(STEPS))
}

/// Asks for slices of this length for the calling thread. Where the system does not know such a
/// thing, or the thread is a real-time one, everything stays as it is.
#[cfg(target_os = "linux")]
pub(crate) fn request(slice: Duration) {
    const TIME_SHARING: [u32; 2] =
        [libc::SCHED_OTHER.cast_unsigned(), libc::SCHED_BATCH.cast_unsigned()];
    let known = attributes().filter(|known| TIME_SHARING.contains(&known.sched_policy));
    if let Some(mut wanted) = known {
        wanted.sched_runtime = u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: the system reads as many bytes as the attributes have, which they say.
        let _ = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const wanted, 0) };
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn request(_: Duration) {}

/// How the calling thread is scheduled.
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
    // SAFETY: the system writes no more than `size` bytes.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut found, size, 0) };
    (result == 0).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_nearer_to_the_end_comes_first() {
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
