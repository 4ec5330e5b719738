//! From a graph file to a running graph.

mod check;
mod checked;
mod diagnostic;
mod draw;
mod load;
mod spec;
mod suggest;
mod yaml;

pub use check::{Checked, check, load_and_check};
pub use checked::{CheckedGraph, CheckedNode, Edge, EdgePolicy};
pub use diagnostic::{Diagnostic, Diagnostics, Place, Severity};
pub use draw::{DrawFormat, UnknownFormat, draw};
pub use load::{LoadOptions, Loaded, load, parse};
pub use spec::{Budget, Graph, InputSpec, Interrupt, NodeSpec, PortRef};
