//! Options of a run.

use std::{sync::Arc, time::Duration};

use afferent_graph::{Header, Joined, Packet, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{Border, ClockKind, Failure};

/// Number of threads of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Threads {
    /// One thread for each source and heavy node; light nodes run in the thread of the node ahead
    /// of them; nodes with the same `thread` word share a thread.
    #[default]
    Auto,
    /// One thread for all nodes. Needs no wakes and runs nothing in parallel.
    Single,
}

/// Options of a run.
#[derive(Clone)]
pub struct RunOptions {
    /// Number of threads.
    pub threads: Threads,
    /// Session clock.
    pub clock: ClockKind,
    /// Session time after which the run stops. On the virtual clock it is reached only if sources
    /// ask to be called at a time.
    pub duration: Option<Duration>,
    /// Time limit for draining after a stop.
    pub drain: Duration,
    /// Time that a call may then take to return before its thread is abandoned.
    pub grace: Duration,
    /// Observers of every call, packet and failure.
    pub observers: Vec<Arc<dyn Observer>>,
    /// Border of a graph that runs in several processes; not on the virtual clock.
    pub border: Option<Arc<dyn Border>>,
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
            border: None,
        }
    }
}

/// One call of a node.
#[derive(Debug, Clone, Copy)]
pub struct CallSpan<'s> {
    /// Name of the node.
    pub node: &'s str,
    /// Index of its thread.
    pub thread: usize,
    /// Input of the packet of the call.
    pub input: Option<&'s str>,
    /// Trace id of the call; zero for none.
    pub trace: u64,
    /// Start and end in real time, in nanoseconds since the start of the session.
    pub real_ns: (u64, u64),
    /// Time in models, in nanoseconds.
    pub model_ns: u64,
    /// Reason of the call.
    pub cause: CallCause,
    /// Session time at the start.
    pub now: Timestamp,
    /// Header that its packets inherit.
    pub origin: &'s Header,
    /// Packets of the secondary inputs.
    pub joined: &'s [Joined],
    /// True if an interrupt made the call obsolete before its end.
    pub canceled: bool,
}

/// Reason of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallCause {
    /// A time has come, or the node asked for another call.
    #[default]
    Due,
    /// A packet.
    Packet {
        /// Index of its edge in the graph.
        edge: usize,
        /// Its sequence number.
        sequence: u64,
        /// Number of restarts of its sender.
        restarts: u32,
    },
    /// An interrupt.
    Cancel,
    /// The end of the inputs.
    Finish,
}

/// Observer of a running graph. Called on the threads of the nodes: be quick, and do not block.
pub trait Observer: Send + Sync {
    /// Every node is open and none has run. Called once, on the thread that starts the session.
    ///
    /// # Errors
    /// The reason why it cannot observe; then no node runs.
    fn begin(&self) -> Result<(), String> {
        Ok(())
    }

    /// A call of a node has ended.
    fn called(&self, call: &CallSpan<'_>) {
        let _ = call;
    }

    /// `node` sent `packet` through its output `port` at session time `now`.
    fn sent(&self, node: &str, port: &str, now: Timestamp, packet: &Packet) {
        let _ = (node, port, now, packet);
    }

    /// Number of packets of `node` and its output `port` that it may hold at a time. The pool of
    /// the output keeps as many more values.
    fn holds(&self, node: &str, port: &str) -> usize {
        let _ = (node, port);
        0
    }

    /// A call failed; `failure.handled` says how the run reacted. The rest of the graph continues.
    fn failed(&self, failure: &Failure) {
        let _ = failure;
    }
}
