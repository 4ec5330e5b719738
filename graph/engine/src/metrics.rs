//! What is measured about a node while it runs: always on, and without allocation.

use afferent_graph::Timestamp;
use hdrhistogram::Histogram;

use crate::Spread;

/// The figures of one node, kept by the thread that runs it.
pub(crate) struct NodeStats {
    pub(crate) calls: u64,
    pub(crate) packets_in: u64,
    pub(crate) packets_out: u64,
    pub(crate) timestamp_faults: u64,
    pub(crate) errors: u64,
    pub(crate) interrupts: u64,
    pub(crate) cancelled: u64,
    pub(crate) busy_ns: u64,
    pub(crate) model_ns: u64,
    call: Histogram<u64>,
    latency: Histogram<u64>,
    /// The earliest and the latest packet that a source sent.
    pub(crate) media: Option<(Timestamp, Timestamp)>,
}

impl NodeStats {
    pub(crate) fn new() -> Self {
        Self {
            calls: 0,
            packets_in: 0,
            packets_out: 0,
            timestamp_faults: 0,
            errors: 0,
            interrupts: 0,
            cancelled: 0,
            busy_ns: 0,
            model_ns: 0,
            call: histogram(),
            latency: histogram(),
            media: None,
        }
    }

    /// Counts a call that took `busy_ns`, and `latency_ns` since its packet left the source.
    pub(crate) fn count_call(&mut self, busy_ns: u64, model_ns: u64, latency_ns: Option<u64>) {
        self.calls += 1;
        self.busy_ns += busy_ns;
        self.model_ns += model_ns;
        self.call.saturating_record(busy_ns);
        if let Some(latency_ns) = latency_ns {
            self.packets_in += 1;
            self.latency.saturating_record(latency_ns);
        }
    }

    pub(crate) fn count_media(&mut self, at: Timestamp) {
        let (first, last) = self.media.unwrap_or((at, at));
        self.media = Some((first.min(at), last.max(at)));
    }

    pub(crate) fn call(&self) -> Spread {
        spread(&self.call)
    }

    pub(crate) fn latency(&self) -> Spread {
        spread(&self.latency)
    }
}

/// From a nanosecond to ten minutes, to two digits: about 40 KiB, all of it allocated here.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 600_000_000_000, 2).expect("the bounds are valid")
}

fn spread(histogram: &Histogram<u64>) -> Spread {
    if histogram.is_empty() {
        return Spread::default();
    }
    // A bucket ends above the values in it; none is larger than the maximum.
    let max_ns = histogram.max();
    let quantile = |q| histogram.value_at_quantile(q).min(max_ns);
    Spread { p50_ns: quantile(0.5), p99_ns: quantile(0.99), max_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_near_what_was_recorded() {
        let mut stats = NodeStats::new();
        assert_eq!(stats.call(), Spread::default());
        for micros in 1..=1000 {
            stats.count_call(micros * 1000, 0, None);
        }
        let Spread { p50_ns, p99_ns, .. } = stats.call();
        assert!(p50_ns.abs_diff(500_000) <= 5_000 && p99_ns.abs_diff(990_000) <= 10_000);
        assert_eq!((stats.calls, stats.packets_in, stats.busy_ns), (1000, 0, 500_500_000));
        assert_eq!(stats.latency(), Spread::default());
    }

    #[test]
    fn a_value_beyond_the_bounds_is_counted_too() {
        let mut stats = NodeStats::new();
        stats.count_call(0, 0, Some(u64::MAX));
        assert!(stats.latency().p50_ns >= 600_000_000_000);
    }
}
