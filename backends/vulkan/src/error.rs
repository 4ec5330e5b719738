//! Errors of the device as errors of a delegate.

use afferent_core::Error;
use afferent_gpu::GpuError;

/// Converts an error of the device.
pub(crate) fn from_gpu(error: GpuError) -> Error {
    match error {
        GpuError::OutOfMemory { bytes } => {
            Error::OutOfResources { bytes: usize::try_from(bytes).unwrap_or(usize::MAX) }
        }
        GpuError::Exhausted => Error::DeviceFailed { reason: "the GPU has no more memory" },
        GpuError::BufferTooLarge { .. } => Error::InvalidTensor {
            reason: "a tensor exceeds the largest buffer that a shader of this GPU can use",
        },
        GpuError::Off | GpuError::NoAdapter | GpuError::NoMatch { .. } => {
            Error::NotSupported { what: "a machine without a GPU that AFFERENT_GPU allows" }
        }
        GpuError::Lost { .. } => {
            Error::DeviceFailed { reason: "the GPU was lost; restart the program" }
        }
        _ => Error::DeviceFailed { reason: "the driver refuses a shader or a command" },
    }
}

/// The delegate reached its memory limit.
pub(crate) const MEMORY_LIMIT: Error = Error::InvalidTensor {
    reason: "the Vulkan delegate needs more memory than `memory_limit` allows; raise the limit",
};
