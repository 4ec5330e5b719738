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

pub use backend::Xnnpack;
