//! How a graph is run, as opposed to what it is.

use std::{sync::Arc, time::Duration};

use afferent_graph::Packet;

use crate::{ClockKind, Failure, Threads};

/// How to run a graph.
#[derive(Clone)]
pub struct RunOptions {
    /// How many threads.
    pub threads: Threads,
    /// Which clock.
    pub clock: ClockKind,
    /// Stop after this much time on the clock of the session. On the virtual clock it is reached
    /// only if the sources name times to be called at.
    pub duration: Option<Duration>,
    /// How long what is under way may take after a stop.
    pub drain: Duration,
    /// How long a call may then take to return before its thread is left behind.
    pub grace: Duration,
    /// Sees every packet and every failure.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            threads: Threads::Auto,
            clock: ClockKind::Real,
            duration: None,
            drain: Duration::from_secs(2),
            grace: Duration::from_secs(5),
            observer: None,
        }
    }
}

/// Looks on while a graph runs. Called on the threads of the nodes: be quick, and do not block.
pub trait Observer: Send + Sync {
    /// `node` sent `packet` by its output `port`.
    fn sent(&self, node: &str, port: &'static str, packet: &Packet) {
        let _ = (node, port, packet);
    }

    /// A call failed; `failure.handled` says what is done about it. The rest goes on.
    fn failed(&self, failure: &Failure) {
        let _ = failure;
    }
}
