//! GPU devices: one device and one queue for each process, buffers, compute shaders in WGSL.
//!
//! | module          | contents                                                         |
//! |-----------------|------------------------------------------------------------------|
//! | `options`       | choice of the adapter                                            |
//! | `device`        | the device, which is opened on first use, and its faults         |
//! | `buffer`        | device buffers                                                   |
//! | `memory`        | device memory of tensors, which is read back when the host looks |
//! | `pipeline`      | compute pipelines by shader source                               |
//! | `pipeline_file` | compiled shaders of earlier processes                            |
//! | `commands`      | dispatches, readback, time stamps                                |
//! | `error`         | errors                                                           |
//!
//! [`Gpu`] is a service: a program makes one and gives it to its backends and nodes as a value.
//! Nothing touches the driver until [`Gpu::device`] is called for the first time.
//!
//! **Invariant:** a failed device gives errors. No call of this crate panics on an error of the
//! driver, an invalid shader or a lack of memory.

#![deny(unsafe_code)]

mod buffer;
mod commands;
mod device;
mod error;
mod memory;
mod options;
mod pipeline;
mod pipeline_file;

pub use buffer::Buffer;
pub use commands::{Dispatch, Readback};
pub use device::{Counts, Device, DeviceInfo, DeviceKind, Gpu};
pub use error::GpuError;
pub use memory::DeviceMemory;
pub use options::GpuOptions;
pub use pipeline::{Access, BindGroup, Binding, Pipeline};
