//! The ports of a running node.

use std::mem;

use afferent_graph::{Header, InputInfo, Packet, Timestamp};

use crate::{
    clock::generation,
    edge::{Inlet, Outlet, timeline::Timeline},
    metrics::{budget::Mark, histogram::Times},
};

/// An input stream. What every packet needs stands together.
#[repr(C)]
pub(crate) struct Input {
    pub(crate) inbound: InputInfo,
    /// Time of the last packet that the node was called with.
    pub(crate) last_at: Timestamp,
    /// How often the sender of that packet had been restarted.
    pub(crate) restarts: u32,
    /// Whether it leads back to a node that its sender descends from.
    pub(crate) feedback: bool,
    /// Whether only so many of its packets may be under way behind it.
    pub(crate) limited: bool,
    pub(crate) inlet: Inlet,
    /// Place in the edges of the graph.
    pub(crate) edge: usize,
    /// Budgets that are measured here.
    pub(crate) marks: Vec<Mark>,
    /// How old packets were when the node was called with them.
    pub(crate) ages: Times,
}

impl Input {
    /// Notes that the node is called with the packet with this header; `before` is that of what it
    /// worked on last. Whether its sender has been restarted since the packet before, and whether
    /// time has begun anew with it.
    #[inline(always)]
    pub(crate) fn receive(&mut self, header: &Header, before: &Header) -> (bool, bool) {
        let restarted = mem::replace(&mut self.restarts, header.restarts) != header.restarts;
        let last_at = mem::replace(&mut self.last_at, header.at);
        let order = || generation::compare(header.trace, before.trace);
        let goes_back = || order().is_some_and(std::cmp::Ordering::is_gt) || header.at < last_at;
        (restarted, restarted && goes_back())
    }

    /// Counts how old a packet of the time `at` is now.
    #[inline]
    pub(crate) fn count_age(&mut self, now: Timestamp, at: Timestamp, is_sampled: bool) {
        // A time stamp may lie ahead of the clock.
        self.ages.sample(is_sampled, now.0.saturating_sub(at.0).max(0) as u64);
    }
}

/// An output stream. What every packet needs stands together.
#[repr(C)]
pub(crate) struct Output {
    pub(crate) timeline: Timeline,
    pub(crate) outlets: Vec<Outlet>,
    pub(crate) port: std::sync::Arc<str>,
    /// Whether its packets interrupt the graph.
    pub(crate) interrupts: bool,
    /// Whether receivers want to know when it has nothing to say.
    pub(crate) tells: bool,
    /// The last packet, when it stands in for results of a call that fails.
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
