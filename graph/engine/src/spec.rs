//! A graph as somebody writes it: plain data, in YAML or in Rust.

use std::{path::PathBuf, time::Duration};

use afferent_graph::{OnFull, ParamValues};

/// A dataflow graph, before it is checked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Graph {
    /// Its name.
    pub name: String,
    /// Folder that relative paths start from.
    pub folder: PathBuf,
    /// Its nodes, in the order of the file.
    pub nodes: Vec<NodeSpec>,
}

/// One node of a [`Graph`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeSpec {
    /// Unique within the graph.
    pub name: String,
    /// What it is: a name of the catalogue.
    pub kind: String,
    /// The streams that it receives.
    pub inputs: Vec<InputSpec>,
    /// Its settings; absent ones have their default.
    pub params: ParamValues,
    /// Nodes with the same word share a thread; the planner decides for nodes without one.
    pub thread: Option<String>,
}

/// One stream into a node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InputSpec {
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
}
