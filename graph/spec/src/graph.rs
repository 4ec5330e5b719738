//! A graph as written, in YAML or in Rust: plain data.

use std::{path::PathBuf, time::Duration};

use afferent_graph::{OnFull, ParamValues};

use crate::{MachineConfig, OnError, OnLoss, OnTimeFault, Schedule, SyncPolicy};

/// A dataflow graph, before it is checked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Graph {
    /// Name of the graph.
    pub name: String,
    /// Base folder of relative paths.
    pub folder: PathBuf,
    /// Machines, in the order of the file. The first one is the default of the nodes.
    pub machines: Vec<MachineConfig>,
    /// Nodes, in the order of the file.
    pub nodes: Vec<NodeConfig>,
    /// Latency budgets.
    pub budgets: Vec<Budget>,
    /// Interrupt.
    pub interrupt: Option<Interrupt>,
    /// Outputs of the latency waterfall, in the order of the work.
    pub waterfall: Vec<PortRef>,
}

/// A port of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortRef {
    /// Name of the node.
    pub node: String,
    /// Name of the port; empty for the only output of the node.
    pub port: String,
}

/// Latency budget from one port to another.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Budget {
    /// Start of the measurement.
    pub from: PortRef,
    /// End of the measurement.
    pub to: PortRef,
    /// Limit of the median.
    pub p50: Option<Duration>,
    /// Limit of the 95th percentile.
    pub p95: Option<Duration>,
    /// Limit of the 99th percentile.
    pub p99: Option<Duration>,
    /// Limit of the maximum.
    pub max: Option<Duration>,
}

/// Interrupt: a packet of `on` makes all work of the canceled nodes obsolete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interrupt {
    /// Output that interrupts.
    pub on: PortRef,
    /// Nodes to cancel.
    pub cancels: Vec<String>,
}

/// One node of a [`Graph`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeConfig {
    /// Unique within the graph.
    pub name: String,
    /// Node type: a name of the catalog.
    pub kind: String,
    /// Input streams.
    pub inputs: Vec<InputConfig>,
    /// Parameters; absent ones have their defaults. A [`ParamValue::Text`] stands for a value of
    /// any kind, in the form of a graph file.
    ///
    /// [`ParamValue::Text`]: afferent_graph::ParamValue::Text
    pub params: ParamValues,
    /// Thread and scheduling.
    pub schedule: Schedule,
    /// Machine that runs the node; the first one by default.
    pub machine: Option<String>,
    /// Process of the machine that runs the node; its main process by default.
    pub process: Option<String>,
    /// Policy for calls that return an error, panic, or exceed the deadline.
    pub on_error: OnError,
    /// Longest duration of a call on the real clock.
    pub deadline: Option<Duration>,
    /// Policy for packets with wrong timestamps.
    pub on_time_fault: OnTimeFault,
}

/// Input stream of a node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InputConfig {
    /// Input; empty for the only one of the node.
    pub port: String,
    /// Sender.
    pub from_node: String,
    /// Output of the sender.
    pub from_port: String,
    /// Policy of a full queue; defaults to that of the payload type.
    pub on_full: Option<OnFull>,
    /// Length of the queue, in packets.
    pub queue: Option<usize>,
    /// Packets older than this are dropped at delivery.
    pub max_age: Option<Duration>,
    /// Sync policy of a secondary input; `None` for the primary one.
    pub sync: Option<SyncPolicy>,
    /// Longest wait of a primary packet for this stream.
    pub timeout: Option<Duration>,
    /// In-flight limit, 1 to 65536. Defaults to 2 for a stream of a source with `latest`. Other
    /// streams, and `usize::MAX`, have no limit.
    pub in_flight: Option<usize>,
    /// True for a feedback edge, which leads to an ancestor of its sender.
    pub feedback: bool,
    /// Reaction to the loss of a sender in another process; defaults to [`OnLoss::Wait`].
    pub on_loss: Option<OnLoss>,
    /// Time after which the stream of a lost sender ends, with [`OnLoss::Wait`].
    pub loss_timeout: Option<Duration>,
}
