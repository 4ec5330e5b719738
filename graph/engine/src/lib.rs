//! From a graph file to a running graph.

mod checked;
mod spec;

pub use checked::{CheckedGraph, CheckedNode, Edge, EdgePolicy};
pub use spec::{Graph, InputSpec, NodeSpec};
