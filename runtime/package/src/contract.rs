//! Contracts of models that nodes accept.

/// Interface of the programs of a model, and the node that runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contract {
    /// Node that runs the model.
    pub node: &'static str,
    /// `task` in `model.yaml`.
    pub task: &'static str,
    /// `contract` in `model.yaml`. Exporters that change their contract add their version, as in
    /// `whisper-rne@0.8`.
    pub contract: &'static str,
    /// True if the classes of the model may have names.
    pub has_labels: bool,
}
