//! Histogram of durations: recording costs a shift and an increment.

use crate::{Spread, clock::generation::packet_number};

/// Bits of precision of a duration.
const MANTISSA_BITS: u32 = 6;
/// Added to each duration, so that small ones have buckets of their own.
const OFFSET: u64 = 1 << MANTISSA_BITS;
/// Longer durations fall into the last bucket: 18 minutes.
const LARGEST: u64 = (1 << 40) - OFFSET - 1;

/// True if packets of this trace are sampled: the first thousand of each source, then one of eight.
#[inline]
pub(crate) fn is_sampled(trace: u64) -> bool {
    is_one_of(8, trace)
}

/// As [`is_sampled`], with one of `each` after the first thousand. The packets are selected by a
/// hash, so that a node with a period of eight packets is sampled fairly.
#[inline]
pub(crate) fn is_one_of(each: u64, trace: u64) -> bool {
    packet_number(trace) < FULLY_SAMPLED || trace.wrapping_mul(HASH_MULTIPLIER) < u64::MAX / each
}

/// Packets of a source that are all sampled.
const FULLY_SAMPLED: u64 = 1000;
/// Multiplier of Fibonacci hashing (golden ratio).
const HASH_MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// Buckets from 1 ns to 18 minutes.
const BUCKETS: usize = (40 - MANTISSA_BITS as usize) << MANTISSA_BITS;

/// Histogram of durations from 1 ns to 18 minutes, to 1/64.
pub(crate) struct Times {
    /// Counts of each bucket; 32 bits, so that neighboring buckets share cache lines.
    counts: Box<[u32; BUCKETS]>,
    /// Overflows of each count.
    carries: Box<[u32; BUCKETS]>,
    max_ns: u64,
}

impl Times {
    /// Allocates all of its 18 KiB.
    pub(crate) fn new() -> Self {
        Self { counts: Box::new([0; BUCKETS]), carries: Box::new([0; BUCKETS]), max_ns: 0 }
    }

    /// Records the duration of a packet; of one that is not sampled, only the maximum.
    #[inline]
    pub(crate) fn sample(&mut self, is_sampled: bool, ns: u64) {
        if is_sampled {
            self.record(ns);
        } else if ns > self.max_ns {
            self.max_ns = ns;
        }
    }

    #[inline]
    pub(crate) fn record(&mut self, ns: u64) {
        match self.counts.get_mut(bucket(ns)) {
            Some(count) => {
                *count = count.wrapping_add(1);
                if *count == 0 {
                    self.carry(bucket(ns));
                }
            }
            None => self.record(LARGEST),
        }
        if ns > self.max_ns {
            self.max_ns = ns;
        }
    }

    #[cold]
    fn carry(&mut self, bucket: usize) {
        self.carries[bucket] += 1;
    }

    /// Number of recorded durations.
    pub(crate) fn count(&self) -> u64 {
        self.buckets().sum()
    }

    fn buckets(&self) -> impl Iterator<Item = u64> {
        let buckets = self.counts.iter().zip(self.carries.iter());
        buckets.map(|(count, carries)| u64::from(*carries) << 32 | u64::from(*count))
    }

    pub(crate) fn spread(&self) -> Spread {
        let count = self.count();
        let quantile = |share: f64| {
            // Smallest bucket that holds this share of the durations.
            let wanted = ((count as f64 * share).ceil() as u64).max(1);
            let mut seen = 0;
            let bucket = self.buckets().position(|count| {
                seen += count;
                seen >= wanted
            });
            bucket.map_or(0, |bucket| middle_of(bucket).min(self.max_ns))
        };
        Spread {
            p50_ns: quantile(0.5),
            p95_ns: quantile(0.95),
            p99_ns: quantile(0.99),
            max_ns: self.max_ns,
        }
    }
}

