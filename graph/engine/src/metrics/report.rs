//! Figures of a run, for files and for [`Report::write_summary`].

use serde::{Deserialize, Serialize};

/// Figures of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Report {
    /// Name of the graph.
    pub graph: String,
    /// End of the run.
    pub end: RunEnd,
    /// Duration on the real clock, in nanoseconds.
    pub wall_ns: u64,
    /// Time from the first to the last packet of the sources, by their timestamps, in nanoseconds.
    pub media_ns: u64,
    /// Busy time of all nodes on all threads, in nanoseconds.
    pub busy_ns: u64,
    /// `busy_ns / media_ns`: share of one processor that the graph needs to keep up.
    pub real_time_factor: Option<f64>,
    /// `wall_ns / media_ns`.
    pub wall_per_media: Option<f64>,
    /// In the order of the graph.
    pub nodes: Vec<NodeReport>,
    /// In the order of the graph.
    pub edges: Vec<EdgeReport>,
    /// Latency from every source to every sink that received its packets.
    pub paths: Vec<PathReport>,
    /// Pools of every output.
    pub pools: Vec<PoolReport>,
    /// In the order of the graph.
    pub budgets: Vec<BudgetReport>,
    /// Failures of nodes.
    pub failures: Vec<Failure>,
    /// Machines of the graph, in its order; empty for a graph on one machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<MachineReport>,
}

impl Report {
    /// Report of the node `name`.
    pub fn node(&self, name: &str) -> Option<&NodeReport> {
        self.nodes.iter().find(|node| node.name == name)
    }

    /// Report of the edge from `node.output` to `node.input`.
    pub fn edge(&self, from: &str, to: &str) -> Option<&EdgeReport> {
        self.edges.iter().find(|edge| edge.from == from && edge.to == to)
    }
}

/// One machine of a graph on several.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MachineReport {
    /// Name of the machine.
    pub name: String,
    /// Largest difference of its session clock from that of the first machine, in nanoseconds: half
    /// of the shortest round trip, and what is not yet corrected. `None` as long as it is not
    /// known.
    pub clock_bound_ns: Option<u64>,
}

/// End of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEnd {
    /// The run has not ended.
    #[default]
    Running,
    /// Every sink has ended by itself, and then the rest.
    Complete,
    /// The run was stopped and has drained.
    Stopped,
    /// The run was stopped, and draining exceeded its limit: the packets in flight were dropped.
    Cut,
}

/// Figures of one node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NodeReport {
    /// Name of the node.
    pub name: String,
    /// Index of its thread.
    pub thread: usize,
    /// Number of calls.
    pub calls: u64,
    /// Packets that it was called with.
    pub packets_in: u64,
    /// Packets that it sent.
    pub packets_out: u64,
    /// Packets that were dropped or corrected because of their timestamps.
    pub timestamp_faults: u64,
    /// Packets that were dropped because the node has no output of that index.
    #[serde(default)]
    pub undeclared: u64,
    /// Calls that returned an error or panicked.
    pub errors: u64,
    /// Calls that exceeded the deadline; counted as errors, too.
    pub overruns: u64,
    /// Number of restarts.
    pub restarts: u64,
    /// Failed calls whose results were dropped or replaced.
    pub degraded: u64,
    /// Message of the last failed call.
    pub last_error: Option<String>,
    /// Interrupts that canceled its work; several at once count as one.
    pub interrupts: u64,
    /// Packets of calls that were obsolete by the end of the call.
    pub canceled: u64,
    /// Time in calls, in nanoseconds.
    pub busy_ns: u64,
    /// Part of `busy_ns` in models, in nanoseconds.
    pub model_ns: u64,
    /// Duration of a call.
    pub call: Spread,
    /// Time from the source of a packet to the end of the call, without packets of feedback edges.
    /// Sampled from the first thousand packets of each source and one of eight after them; the
    /// maximum covers all.
    pub latency: Spread,
}

/// Distribution of a duration in nanoseconds, to about 1 %. All zero if nothing was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Spread {
    /// Median.
    pub p50_ns: u64,
    /// 95th percentile.
    pub p95_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Maximum.
    pub max_ns: u64,
}

/// Latency from a source to a sink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathReport {
    /// Name of the source.
    pub from: String,
    /// Name of the sink.
    pub to: String,
    /// Packets of the source that reached the sink.
    pub measured: u64,
    /// Time from the source to the end of the call of the sink.
    pub latency: Spread,
    /// Largest error of it, in nanoseconds, because its ends are on machines with clocks of their
    /// own; 0 on one machine.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub clock_bound_ns: u64,
}

