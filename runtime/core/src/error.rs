//! The one error of kernels, delegates and tensors.

use core::fmt;

use crate::ScalarType;

/// Why a tensor, a kernel or a delegate refused.
///
/// Names and number groups follow ExecuTorch `runtime/core/error.h`. The error is small and holds
/// no string of its own, so that it serves a microcontroller; the executor adds the method, the
/// instruction and the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The runtime broke its own rule; please report it.
    #[error("internal fault: {reason}")]
    Internal {
        /// The rule.
        reason: &'static str,
    },
    /// The run was cancelled between two instructions.
    #[error("the run was cancelled")]
    Cancelled,
    /// The request is legal but not implemented.
    #[error("not supported: {what}")]
    NotSupported {
        /// What would be needed.
        what: &'static str,
    },
    /// An argument has the wrong shape or value.
    #[error("argument {index}: expected {expected}")]
    InvalidArgument {
        /// Position in the operator's argument list.
        index: u8,
        /// What would have been accepted.
        expected: &'static str,
    },
    /// An argument has the wrong dtype.
    #[error("argument {index}: dtype {found} is not accepted here")]
    InvalidType {
        /// Position in the operator's argument list.
        index: u8,
        /// Its dtype.
        found: ScalarType,
    },
    /// A tensor holds elements of another dtype than the caller asked for.
    #[error("the tensor holds {found}, not {wanted}")]
    DtypeMismatch {
        /// Asked for.
        wanted: ScalarType,
        /// What it holds.
        found: ScalarType,
    },
    /// Sizes, dim order and number of bytes do not describe one tensor.
    #[error("not a valid tensor: {reason}")]
    InvalidTensor {
        /// What is wrong.
        reason: &'static str,
    },
    /// A result does not fit the memory that the program planned for it.
    #[error("a result of {needed} bytes does not fit the {planned} bytes planned for it")]
    MemoryAllocationFailed {
        /// Bytes of the result.
        needed: usize,
        /// Bytes that the program planned.
        planned: usize,
    },
    /// There is no memory: scratch memory of a kernel, which the executor provides where it can
    /// before it calls again, that of a delegate, or that of an owned tensor.
    #[error("there is no memory of {bytes} bytes")]
    OutOfResources {
        /// Bytes that are needed, alignment included.
        bytes: usize,
    },
    /// A backend cannot read a compiled blob.
    #[error("the compiled blob cannot be read: {reason}")]
    DelegateInvalidCompatibility {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A backend found a fault in an entry of a compiled blob.
    #[error("the compiled blob cannot be read: {entry} {index}: {field} {reason}")]
    InvalidBlob {
        /// What kind of entry it is.
        entry: BlobEntry,
        /// Number of the entry.
        index: u32,
        /// Its field.
        field: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A compiled blob asks for what a backend does not do.
    #[error("not supported in the compiled blob: {entry} {index}: {what}")]
    UnsupportedBlob {
        /// What kind of entry it is.
        entry: BlobEntry,
        /// Number of the entry.
        index: u32,
        /// What would be needed.
        what: &'static str,
    },
}

/// A kind of entry of a compiled blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlobEntry {
    /// The graph itself.
    Graph,
    /// A tensor.
    Value,
    /// An operation.
    Node,
}

impl fmt::Display for BlobEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Graph => "graph",
            Self::Value => "value",
            Self::Node => "node",
        })
    }
}

impl Error {
    /// The number of this error in ExecuTorch.
    pub const fn code(self) -> u32 {
        match self {
            Self::Internal { .. } => 0x01,
            Self::Cancelled => 0x02,
            Self::NotSupported { .. } | Self::UnsupportedBlob { .. } => 0x10,
            Self::InvalidArgument { .. } | Self::InvalidTensor { .. } => 0x12,
            Self::InvalidType { .. } | Self::DtypeMismatch { .. } => 0x13,
            Self::MemoryAllocationFailed { .. } => 0x21,
            Self::OutOfResources { .. } => 0x25,
            Self::DelegateInvalidCompatibility { .. } | Self::InvalidBlob { .. } => 0x30,
        }
    }
}
