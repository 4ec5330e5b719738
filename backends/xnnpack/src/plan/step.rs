//! Steps of a plan.

use afferent_core::{BlobEntry, Error};

use crate::{error::SHAPE_MISMATCH, operator::Operator};

/// An operator with its inputs and output, which are value indices.
pub(crate) struct Step {
    /// Index of the node in the blob.
    pub(crate) node: u32,
    /// Type of the node, such as `XNNConv2d`.
    pub(crate) node_type: &'static str,
    pub(crate) op: Box<dyn Operator>,
    pub(crate) inputs: Vec<usize>,
    pub(crate) output: usize,
    /// True if the output shares the location of the input: the step does not run.
    pub(crate) is_alias: bool,
}

impl Step {
    /// Adds the node to an error of `reshape`.
    pub(crate) fn locate(&self, error: Error) -> Error {
        if error != SHAPE_MISMATCH {
            return error;
        }
        Error::InvalidBlob {
            entry: BlobEntry::Node,
            index: self.node,
            field: self.node_type,
            reason: "has inputs whose shapes do not match; use the shapes of the export",
        }
    }
}
