//! Errors of a run.

use std::io;

use afferent_graph::NodeError;

use crate::{Failure, Report};

/// Why a graph did not start, or did not end well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// An edge leads from or to a port that does not exist.
    #[error("edge {edge}: there is no such port")]
    Edge {
        /// Sender and receiver.
        edge: String,
    },
    /// Nodes wait for each other.
    #[error("nodes {} feed each other in a circle: take one of their edges out", nodes.join(", "))]
    Circle {
        /// The nodes of the circle, and those behind it.
        nodes: Vec<String>,
    },
    /// A node did not open; no node has run.
    #[error("node {node}: {error}")]
    Open {
        /// Its name.
        node: String,
        /// What it says.
        error: NodeError,
    },
    /// A node panicked while it opened; no node has run.
    #[error("node {node} panicked while it opened: {message}")]
    OpenPanic {
        /// Its name.
        node: String,
        /// The text of the panic.
        message: String,
    },
    /// Who was to look on cannot, as its [`Observer::begin`] says; no node has run.
    ///
    /// [`Observer::begin`]: crate::Observer::begin
    #[error("{0}")]
    Observer(String),
    /// The operating system has no thread for the graph; no node has run.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// Nodes failed while the graph ran; the rest went on to the end.
    #[error("{}", failures_text(&.0.failures))]
    Failed(Box<Report>),
}

fn failures_text(failures: &[Failure]) -> String {
    failures.iter().map(Failure::to_string).collect::<Vec<_>>().join("; ")
}
