//! Policies for nodes that return an error, panic, or exceed their deadline.

use std::time::Duration;

/// Policy for a failed call: an error, a panic, or an exceeded deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// The node is not called again: its streams end, the rest of the graph continues, and the run
    /// fails at the end.
    #[default]
    Stop,
    /// The node is closed and reopened after a delay; its inputs wait in their queues. Receivers
    /// learn of it by [`Cx::restarted`](afferent_graph::Cx::restarted).
    Restart(Restart),
    /// The packets of the call are dropped, and the node continues with the next packet.
    Degrade(Degrade),
}

/// Restart policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restart {
    /// Delay of the first restart; doubled with each further one, up to 30 s.
    pub backoff: Duration,
    /// Restarts before the node is stopped. After a minute without failure, count and delay start
    /// over.
    pub limit: u32,
}

/// Replacement of the packets of a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Degrade {
    /// No packet.
    #[default]
    Nothing,
    /// On each output the previous value, with the timestamp of the packet of the call.
    Last,
}

impl Default for Restart {
    fn default() -> Self {
        Self { backoff: Duration::from_millis(100), limit: 5 }
    }
}

impl Restart {
    /// Longest delay of a restart.
    pub const LONGEST: Duration = Duration::from_secs(30);
    /// Time without failure after which a node is healthy.
    pub const HEALTHY: Duration = Duration::from_secs(60);
}
