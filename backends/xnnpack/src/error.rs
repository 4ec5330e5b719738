//! Errors that several modules return.

use afferent_core::Error;

/// The shapes of an operator's inputs do not match.
pub(crate) const SHAPE_MISMATCH: Error = Error::InvalidTensor {
    reason: "input shapes of an XNNPACK operator do not match; use the shapes of the export",
};

/// The delegate reached its memory limit.
pub(crate) const MEMORY_LIMIT: Error = Error::InvalidTensor {
    reason: "the XNNPACK delegate needs more memory than `memory_limit` allows; raise the limit",
};

/// A tensor or a buffer exceeds the largest supported size.
pub(crate) const TENSOR_TOO_LARGE: Error =
    Error::InvalidTensor { reason: "a tensor of the XNNPACK delegate exceeds 4 GiB" };
