//! Backend `VulkanBackend`: runs programs that ExecuTorch exported for Vulkan or WebGPU, with
//! compute shaders in WGSL on the device of `afferent-gpu`.
//!
//! A compiled blob is a graph of ATen operators. The backend checks it, fuses calls, records the
//! shader runs of each operator, plans the memory of all values on the device, and runs one compute
//! pass for each call of the delegate. Tensors are buffers in row-major order; the blob's choices of
//! textures and packed layouts do not matter. Start with `backend`, then follow the table.
//!
//! | module          | contents                                                          |
//! |-----------------|-------------------------------------------------------------------|
//! | `backend`       | availability and initialization                                   |
//! | `blob`          | parser: bytes to a checked graph                                  |
//! | `graph`         | values and calls                                                  |
//! | `fusion`        | graph passes                                                      |
//! | `recorder`      | live sizes, SymInts, shader runs                                  |
//! | `op`            | operators, a file for each family                                 |
//! | `shader`        | builder of the source of a shader                                 |
//! | `memory_plan`   | lifetimes and reuse of memory                                     |
//! | `delegate`      | hot path: records again for new sizes, uploads, runs, reads back  |
//! | `exchange`      | arguments and results that stay on the device                     |
//! | `convert`       | elements of arguments and constants to elements on the device     |
//! | `shape`, `error` | sizes; errors of the device                                      |
//!
//! Floating-point tensors are `f32` on the device, also those of `force_fp16` programs. An operator
//! that is not implemented is an error at load that names it.
//!
//! **Invariant:** no blob causes a panic or an access outside of its tensors. Allocations exceed the
//! size of blob and data by at most the memory limit.
//!
//! Source: ExecuTorch `backends/vulkan/serialization/schema.fbs`, file identifier `VK00`, after the
//! header `VH00`; schemas in `backends/vulkan/op_registry.py`.

#![forbid(unsafe_code)]

mod backend;
mod blob;
mod convert;
mod delegate;
mod error;
mod exchange;
mod fusion;
mod graph;
mod memory_plan;
mod op;
mod recorder;
mod shader;
mod shape;
#[cfg(test)]
mod testing;

pub use backend::Vulkan;
pub use op::operators;
