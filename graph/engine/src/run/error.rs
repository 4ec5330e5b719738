//! Errors of a run.

use std::io;

use afferent_graph::NodeError;

use crate::{Failure, Report};

/// A graph could not start, or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// An edge names a port that does not exist.
    #[error("edge {edge}: there is no such port")]
    Edge {
        /// Sender and receiver.
        edge: String,
    },
    /// The graph is spread over several processes.
    #[error("the graph is spread over {} processes ({}), and only one can be started: run all of it \
             in one process with --here", partitions.len(), partitions.join(", "))]
    Spread {
        /// Names of the processes.
        partitions: Vec<String>,
    },
    /// Nodes form a cycle without a feedback edge.
    #[error("nodes {} feed each other in a cycle: take one of their edges out", nodes.join(", "))]
    Cycle {
        /// Nodes of the cycle, and those downstream of it.
        nodes: Vec<String>,
    },
    /// A node could not be opened; no node has run.
    #[error("node {node}: {error}")]
    Open {
        /// Name of the node.
        node: String,
        /// Its error.
        error: NodeError,
    },
    /// A node panicked while it was opened; no node has run.
    #[error("node {node} panicked while it opened: {message}")]
    OpenPanic {
        /// Name of the node.
        node: String,
        /// Message of the panic.
        message: String,
    },
    /// [`Observer::begin`] failed; no node has run.
    ///
    /// [`Observer::begin`]: crate::Observer::begin
    #[error("{0}")]
    Observer(String),
    /// [`Border::begin`] failed; no node has run.
    ///
    /// [`Border::begin`]: crate::Border::begin
    #[error("{0}")]
    Border(String),
    /// The operating system could not start a thread; no node has run.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// Nodes failed during the run; the rest of the graph ran to its end.
    #[error("{}", failures_text(&.0.failures))]
    Failed(Box<Report>),
}

fn failures_text(failures: &[Failure]) -> String {
    failures.iter().map(Failure::to_string).collect::<Vec<_>>().join("; ")
}