/// Pool of one output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolReport {
    /// As `node.output`.
    pub output: String,
    /// Values that can be in flight, by the queues and nodes of the graph.
    pub values: usize,
    /// Values that were allocated. More than `values` means that a node keeps packets.
    pub allocated: usize,
    /// Unused values.
    pub free: usize,
    /// Values that were copied, because the node changed a value that another one held too.
    #[serde(default)]
    pub copied: usize,
}

/// Latency from one port to another, and its limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetReport {
    /// Start of the measurement, as `node.port`.
    pub from: String,
    /// End of the measurement, as `node.port`.
    pub to: String,
    /// Traces that passed both ports.
    pub measured: u64,
    /// Median, 95th percentile, 99th percentile and maximum, in nanoseconds.
    pub found_ns: [u64; 4],
    /// Limits of these, where given.
    pub limits_ns: [Option<u64>; 4],
    /// True if something was measured and all limits were kept.
    pub kept: bool,
    /// Largest error of it, in nanoseconds, because its ends are on machines with clocks of their
    /// own; 0 on one machine.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub clock_bound_ns: u64,
}

/// Figures of one edge.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct EdgeReport {
    /// Sender, as `node.output`.
    pub from: String,
    /// Receiver, as `node.input`.
    pub to: String,
    /// True if it connects two threads.
    pub crosses: bool,
    /// In-flight limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<usize>,
    /// Counters of its packets.
    #[serde(flatten)]
    pub counts: EdgeCounts,
    /// Packets that were sent to another process, and not yet reported by it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub in_transit: u64,
    /// Packets that were lost with a connection or a process.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
    /// True if a process of the edge ended unexpectedly: its own counters are gone, and those of
    /// the edge are at least as given.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
    /// Delivered packets per second of session time.
    pub rate_hz: f64,
    /// Age of packets at delivery, by their timestamps; sampled as [`NodeReport::latency`].
    pub age: Spread,
    /// Results of the synchronizer, if the receiver joins streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join: Option<JoinCounts>,
}

/// Packets of a synchronized input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JoinCounts {
    /// The node was called with them.
    pub matched: u64,
    /// Primary input: went on before the match was certain. Secondary input: arrived after their
    /// match had gone on.
    pub late: u64,
    /// Primary input: had no match. Secondary input: matched nothing, or exceeded the buffer.
    pub dropped: u64,
}

/// Packets of an edge: `sent == delivered + dropped() + depth`, and on an edge between processes `+
/// in_transit + lost` of its [`EdgeReport`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EdgeCounts {
    /// Sent into the edge.
    pub sent: u64,
    /// Delivered to the receiver.
    pub delivered: u64,
    /// Dropped because the queue was full.
    pub dropped_full: u64,
    /// Dropped because they exceeded `max_age`.
    pub dropped_age: u64,
    /// Dropped because an interrupt made them obsolete.
    pub dropped_epoch: u64,
    /// Dropped because the receiver had stopped or draining was cut short.
    pub dropped_closed: u64,
    /// Queued now.
    pub depth: usize,
    /// Largest depth.
    pub peak: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl EdgeCounts {
    /// Dropped for any reason.
    pub fn dropped(&self) -> u64 {
        self.dropped_full + self.dropped_age + self.dropped_epoch + self.dropped_closed
    }

    /// Adds packets that were handed over without queueing.
    pub(crate) fn add_passed(&mut self, packets: u64) {
        self.sent += packets;
        self.delivered += packets;
        self.peak = self.peak.max(usize::from(packets > 0));
    }
}

/// Failure of a call or of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Name of the node.
    pub node: String,
    /// Kind of failure.
    pub kind: FailureKind,
    /// Session time, in nanoseconds.
    pub at_ns: u64,
    /// Error, or message of the panic.
    pub message: String,
    /// Reaction to the failure.
    pub handled: Handled,
}

/// Reaction to a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Handled {
    /// The node is not called again.
    #[default]
    Stopped,
    /// The node is restarted.
    Restarted,
    /// The node continues with the next packet.
    Degraded,
}

/// Kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The node returned an error.
    Error,
    /// The node panicked.
    Panic,
    /// A call exceeded the deadline of the node.
    Late,
    /// The node did not return from a call, and its thread was abandoned.
    Stuck,
    /// The process of the node ended unexpectedly.
    Lost,
    /// The node ended because nothing reads its output any more. Neither logged nor counted.
    Closed,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { node, kind, message, .. } = self;
        match kind {
            FailureKind::Error | FailureKind::Late | FailureKind::Closed => {
                write!(f, "node {node}: {message}")
            }
            FailureKind::Panic => write!(f, "node {node} panicked: {message}"),
            FailureKind::Lost => write!(f, "node {node} is lost: {message}"),
            FailureKind::Stuck => write!(f, "node {node} is stuck: {message}"),
        }
    }
}
