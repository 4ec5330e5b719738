//! The real clock, read at the cost of a processor instruction.

use std::time::Instant;

#[cfg(target_arch = "aarch64")]
pub(crate) use tick_counter::aarch64_tick_counter as ticks;
#[cfg(target_arch = "x86_64")]
pub(crate) use tick_counter::x86_64_tick_counter as ticks;

/// Without a tick counter, the system clock is read every time.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn ticks() -> u64 {
    0
}

/// System clock as one thread reads it: for a short time after each reading, elapsed ticks of the
/// processor are added to it.
///
/// The tick rate is measured against the clock all the time, and a wrong rate matters only within
/// this short time, which is shorter the less is known about the rate. So the counter need not have
/// a constant rate, and a thread that moves to another processor soon reads the clock again.
#[derive(Debug, Default)]
pub(crate) struct Stopwatch {
    /// Last reading: nanoseconds and ticks.
    last: (u64, u64),
    /// Earlier reading, from which the rate is measured, and a later one, from which it will be.
    first: (u64, u64),
    middle: (u64, u64),
    /// Nanoseconds per tick, as a fraction of 2^32.
    rate: u64,
    /// Ticks for which the last reading is extrapolated; zero while the rate is unknown.
    reach: u64,
    /// Ticks of [`SOON_NS`]; zero while the rate is unknown.
    soon: u64,
    /// Last returned time and its ticks. Time does not go back.
    latest_ns: u64,
    latest_ticks: u64,
}

/// Time for which a reading serves callers that do not need their own.
const SOON_NS: u64 = 20_000;

/// Fraction of the measurement time of the rate for which ticks are extrapolated: the error is the
/// same fraction of the error of a clock reading.
const REACH_PART: u64 = 50;

/// Longest extrapolation. A thread that sleeps for less reaches the woken node without reading the
/// clock, which would take longer than everything else on that path.
const REACH_NS: u64 = 10_000_000;

/// Largest number of ticks per nanosecond.
const MAX_TICKS: u64 = 10;

/// Ticks that a reading of the clock may take: microseconds instead of tens of nanoseconds.
const TOGETHER: u64 = 10_000;

/// Shortest measurement time of the rate; from half a second on, between that and twice that. A
/// thread that reads the clock less often does without ticks.
const LEAST_NS: u64 = 1_000_000;
const HALF_NS: u64 = 500_000_000;
const MOST_NS: u64 = 4_000_000_000;

impl Stopwatch {
    /// True if the system clock is not needed to convert these ticks.
    #[inline]
    pub(crate) fn is_soon(&self, ticks: u64) -> bool {
        ticks.wrapping_sub(self.latest_ticks) < self.soon
            && ticks.wrapping_sub(self.last.1) < self.reach
    }

    /// Nanoseconds since `start` at `ticks`, which are recent. `start` is the same in every call.
    #[inline]
    pub(crate) fn ns_since(&mut self, start: Instant, ticks: u64) -> u64 {
        let passed = ticks.wrapping_sub(self.last.1);
        self.latest_ns = if passed < self.reach {
            self.latest_ns.max(self.last.0 + ((passed * self.rate) >> 32))
        } else {
            self.read(start)
        };
        self.latest_ticks = ticks;
        self.latest_ns
    }

    #[cold]
    fn read(&mut self, start: Instant) -> u64 {
        let before = ticks();
        let ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let after = ticks();
        if after.wrapping_sub(before) < TOGETHER {
            self.note(ns, after);
        } else {
            // The thread was preempted between the two readings.
            self.reach = 0;
        }
        self.latest_ns.max(ns)
    }

