//! Correction of the session clock of a machine that follows that of another one.
//!
//! The clock is slewed, never stepped: it gains or loses at most [`MAX_RATE`] and does not go back.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering, fence};

/// Largest rate of a correction: 500 ppm, in nanoseconds per second.
const MAX_RATE: i64 = 500_000;

/// Time in which a small error is corrected.
const CORRECT_NS: u64 = 500_000_000;

const SECOND_NS: i128 = 1_000_000_000;

/// Correction as a function of the uncorrected time: from `since` on, for [`CORRECT_NS`], it grows
/// from `base` at `rate`.
#[derive(Debug, Default)]
pub(crate) struct Discipline {
    /// Odd while the others are written.
    version: AtomicU64,
    since: AtomicU64,
    base: AtomicI64,
    rate: AtomicI64,
}

impl Discipline {
    /// Corrected time, in nanoseconds.
    #[inline]
    pub(crate) fn correct(&self, ns: u64) -> u64 {
        ns.saturating_add_signed(self.correction(ns))
    }

    fn correction(&self, ns: u64) -> i64 {
        loop {
            let version = self.version.load(Ordering::Acquire);
            let since = self.since.load(Ordering::Relaxed);
            let (base, rate) =
                (self.base.load(Ordering::Relaxed), self.rate.load(Ordering::Relaxed));
            fence(Ordering::Acquire);
            if version.is_multiple_of(2) && version == self.version.load(Ordering::Relaxed) {
                return base + grown(ns.saturating_sub(since), rate);
            }
            std::hint::spin_loop();
        }
    }

    /// The corrected clock is to gain `error_ns` from the uncorrected time `ns` on. Called by one
    /// thread at a time.
    pub(crate) fn slew(&self, ns: u64, error_ns: i64) {
        let base = self.correction(ns);
        let per_second = i128::from(error_ns) * SECOND_NS / i128::from(CORRECT_NS);
        let rate = per_second.clamp(-i128::from(MAX_RATE), i128::from(MAX_RATE)) as i64;
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.since.store(ns, Ordering::Relaxed);
        self.base.store(base, Ordering::Relaxed);
        self.rate.store(rate, Ordering::Relaxed);
        self.version.store(version + 2, Ordering::Release);
    }
}

/// Growth of a correction in `ns`.
fn grown(ns: u64, rate: i64) -> i64 {
    (i128::from(ns.min(CORRECT_NS)) * i128::from(rate) / SECOND_NS) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_corrected_slowly_and_time_does_not_go_back() {
        let clock = Discipline::default();
        assert_eq!(clock.correct(7), 7);
        clock.slew(1_000_000_000, 100_000);
        assert_eq!(clock.correct(1_000_000_000), 1_000_000_000);
        assert_eq!(clock.correct(1_250_000_000), 1_250_050_000);
        assert_eq!(clock.correct(9_000_000_000), 9_000_100_000, "nothing is overshot");
        clock.slew(9_000_000_000, -1_000_000_000);
        assert_eq!(clock.correct(9_400_000_000), 9_400_100_000 - 200_000, "at 500 ppm");
        let mut before = 0;
        for step in 0..100_000 {
            let ns = 9_000_000_000 + step * 10_007;
            let now = clock.correct(ns);
            assert!(now >= before);
            before = now;
            if step % 997 == 0 {
                clock.slew(ns, if step % 2 == 0 { i64::MIN } else { i64::MAX });
            }
        }
    }
}
