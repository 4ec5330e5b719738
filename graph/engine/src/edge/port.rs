//! Ports of a running node.

use std::mem;

use afferent_graph::{Header, InputInfo, Packet, Timestamp};

use crate::{
    clock::generation,
    edge::{Inlet, Outlet, timeline::Timeline},
    metrics::{budget::Mark, histogram::Times},
};

/// Input stream. Fields that every packet needs come first.
#[repr(C)]
pub(crate) struct Input {
    pub(crate) inbound: InputInfo,
    /// Timestamp of the last packet that the node was called with.
    pub(crate) last_at: Timestamp,
    /// Restarts of the sender of that packet.
    pub(crate) restarts: u32,
    /// True for a feedback edge.
    pub(crate) feedback: bool,
    /// True if the edge has an in-flight limit.
    pub(crate) limited: bool,
    pub(crate) inlet: Inlet,
    /// Index of the edge in the graph.
    pub(crate) edge: usize,
    /// Budgets that are measured here.
    pub(crate) marks: Vec<Mark>,
    /// Age of packets at the call.
    pub(crate) ages: Times,
}

impl Input {
    /// Registers a call with the packet of this header; `before` is the header of the packet before
    /// it. Returns whether the sender has been restarted since then, and whether its time restarts
    /// with this packet.
    #[inline(always)]
    pub(crate) fn receive(&mut self, header: &Header, before: &Header) -> (bool, bool) {
        let restarted = mem::replace(&mut self.restarts, header.restarts) != header.restarts;
        let last_at = mem::replace(&mut self.last_at, header.at);
        let order = || generation::compare_generations(header.trace, before.trace);
        let goes_back = || order().is_some_and(std::cmp::Ordering::is_gt) || header.at < last_at;
        (restarted, restarted && goes_back())
    }

    /// Records the age of a packet with timestamp `at`.
    #[inline]
    pub(crate) fn count_age(&mut self, now: Timestamp, at: Timestamp, is_sampled: bool) {
        // A timestamp may be ahead of the clock.
        self.ages.sample(is_sampled, now.0.saturating_sub(at.0).max(0) as u64);
    }
}

/// Output stream. Fields that every packet needs come first.
#[repr(C)]
pub(crate) struct Output {
    pub(crate) timeline: Timeline,
    pub(crate) outlets: Vec<Outlet>,
    pub(crate) port: std::sync::Arc<str>,
    /// True if its packets interrupt the graph.
    pub(crate) interrupts: bool,
    /// True if a downstream synchronizer needs its watermark.
    pub(crate) needs_watermark: bool,
    /// Last packet, for nodes that degrade to it.
    pub(crate) last: Option<Packet>,
    /// Budgets that are measured here.
    pub(crate) marks: Vec<Mark>,
}

impl AsMut<Timeline> for Output {
    #[inline(always)]
    fn as_mut(&mut self) -> &mut Timeline {
        &mut self.timeline
    }
}
