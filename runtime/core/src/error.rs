//! Error type of kernels, delegates and tensors.

use core::fmt;

use crate::ScalarType;

/// Error of a kernel, a delegate or a tensor operation.
///
/// Names and codes follow ExecuTorch `runtime/core/error.h`. The error is small and owns no string,
/// so it suits a microcontroller. The executor adds the method, the instruction and the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An invariant of the runtime does not hold. This is a bug; please report it.
    #[error("internal error: {reason}")]
    Internal {
        /// The invariant.
        reason: &'static str,
    },
    /// The run was canceled between two instructions.
    #[error("the run was canceled")]
    Canceled,
    /// The request is valid but not implemented.
    #[error("not supported: {what}")]
    NotSupported {
        /// The missing feature.
        what: &'static str,
    },
    /// An argument has the wrong shape or value.
    #[error("argument {index}: expected {expected}")]
    InvalidArgument {
        /// Index in the operator's argument list.
        index: u8,
        /// Accepted shapes or values.
        expected: &'static str,
    },
    /// An argument has the wrong dtype.
    #[error("argument {index}: dtype {found} is not supported")]
    InvalidType {
        /// Index in the operator's argument list.
        index: u8,
        /// Dtype of the argument.
        found: ScalarType,
    },
    /// The dtype of a tensor is not the requested one.
    #[error("the tensor holds {found}, not {expected}")]
    DtypeMismatch {
        /// Requested dtype.
        expected: ScalarType,
        /// Dtype of the tensor.
        found: ScalarType,
    },
    /// Sizes, dim order and number of bytes do not describe a tensor.
    #[error("not a valid tensor: {reason}")]
    InvalidTensor {
        /// Failed check.
        reason: &'static str,
    },
    /// A result exceeds the memory that the program planned for it.
    #[error("a result of {needed} bytes does not fit the {planned} bytes planned for it")]
    MemoryAllocationFailed {
        /// Bytes of the result.
        needed: usize,
        /// Bytes that the program planned.
        planned: usize,
    },
    /// Memory is missing: scratch memory of a kernel, memory of a delegate, or memory of an owned
    /// tensor. For a kernel the executor provides it, if it can, and calls the kernel again.
    #[error("out of memory: {bytes} bytes are needed")]
    OutOfResources {
        /// Bytes that are needed, including alignment.
        bytes: usize,
    },
    /// The device of a backend failed.
    #[error("the device failed: {reason}")]
    DeviceFailed {
        /// The failure.
        reason: &'static str,
    },
    /// A backend cannot read a compiled blob.
    #[error("the compiled blob cannot be read: {reason}")]
    DelegateInvalidCompatibility {
        /// Failed check.
        reason: &'static str,
    },
    /// An entry of a compiled blob is invalid.
    #[error("the compiled blob cannot be read: {entry} {index}: {field} {reason}")]
    InvalidBlob {
        /// Kind of the entry.
        entry: BlobEntry,
        /// Index of the entry.
        index: u32,
        /// Node type, or field of the entry.
        field: &'static str,
        /// Failed check.
        reason: &'static str,
    },
    /// A backend does not implement an entry of a compiled blob.
    #[error("not supported in the compiled blob: {entry} {index}: {field} {what}")]
    UnsupportedBlob {
        /// Kind of the entry.
        entry: BlobEntry,
        /// Index of the entry.
        index: u32,
        /// Node type, or field of the entry.
        field: &'static str,
        /// The missing feature.
        what: &'static str,
    },
}

/// Kind of an entry of a compiled blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlobEntry {
    /// The graph itself.
    Graph,
    /// A tensor.
    Value,
    /// A node.
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
    /// ExecuTorch's code for this error.
    pub const fn code(self) -> u32 {
        match self {
            Self::Internal { .. } => 0x01,
            Self::Canceled => 0x02,
            Self::NotSupported { .. } | Self::UnsupportedBlob { .. } => 0x10,
            Self::InvalidArgument { .. } | Self::InvalidTensor { .. } => 0x12,
            Self::InvalidType { .. } | Self::DtypeMismatch { .. } => 0x13,
            Self::MemoryAllocationFailed { .. } => 0x21,
            Self::OutOfResources { .. } => 0x25,
            Self::DeviceFailed { .. } => 0x32,
            Self::DelegateInvalidCompatibility { .. } | Self::InvalidBlob { .. } => 0x30,
        }
    }
}
