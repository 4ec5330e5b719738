//! The node `python`: a node written in Python, which runs in a process of its own.
//!
//! | module | holds |
//! |---|---|
//! | `python_node` | [`PythonNode`], the node |
//! | `description` | ports and parameters of a Python file, which a child process tells |
//! | `child` | the process of a node, and the link to it |
//!
//! Begin with `python_node.rs`. The other end of the link is `python/afferent/serve.py`.

mod child;
mod description;
mod python_node;

pub use python_node::PythonNode;

/// The nodes of this crate.
pub const NODES: &[afferent_graph::NodeEntry] = &[PythonNode::def];