/// Bucket of `ns`, from exponent and leading mantissa bits of a floating-point number.
#[inline]
fn bucket(ns: u64) -> usize {
    // Signed integers convert faster, and larger values are past the last bucket.
    let number = (ns as i64).wrapping_add(OFFSET as i64) as f64;
    ((number.to_bits() >> (f64::MANTISSA_DIGITS - 1 - MANTISSA_BITS)) as usize).wrapping_sub(FIRST)
}

/// Value that the smallest bucket is counted from.
const FIRST: usize = ((f64::MAX_EXP - 1 + MANTISSA_BITS as i32) as usize) << MANTISSA_BITS;

/// Largest duration in a bucket.
fn last_of(bucket: usize) -> u64 {
    let (power, mantissa) = (bucket >> MANTISSA_BITS, bucket as u64 % OFFSET);
    ((OFFSET + mantissa + 1) << power) - 1 - OFFSET
}

/// Middle of a bucket, limited to the maximum.
fn middle_of(bucket: usize) -> u64 {
    match bucket.checked_sub(1) {
        Some(before) => (last_of(before) + 1).midpoint(last_of(bucket)),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::generation::trace_id;

    #[test]
    fn the_first_packets_of_a_source_are_all_sampled() {
        for life in [0, 1, 200] {
            assert!((0..FULLY_SAMPLED).all(|number| is_sampled(trace_id(3, life, number))));
            let later = (FULLY_SAMPLED..2 * FULLY_SAMPLED)
                .filter(|number| is_sampled(trace_id(3, life, *number)))
                .count();
            assert!((50..250).contains(&later), "{later}");
        }
    }

    #[test]
    fn every_time_is_in_a_narrow_bucket() {
        let mut before = 0;
        for power in 0..40 {
            for part in 0..1000 {
                let ns = (1_u64 << power) + (part << power) / 1000;
                let (bucket, last) = (bucket(ns), last_of(bucket(ns)));
                let width = (ns + OFFSET) / 64;
                assert!(last >= ns && last - ns < width, "{ns} in a bucket up to {last}");
                assert!(bucket >= before, "{ns}");
                before = bucket;
            }
        }
        assert_eq!((bucket(0), last_of(bucket(0))), (0, 0));
        assert!(last_of(bucket(LARGEST)) >= LARGEST);
        assert!(
            [i64::MAX as u64, 1 << 63, u64::MAX].iter().all(|ns| bucket(*ns) > bucket(LARGEST))
        );
    }

    #[test]
    fn counts_do_not_end_at_32_bits() {
        let mut times = Times::new();
        (1..=3).for_each(|ns| times.record(ns));
        times.counts[3] = u32::MAX;
        times.record(3);
        assert_eq!(times.count(), (1 << 32) + 2);
        assert_eq!(times.spread(), Spread { p50_ns: 3, p95_ns: 3, p99_ns: 3, max_ns: 3 });
    }

    #[test]
    fn buckets_follow_each_other_without_gaps() {
        for index in 0..bucket(LARGEST) {
            assert_eq!(bucket(last_of(index)), index);
            assert_eq!(bucket(last_of(index) + 1), index + 1);
        }
    }

    #[test]
    fn one_of_eight_packets_is_sampled() {
        let trace_id = |number: u64| 5 << 48 | number;
        assert!((0..FULLY_SAMPLED).all(|number| is_sampled(trace_id(number))) && is_sampled(0));
        for part in 0..8 {
            let of_part = (FULLY_SAMPLED..9 * FULLY_SAMPLED).filter(|number| number % 8 == part);
            let sampled = of_part.filter(|number| is_sampled(trace_id(*number))).count();
            assert!((80..170).contains(&sampled), "{sampled} of each {part} of eight");
        }
        let mut times = Times::new();
        times.sample(true, 5);
        times.sample(false, 99_000);
        let Spread { p99_ns, max_ns, .. } = times.spread();
        assert_eq!((times.count(), p99_ns, max_ns), (1, 5, 99_000), "the largest is always seen");
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
