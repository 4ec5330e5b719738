//! A graph as somebody writes it: plain data, in YAML or in Rust.

use std::{path::PathBuf, time::Duration};

use afferent_graph::{OnFull, ParamValues};

use crate::{OnError, OnTimeFault, Schedule, SyncPolicy};

/// A dataflow graph, before it is checked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Graph {
    /// Its name.
    pub name: String,
    /// Folder that relative paths start from.
    pub folder: PathBuf,
    /// Its nodes, in the order of the file.
    pub nodes: Vec<NodeConfig>,
    /// How long it may take from one port to another.
    pub budgets: Vec<Budget>,
    /// What stops what.
    pub interrupt: Option<Interrupt>,
    /// Outputs that work goes through one after the other, whose times are of interest.
    pub waterfall: Vec<PortRef>,
}

/// A port of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortRef {
    /// The node.
    pub node: String,
    /// Its port; empty for the only output of the node.
    pub port: String,
}

/// How long it may take from one port to another.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Budget {
    /// Where the time starts.
    pub from: PortRef,
    /// Where it ends.
    pub to: PortRef,
    /// Limit that half of the times keep.
    pub p50: Option<Duration>,
    /// Limit that 95 % of the times keep.
    pub p95: Option<Duration>,
    /// Limit that 99 % of the times keep.
    pub p99: Option<Duration>,
    /// Limit that every time keeps.
    pub max: Option<Duration>,
}

/// What stops what: a packet of `on` makes all work of the cancelled nodes obsolete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interrupt {
    /// The output that interrupts.
    pub on: PortRef,
    /// The nodes that it cancels.
    pub cancels: Vec<String>,
}

/// One node of a [`Graph`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeConfig {
    /// Unique within the graph.
    pub name: String,
    /// What it is: a name of the catalogue.
    pub kind: String,
    /// The streams that it receives.
    pub inputs: Vec<InputConfig>,
    /// Its settings; absent ones have their default. A [`ParamValue::Text`] stands for a value of
    /// any kind, written as in a graph file.
    ///
    /// [`ParamValue::Text`]: afferent_graph::ParamValue::Text
    pub params: ParamValues,
    /// Where it runs.
    pub schedule: Schedule,
    /// What happens when it errs, panics, or exceeds its deadline.
    pub on_error: OnError,
    /// How long a call may take on the real clock.
    pub deadline: Option<Duration>,
    /// What becomes of packets that it sends with a time earlier than the one before.
    pub on_time_fault: OnTimeFault,
}

/// One stream into a node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InputConfig {
    /// The input; empty for the only one of the node.
    pub port: String,
    /// The node that sends.
    pub from_node: String,
    /// Its output.
    pub from_port: String,
    /// What happens when the queue is full; by default what the payload says.
    pub on_full: Option<OnFull>,
    /// How many packets may wait.
    pub queue: Option<usize>,
    /// Packets older than this are dropped when their turn comes.
    pub max_age: Option<Duration>,
    /// How it accompanies the stream of the node that has none of these.
    pub sync: Option<SyncPolicy>,
    /// How long a packet of that stream waits for this one.
    pub timeout: Option<Duration>,
    /// How many of its packets may be under way behind it, 1 to 65536. By default 2 for a stream of
    /// a source with `latest`; of others, and with `usize::MAX`, any number.
    pub in_flight: Option<usize>,
    /// Whether the stream leads back to a node that its sender descends from.
    pub feedback: bool,
}
