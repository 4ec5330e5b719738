//! How times are distributed, recorded with a shift and an increment.

use crate::Spread;

/// Bits of a time that are kept: a bucket is at most 1/64 of the times in it wide, so that its
/// middle is wrong by less than 1 %.
const DIGITS: u32 = 6;
const LINEAR: u64 = 1 << (DIGITS + 1);
/// Times from here on share the last bucket: 18 minutes.
const LARGEST: u64 = (1 << 40) - 1;

/// How times are distributed: from a nanosecond to 18 minutes, to about 1 %.
pub(crate) struct Times {
    /// Buckets for each power of two, the first two with one for each nanosecond.
    ///
    /// They are small, because those of neighbouring times should share lines of the cache.
    counts: Box<[u32]>,
    /// How often each of them began anew.
    carries: Box<[u32]>,
    count: u64,
    max_ns: u64,
}

impl Times {
    /// 18 KiB, all of it allocated here.
    pub(crate) fn new() -> Self {
        let buckets = || vec![0; bucket(LARGEST) + 1].into();
        Self { counts: buckets(), carries: buckets(), count: 0, max_ns: 0 }
    }

    #[inline]
    pub(crate) fn record(&mut self, ns: u64) {
        let bucket = bucket(ns.min(LARGEST));
        self.counts[bucket] = self.counts[bucket].wrapping_add(1);
        if self.counts[bucket] == 0 {
            self.carries[bucket] += 1;
        }
        self.count += 1;
        self.max_ns = self.max_ns.max(ns);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn spread(&self) -> Spread {
        let quantile = |share: f64| {
            // The smallest bucket that this share of the times does not exceed.
            let wanted = ((self.count as f64 * share).ceil() as u64).max(1);
            let mut seen = 0;
            let place = self.counts.iter().zip(&self.carries).position(|(count, carries)| {
                seen += u64::from(*carries) << 32 | u64::from(*count);
                seen >= wanted
            });
            place.map_or(0, |place| middle_of(place).min(self.max_ns))
        };
        Spread {
            p50_ns: quantile(0.5),
            p95_ns: quantile(0.95),
            p99_ns: quantile(0.99),
            max_ns: self.max_ns,
        }
    }
}

/// The bucket of `ns`.
#[inline]
fn bucket(ns: u64) -> usize {
    // As many bits as do not fit.
    let shift = (63 - DIGITS).saturating_sub((ns | 1).leading_zeros());
    ((u64::from(shift) << DIGITS) + (ns >> shift)) as usize
}

/// The largest time in a bucket.
fn last_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < LINEAR {
        return bucket;
    }
    let shift = (bucket >> DIGITS) - 1;
    let first = bucket - (shift << DIGITS);
    ((first + 1) << shift) - 1
}

/// The time in the middle of a bucket, which is never above the largest.
fn middle_of(bucket: usize) -> u64 {
    match bucket.checked_sub(1) {
        Some(before) => (last_of(before) + 1).midpoint(last_of(bucket)),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_in_a_narrow_bucket() {
        let mut before = 0;
        for power in 0..40 {
            for part in 0..1000 {
                let ns = (1_u64 << power) + (part << power) / 1000;
                let (bucket, last) = (bucket(ns), last_of(bucket(ns)));
                assert!(last >= ns && (last - ns) * 64 <= ns, "{ns} in a bucket up to {last}");
                assert!(bucket >= before, "{ns}");
                before = bucket;
            }
        }
        assert_eq!((bucket(0), last_of(bucket(0))), (0, 0));
        assert_eq!(last_of(bucket(LARGEST)), LARGEST);
    }

    #[test]
    fn counts_do_not_end_at_32_bits() {
        let mut times = Times::new();
        (1..=3).for_each(|ns| times.record(ns));
        times.counts[3] = u32::MAX;
        times.record(3);
        times.count = (1 << 32) + 2;
        assert_eq!(times.spread(), Spread { p50_ns: 3, p95_ns: 3, p99_ns: 3, max_ns: 3 });
    }

    #[test]
    fn buckets_follow_each_other_without_gaps() {
        for place in 0..bucket(LARGEST) {
            assert_eq!(bucket(last_of(place)), place);
            assert_eq!(bucket(last_of(place) + 1), place + 1);
        }
    }

    #[test]
    fn a_spread_is_near_what_was_recorded() {
        let mut times = Times::new();
        assert_eq!((times.spread(), times.count()), (Spread::default(), 0));
        (1..=1000).for_each(|micros| times.record(micros * 1000));
        let Spread { p50_ns, p95_ns, p99_ns, max_ns } = times.spread();
        assert!(p50_ns.abs_diff(500_000) <= 5_000 && p95_ns.abs_diff(950_000) <= 10_000);
        assert!(p99_ns.abs_diff(990_000) <= 10_000 && max_ns == 1_000_000);
        times.record(u64::MAX);
        assert_eq!((times.count(), times.spread().max_ns), (1001, u64::MAX));
    }
}
