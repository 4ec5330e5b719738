//! Errors of the backend.

use afferent_core::Error;

/// The delegate reached its memory limit.
pub(crate) const MEMORY_LIMIT: Error = Error::InvalidTensor {
    reason: "the Vulkan delegate needs more memory than `memory_limit` allows; raise the limit",
};
