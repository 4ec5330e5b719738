//! Errors of the device, and as errors of a delegate.

use afferent_core::Error;

/// Error of the device or the driver.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// The options turn the GPU off.
    #[error("the GPU is off because AFFERENT_GPU is `off`; unset it")]
    Off,
    /// The machine has no GPU that a driver offers.
    #[error(
        "no GPU: no Vulkan, Metal or Direct3D 12 driver offers a device; install the driver of \
         the GPU, or mesa-vulkan-drivers for a software device"
    )]
    NoAdapter,
    /// No adapter matches the options.
    #[error("no GPU matches AFFERENT_GPU `{wanted}`; this machine has: {found}")]
    NoMatch {
        /// Requested kind or name.
        wanted: String,
        /// Names of the adapters.
        found: String,
    },
    /// The driver refuses to open the device.
    #[error("the GPU {name} cannot be opened: {reason}")]
    Open {
        /// Name of the adapter.
        name: String,
        /// Message of the driver.
        reason: String,
    },
    /// The driver has lost the device. It stays lost until the program starts again.
    #[error("the driver lost the GPU ({reason}); restart the program")]
    Lost {
        /// Message of the driver.
        reason: String,
    },
    /// The device has no memory for a buffer.
    #[error("the GPU has no memory for {bytes} bytes")]
    OutOfMemory {
        /// Size of the buffer.
        bytes: u64,
    },
    /// The driver has no memory for a command, whose size is not known.
    #[error("the GPU has no more memory; close other programs or use a smaller model")]
    Exhausted,
    /// A buffer exceeds the limit of the device.
    #[error(
        "a buffer of {bytes} bytes exceeds the {limit} bytes that a shader of this GPU can use"
    )]
    BufferTooLarge {
        /// Size of the buffer.
        bytes: u64,
        /// Limit of the device.
        limit: u64,
    },
    /// The driver refuses a shader or a command.
    #[error("the GPU refuses a shader or a command: {reason}")]
    Invalid {
        /// Message of the driver.
        reason: String,
    },
}

impl From<GpuError> for Error {
    fn from(error: GpuError) -> Self {
        match error {
            GpuError::OutOfMemory { bytes } => {
                Self::OutOfResources { bytes: usize::try_from(bytes).unwrap_or(usize::MAX) }
            }
            GpuError::Exhausted => Self::DeviceFailed { reason: "the GPU has no more memory" },
            GpuError::BufferTooLarge { .. } => Self::InvalidTensor {
                reason: "a tensor exceeds the largest buffer that a shader of this GPU can use",
            },
            GpuError::Off | GpuError::NoAdapter | GpuError::NoMatch { .. } => {
                Self::NotSupported { what: "a machine without a GPU that AFFERENT_GPU allows" }
            }
            GpuError::Lost { .. } => {
                Self::DeviceFailed { reason: "the GPU was lost; restart the program" }
            }
            GpuError::Open { .. } => Self::DeviceFailed { reason: "the GPU cannot be opened" },
            GpuError::Invalid { .. } => {
                Self::DeviceFailed { reason: "the driver refuses a shader or a command" }
            }
        }
    }
}
