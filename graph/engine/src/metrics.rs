//! Counters and histograms of a running node: always on, without allocation.

pub(crate) mod budget;
pub(crate) mod histogram;
pub(crate) mod labels;
pub(crate) mod prometheus;
pub(crate) mod report;
pub(crate) mod summary;

use afferent_graph::Timestamp;

use crate::{Spread, metrics::histogram::Times};

/// Figures of one node, updated by the thread that runs it.
///
/// Fields that every call changes come first.
#[repr(C)]
pub(crate) struct NodeStats {
    calls: u64,
    /// Calls with a packet that were not timed; not part of the other counters.
    untimed: u64,
    pub(crate) busy_ns: u64,
    pub(crate) model_ns: u64,
    packets_in: u64,
    pub(crate) packets_out: u64,
    pub(crate) restarts: u32,
    call: Times,
    latency: Times,
    /// Earliest and latest packet of a source.
    pub(crate) media: Option<(Timestamp, Timestamp)>,
    pub(crate) timestamp_faults: u64,
    pub(crate) errors: u64,
    pub(crate) interrupts: u64,
    pub(crate) canceled: u64,
    pub(crate) degraded: u64,
    pub(crate) overruns: u64,
    pub(crate) last_error: Option<String>,
    /// Latencies of a sink, by the index of the source.
    paths: Vec<(usize, Times)>,
}

impl NodeStats {
    pub(crate) fn new() -> Self {
        Self {
            calls: 0,
            untimed: 0,
            packets_in: 0,
            packets_out: 0,
            timestamp_faults: 0,
            errors: 0,
            interrupts: 0,
            canceled: 0,
            restarts: 0,
            degraded: 0,
            overruns: 0,
            last_error: None,
            busy_ns: 0,
            model_ns: 0,
            call: Times::new(),
            latency: Times::new(),
            paths: Vec::new(),
            media: None,
        }
    }

    /// Counts a call that took `busy_ns`.
    #[inline]
    pub(crate) fn count_call(&mut self, busy_ns: u64, model_ns: u64) {
        self.calls += 1;
        self.busy_ns += busy_ns;
        self.model_ns += model_ns;
        self.call.record(busy_ns);
    }

    /// Counts a call with a packet that was not timed.
    #[inline]
    pub(crate) fn count_untimed(&mut self, model_ns: u64) {
        self.untimed += 1;
        if model_ns > 0 {
            self.model_ns += model_ns;
        }
    }

    /// Number of calls.
    pub(crate) fn calls(&self) -> u64 {
        self.calls + self.untimed
    }

    /// Number of packets that the node was called with.
    pub(crate) fn packets_in(&self) -> u64 {
        self.packets_in + self.untimed
    }

    /// Calls with a packet that were not timed.
    pub(crate) fn untimed(&self) -> u64 {
        self.untimed
    }

    /// Counts the packet of a call, whose trace started `latency_ns` before the end of the call.
    #[inline]
    pub(crate) fn count_packet(&mut self, is_sampled: bool, latency_ns: u64) {
        self.packets_in += 1;
        self.latency.sample(is_sampled, latency_ns);
    }

    /// Counts the packet of a feedback edge, which has no latency.
    pub(crate) fn count_feedback_packet(&mut self) {
        self.packets_in += 1;
    }

    /// Records `latency_ns` since the packet of a call left the source `source`.
    pub(crate) fn count_path(&mut self, source: usize, latency_ns: u64) {
        match self.paths.iter_mut().find(|(known, _)| *known == source) {
            Some((_, times)) => times.record(latency_ns),
            None => {
                let mut times = Times::new();
                times.record(latency_ns);
                self.paths.push((source, times));
            }
        }
    }

    /// Sources, each with the number of packets and their latency.
    pub(crate) fn paths(&self) -> impl Iterator<Item = (usize, u64, Spread)> {
        self.paths.iter().map(|(source, times)| (*source, times.count(), times.spread()))
    }

    pub(crate) fn count_media(&mut self, at: Timestamp) {
        let (first, last) = self.media.unwrap_or((at, at));
        self.media = Some((first.min(at), last.max(at)));
    }

    pub(crate) fn call(&self) -> Spread {
        self.call.spread()
    }

    pub(crate) fn latency(&self) -> Spread {
        self.latency.spread()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_near_what_was_recorded() {
        let mut stats = NodeStats::new();
        assert_eq!(stats.call(), Spread::default());
        for micros in 1..=1000 {
            stats.count_call(micros * 1000, 0);
        }
        let Spread { p50_ns, p99_ns, .. } = stats.call();
        assert!(p50_ns.abs_diff(500_000) <= 5_000 && p99_ns.abs_diff(990_000) <= 10_000);
        assert_eq!((stats.calls(), stats.packets_in(), stats.busy_ns), (1000, 0, 500_500_000));
        assert_eq!(stats.latency(), Spread::default());
    }

    #[test]
    fn a_value_beyond_the_bounds_is_counted_too() {
        let mut stats = NodeStats::new();
        stats.count_packet(true, u64::MAX);
        assert!(stats.latency().p50_ns >= 600_000_000_000);
    }
}
