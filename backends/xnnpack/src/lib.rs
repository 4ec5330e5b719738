//! Backend `XnnpackBackend`: runs programs that ExecuTorch exported for XNNPACK on the kernels of
//! `afferent-simd`. It needs only a CPU.
//!
//! A compiled blob contains a subgraph of nodes over NHWC tensors. The backend checks it, compiles
//! it to a plan of operators with packed weights, and runs the plan. Start with `backend`, then
//! follow the table from top to bottom.
//!
//! | module           | contents                                                     |
//! |------------------|--------------------------------------------------------------|
//! | `backend`        | availability and initialization                              |
//! | `blob`           | parser: bytes to a checked subgraph                          |
//! | `subgraph`       | the subgraph: values and nodes                               |
//! | `plan`           | fusion, lowering to operators, memory planning               |
//! | `delegate`       | hot path: reshapes and runs a plan                           |
//! | `operator`       | the operator interface                                       |
//! | `op`             | operators, one file each                                     |
//! | `pack`           | packed weights and the weight cache                          |
//! | `quantization`   | int8 quantization, static and dynamic                        |
//! | `conv2d_params`, `indirection`, `pooling`, `window` | convolution and pooling   |
//! | `loop_nest`, `shape`, `strided_copy` | sizes, and loops over two tensors        |
//! | `error`, `memory` | shared errors, memory limit                                 |
//!
//! # Weights
//!
//! The weights of a fully connected layer are stored in 16 bits if bf16 or f16 represents them
//! exactly. To halve the memory and the bandwidth of a model, round its weights before the export
//! (in PyTorch: `model.bfloat16().float()`).
//!
//! Other large layers are stored in 24 bits: an integer per weight and a scale per output channel.
//! The rounding error is at most 2⁻²³ of the largest weight of the channel, which is comparable to
//! the effect of another summation order. A layer stays in 32 bits if more than one weight in 128
//! of a channel is zero, or if the largest weight is far from the mean.
//!
//! # Limits
//!
//! An unsupported node or value is an error at load that names its number and type: scaled
//! dot-product attention as one node, unsigned and packed integers, TensorFlow SAME padding.
//!
//! **Invariant:** no blob causes a panic or an access outside of its tensors. Allocations exceed
//! the size of blob and data by at most a fixed limit.
//!
//! Source: ExecuTorch `backends/xnnpack/serialization/schema.fbs`, file identifiers `XN00` and
//! `XN01`, alone or after the header `XH00`.

#![forbid(unsafe_code)]

mod backend;
mod blob;
mod conv2d_params;
mod delegate;
mod error;
mod indirection;
mod loop_nest;
mod memory;
mod op;
mod operator;
mod pack;
mod plan;
mod pooling;
mod quantization;
mod shape;
mod strided_copy;
mod subgraph;
#[cfg(test)]
mod testing;
mod window;

pub use backend::{XNNPACK, Xnnpack};
