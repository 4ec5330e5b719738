//! Runs the parts of programs that were compiled for XNNPACK, on our own kernels.
//!
//! It needs nothing but the processor. The compiled blob is a graph of nodes over tensors whose
//! channels lie together; it is checked, compiled to steps with packed weights, and run.
//!
//! | file          | holds                                                              |
//! |---------------|--------------------------------------------------------------------|
//! | `backend`     | the entry of the list of backends                                  |
//! | `blob`        | bytes → a checked graph                                            |
//! | `graph`       | that graph: values and nodes                                       |
//! | `plan`        | a graph → steps, and where their results lie                       |
//! | `delegate`    | the steps, run                                                     |
//! | `op`          | what a step is, and one file for each kind of step                 |
//! | `shape`       | sizes of tensors, windows over pictures                            |
//!
//! Weights of a fully connected layer that `bf16` or `f16` can hold are kept in 16 bits, whatever
//! the program has them in. Who rounds a model before its export (in PyTorch
//! `model.bfloat16().float()`) so halves the memory that its layers take and read. Of other large
//! layers 24 bits are kept, an integer for each weight and a unit for each output: a weight moves by
//! 2⁻²³ of the largest one of its output at most, which changes a sum no more than another order of
//! its products does. Layers with outputs of which more than one weight in 128 is zero, or the largest
//! far from the mean, stay as they are.
//!
//! What it does not run is an error at load that names the node or the value: scaled dot-product
//! attention as one node, unsigned and packed integers, paddings that TensorFlow computes.
//!
//! **Invariant:** no blob makes it panic, reach memory outside of its tensors, or allocate more
//! than a fixed limit beyond what the blob and its data take.
//!
//! Source: ExecuTorch `backends/xnnpack/serialization/schema.fbs`, file identifiers `XN00` and
//! `XN01`, in a file by itself or behind the header `XH00`.

#![forbid(unsafe_code)]

mod backend;
mod blob;
mod delegate;
mod graph;
mod op;
mod plan;
mod shape;

pub use backend::{XNNPACK, Xnnpack};