    /// Takes in a reading of both clocks.
    fn note(&mut self, ns: u64, ticks: u64) {
        self.last = (ns, ticks);
        if self.first.1 == 0 || ns.saturating_sub(self.first.0) > MOST_NS {
            *self = Self { first: self.last, middle: self.last, reach: 0, ..*self };
        }
        let (first_ns, first_ticks) = self.first;
        let (ns, ticks) = (ns.saturating_sub(first_ns), ticks.wrapping_sub(first_ticks));
        if ns >= LEAST_NS && ticks > 0 {
            self.rate = (ns << 32) / ticks;
            let reach_ns = (ns / REACH_PART).min(REACH_NS);
            let reach = (reach_ns << 32).checked_div(self.rate).unwrap_or(0);
            self.reach = if reach > MAX_TICKS * reach_ns { 0 } else { reach };
            self.soon = (SOON_NS << 32).checked_div(self.rate).unwrap_or(0);
        }
        if self.last.0.saturating_sub(self.middle.0) >= HALF_NS {
            (self.first, self.middle) = (self.middle, self.last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Stopwatch that has measured `per_ms` ticks per millisecond.
    fn after_a_millisecond(per_ms: u64) -> Stopwatch {
        let mut stopwatch = Stopwatch::default();
        stopwatch.note(SECOND, 5000);
        assert_eq!(stopwatch.reach, 0, "one reading needs_watermark no rate");
        stopwatch.note(SECOND + 1_000_000, 5000 + per_ms);
        stopwatch
    }

    #[test]
    fn the_rate_is_that_of_the_ticks() {
        for (per_ms, reach) in [(3_000_000, 60_000), (24_000, 480), (10_000_000, 200_000)] {
            let stopwatch = after_a_millisecond(per_ms);
            assert!(stopwatch.reach.abs_diff(reach) <= 1, "{stopwatch:?}");
            let ns = (stopwatch.reach * stopwatch.rate) >> 32;
            assert!(ns.abs_diff(20_000) <= 200, "a fiftieth of what was measured, not {ns}");
        }
    }

    #[test]
    fn the_better_the_rate_is_known_the_longer_it_is_relied_on() {
        let mut stopwatch = Stopwatch::default();
        let mut reach_at = |ms: u64| {
            stopwatch.note(SECOND + ms * 1_000_000, 5000 + ms * 1_000_000);
            stopwatch.reach
        };
        let (times, ms) = ([0, 1, 10, 50, 100, 499, 600, 1200, 1700, 1701], 1_000_000);
        let full = REACH_NS;
        let reaches = [0, ms / 50, ms / 5, ms, 2 * ms, 499 * ms / 50, full, full, full, full];
        assert_eq!(times.map(&mut reach_at), reaches);
        assert_eq!([9000, 9001].map(reach_at), [0, ms / 50], "seldom read, it starts again");
    }

    #[test]
    fn a_reading_serves_for_a_short_time() {
        let (start, mut stopwatch) = (Instant::now(), after_a_millisecond(1_000_000));
        let ticks = stopwatch.last.1 + 10_000;
        stopwatch.ns_since(start, ticks);
        assert!(stopwatch.is_soon(ticks + 9_000));
        assert!(!stopwatch.is_soon(ticks + 10_001), "the rate is not known for so long");
        stopwatch.reach = 1_000_000;
        assert!(stopwatch.is_soon(ticks + 19_000) && !stopwatch.is_soon(ticks + 21_000));
    }

    #[test]
    fn a_counter_that_stands_still_or_jumps_is_not_used() {
        for per_ms in [0, 1 << 40, u64::MAX - 10_000] {
            assert_eq!(after_a_millisecond(per_ms).reach, 0);
        }
    }

    #[test]
    fn it_follows_the_clock_and_never_goes_back() {
        let (start, mut stopwatch) = (Instant::now(), Stopwatch::default());
        let elapsed = || start.elapsed().as_nanos() as u64;
        let mut before = 0;
        while before < 5_000_000 {
            let (first, ns, last) = (elapsed(), stopwatch.ns_since(start, ticks()), elapsed());
            assert!(ns >= before, "{ns} after {before}");
            // The error is that of a clock reading, which may be preempted for `TOGETHER` ticks of
            // at most one nanosecond.
            let near = TOGETHER;
            assert!(first <= ns + near && ns <= last + near, "{first} {ns} {last}");
            before = ns;
        }
    }
}
