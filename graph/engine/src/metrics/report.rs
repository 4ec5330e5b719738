//! What a run was like: plain figures, for files and for [`Report::write_summary`].

use serde::{Deserialize, Serialize};

/// What a run was like.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Report {
    /// Name of the graph.
    pub graph: String,
    /// How the run ended.
    pub end: RunEnd,
    /// How long it took on the real clock, in nanoseconds.
    pub wall_ns: u64,
    /// Time between the first and the last packet that a source sent, by their time stamps, in
    /// nanoseconds.
    pub media_ns: u64,
    /// How long nodes computed, in nanoseconds, all threads together.
    pub busy_ns: u64,
    /// `busy_ns / media_ns`: the share of one processor that the graph needs to keep up.
    pub real_time_factor: Option<f64>,
    /// `wall_ns / media_ns`.
    pub wall_per_media: Option<f64>,
    /// In the order of the graph.
    pub nodes: Vec<NodeReport>,
    /// In the order of the graph.
    pub edges: Vec<EdgeReport>,
    /// From every source to every node that sends to nobody, where packets came through.
    pub paths: Vec<PathReport>,
    /// The memory of every output.
    pub pools: Vec<PoolReport>,
    /// In the order of the graph.
    pub budgets: Vec<BudgetReport>,
    /// Nodes that did not end well.
    pub failures: Vec<Failure>,
}

impl Report {
    /// What the node `name` did.
    pub fn node(&self, name: &str) -> Option<&NodeReport> {
        self.nodes.iter().find(|node| node.name == name)
    }

    /// What the edge from `node.output` to `node.input` did.
    pub fn edge(&self, from: &str, to: &str) -> Option<&EdgeReport> {
        self.edges.iter().find(|edge| edge.from == from && edge.to == to)
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEnd {
    /// It has not ended.
    #[default]
    Running,
    /// Every node that sends to nobody ended by itself, and then what was left.
    Complete,
    /// It was stopped, and what was under way was finished.
    Stopped,
    /// It was stopped, and what was under way took longer than the limit and was dropped.
    Cut,
}

/// What one node did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NodeReport {
    /// Its name.
    pub name: String,
    /// The thread that it ran on, from zero.
    pub thread: usize,
    /// Calls.
    pub calls: u64,
    /// Packets that it was called with.
    pub packets_in: u64,
    /// Packets that it sent.
    pub packets_out: u64,
    /// Packets that were dropped because they were older than the one before them.
    pub timestamp_faults: u64,
    /// Packets that were dropped because the node has no output of that index.
    #[serde(default)]
    pub undeclared: u64,
    /// Calls that ended in an error or a panic.
    pub errors: u64,
    /// Calls that exceeded the deadline; they count as errors too.
    pub overruns: u64,
    /// How often it was opened again.
    pub restarts: u64,
    /// Calls whose results were dropped or replaced, because they failed.
    pub degraded: u64,
    /// What the last call that failed said.
    pub last_error: Option<String>,
    /// How often an interrupt cancelled its work; several at once count as one.
    pub interrupts: u64,
    /// Packets that calls made which were obsolete by then.
    pub cancelled: u64,
    /// Time in calls, in nanoseconds.
    pub busy_ns: u64,
    /// Of which models ran, in nanoseconds.
    pub model_ns: u64,
    /// Time of one call.
    pub call: Spread,
    /// Time from when a packet left its source to the end of the call with what came of it; of the
    /// first thousand packets of each source and one of eight after them, the largest of all.
    pub latency: Spread,
}

/// How a time was distributed, in nanoseconds, to about 1 %. All zero when nothing was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Spread {
    /// Half of the values are not above this.
    pub p50_ns: u64,
    /// 95 % of the values are not above this.
    pub p95_ns: u64,
    /// 99 % of the values are not above this.
    pub p99_ns: u64,
    /// The largest.
    pub max_ns: u64,
}

/// How long packets took from a source to the end of their way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathReport {
    /// The source.
    pub from: String,
    /// The node that sends to nobody.
    pub to: String,
    /// How many packets that descend from the source came there.
    pub measured: u64,
    /// Time from when the source sent to the end of the call with what came of it.
    pub latency: Spread,
}

