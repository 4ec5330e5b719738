//! From a graph file to a running graph.

mod checked;
mod diagnostic;
mod spec;
mod suggest;
mod yaml;

pub use checked::{CheckedGraph, CheckedNode, Edge, EdgePolicy};
pub use diagnostic::{Diagnostic, Diagnostics, Place, Severity};
pub use spec::{Graph, InputSpec, NodeSpec};
