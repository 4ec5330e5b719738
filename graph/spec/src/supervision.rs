//! What happens when a node errs, panics, or exceeds its deadline.

use std::time::Duration;

/// What happens when a call of a node fails: it errs, panics, or exceeds its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// It is not called again: its streams end, the rest goes on, and the run fails in the end.
    #[default]
    Stop,
    /// It is closed, and opened again after a while; its inputs wait in their queues. Who receives
    /// from it is told by [`Cx::restarted`](afferent_graph::Cx::restarted).
    Restart(Restart),
    /// What the call sent is dropped, and the node is called with the next packet.
    Degrade(Degrade),
}

/// How a node is restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restart {
    /// Time before the first restart; it doubles with each that follows, up to 30 s.
    pub backoff: Duration,
    /// Restarts before the node is stopped. Who works for a minute starts over, with both.
    pub limit: u32,
}

/// What stands in for the results of a call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Degrade {
    /// Nothing.
    #[default]
    Nothing,
    /// On each output the value before, with the time of the packet of the call.
    Last,
}

impl Default for Restart {
    fn default() -> Self {
        Self { backoff: Duration::from_millis(100), limit: 5 }
    }
}

impl Restart {
    /// The longest time before a restart.
    pub const LONGEST: Duration = Duration::from_secs(30);
    /// Who works for so long is healthy again.
    pub const HEALTHY: Duration = Duration::from_secs(60);
}