/// The memory of the values of one output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolReport {
    /// As `node.output`.
    pub output: String,
    /// How many values can be under way, by the queues and nodes of the graph.
    pub values: usize,
    /// How many were made. More than `values` means that a node keeps packets.
    pub made: usize,
    /// How many wait to be filled again.
    pub free: usize,
}

/// How long it took from one port to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetReport {
    /// Where the time starts, as `node.port`.
    pub from: String,
    /// Where it ends, as `node.port`.
    pub to: String,
    /// How often it was measured: once for each trace that passed both.
    pub measured: u64,
    /// The median, what 95 % and 99 % keep, and the largest, in nanoseconds.
    pub found_ns: [u64; 4],
    /// The limits of these, where there are any.
    pub limits_ns: [Option<u64>; 4],
    /// Whether something was measured and all limits were kept.
    pub kept: bool,
}

/// What one edge did.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct EdgeReport {
    /// Sender, as `node.output`.
    pub from: String,
    /// Receiver, as `node.input`.
    pub to: String,
    /// Whether it led from one thread to another.
    pub crosses: bool,
    /// How many of its packets may be under way behind it, where that is limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<usize>,
    /// Its packets.
    #[serde(flatten)]
    pub counts: EdgeCounts,
    /// Packets that were delivered in a second on the clock of the session.
    pub rate_hz: f64,
    /// How old packets were by their time stamps when they were delivered; of as many as
    /// [`NodeReport::latency`].
    pub age: Spread,
    /// What became of those that were delivered, where the receiver joins streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join: Option<JoinCounts>,
}

/// What became of the packets of a stream that is joined with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JoinCounts {
    /// The node was called with them.
    pub matched: u64,
    /// Of the leading stream: went on before it was sure what belongs to them. Of another: came
    /// when the packet that they belong to was gone.
    pub late: u64,
    /// Of the leading stream: had no companion. Of another: belonged to nothing, or there were too
    /// many.
    pub dropped: u64,
}

/// The packets of an edge: `sent == delivered + dropped() + depth`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EdgeCounts {
    /// Sent into it.
    pub sent: u64,
    /// Handed to the receiver.
    pub delivered: u64,
    /// Dropped because the queue was full.
    pub dropped_full: u64,
    /// Dropped because they had grown older than `max_age`.
    pub dropped_age: u64,
    /// Dropped because an interrupt made them obsolete.
    pub dropped_epoch: u64,
    /// Dropped because the receiver had stopped, or draining was cut short.
    pub dropped_closed: u64,
    /// Waiting now.
    pub depth: usize,
    /// Most that ever waited.
    pub peak: usize,
}

impl EdgeCounts {
    /// Dropped for any reason.
    pub fn dropped(&self) -> u64 {
        self.dropped_full + self.dropped_age + self.dropped_epoch + self.dropped_closed
    }

    /// Counts packets that were handed to the receiver as soon as they were sent.
    pub(crate) fn add_passed(&mut self, packets: u64) {
        self.sent += packets;
        self.delivered += packets;
        self.peak = self.peak.max(usize::from(packets > 0));
    }
}

/// A call, or a node, that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Its name.
    pub node: String,
    /// What happened.
    pub kind: FailureKind,
    /// The error, or the text of the panic.
    pub message: String,
    /// What is done about it.
    pub handled: Handled,
}

/// What is done about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Handled {
    /// The node is not called again.
    #[default]
    Stopped,
    /// The node is opened again.
    Restarted,
    /// The node goes on with the next packet.
    Degraded,
}

/// What happened to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// It returned an error.
    Error,
    /// It panicked.
    Panic,
    /// A call exceeded the deadline of the node.
    Late,
    /// It did not return from a call, and its thread was left behind.
    Stuck,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { node, kind, message, .. } = self;
        match kind {
            FailureKind::Error | FailureKind::Late => write!(f, "node {node}: {message}"),
            FailureKind::Panic => write!(f, "node {node} panicked: {message}"),
            FailureKind::Stuck => write!(f, "node {node} is stuck: {message}"),
        }
    }
}
