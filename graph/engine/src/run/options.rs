//! How a graph is run, as opposed to what it is.

use std::{sync::Arc, time::Duration};

use afferent_graph::{Packet, Timestamp};

use crate::{ClockKind, Failure};

/// How many threads a graph gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Threads {
    /// Sources and heavy nodes get one each, light nodes run on that of the node before them;
    /// nodes with the same `thread` word share one.
    #[default]
    Auto,
    /// One for everything. Needs no wakes, and runs nothing in parallel.
    Single,
}

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
    /// They see every call, packet and failure.
    pub observers: Vec<Arc<dyn Observer>>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            threads: Threads::Auto,
            clock: ClockKind::Real,
            duration: None,
            drain: Duration::from_secs(2),
            grace: Duration::from_secs(5),
            observers: Vec::new(),
        }
    }
}

/// One call of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallSpan<'s> {
    /// Its name.
    pub node: &'s str,
    /// Its thread, from zero.
    pub thread: usize,
    /// The input that the packet of the call came in by.
    pub input: Option<&'s str>,
    /// The packet of a source that it sent, or that it descends from; zero for none.
    pub trace: u64,
    /// Begin and end on the real clock, in nanoseconds since the start of the session.
    pub real_ns: (u64, u64),
    /// Of which models ran, in nanoseconds.
    pub model_ns: u64,
}

/// Looks on while a graph runs. Called on the threads of the nodes: be quick, and do not block.
pub trait Observer: Send + Sync {
    /// Every node is open and none has run. Called once, on the thread that starts the session.
    ///
    /// # Errors
    /// Why it cannot look on; then no node runs.
    fn begin(&self) -> Result<(), String> {
        Ok(())
    }

    /// A call of a node has ended.
    fn called(&self, call: &CallSpan<'_>) {
        let _ = call;
    }

    /// `node` sent `packet` by its output `port` when the clock of the session showed `now`.
    fn sent(&self, node: &str, port: &str, now: Timestamp, packet: &Packet) {
        let _ = (node, port, now, packet);
    }

    /// How many packets of `node` and its output `port` it may hold at a time, of all that it holds.
    /// So many more values are kept for it.
    fn holds(&self, node: &str, port: &str) -> usize {
        let _ = (node, port);
        0
    }

    /// A call failed; `failure.handled` says what is done about it. The rest goes on.
    fn failed(&self, failure: &Failure) {
        let _ = failure;
    }
}
