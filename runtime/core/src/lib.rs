//! Tensors, values, kernels and delegates: the vocabulary of the runtime.
//!
//! | module         | holds                                                                  |
//! |----------------|------------------------------------------------------------------------|
//! | `scalar_type`  | the dtypes of ExecuTorch and the Rust types that stand for them        |
//! | `shape`        | sizes, dim order, strides, broadcasting                                |
//! | `view`         | a borrowed tensor, as a kernel reads it                                |
//! | `slot`         | a tensor of a loaded method, as a kernel writes it                     |
//! | `value`        | the values of a method: tensors, scalars, lists                        |
//! | `args`         | the arguments of one call                                              |
//! | `kernel`       | an operator with its signature and function; lists of them             |
//! | `backend`      | what runs a delegated part of a method                                 |
//! | `tensor`, `call` | owned tensors, and a kernel called on them (feature `alloc`)         |
//!
//! **Invariant:** this crate opens no file, starts no thread, reads no clock and, without the
//! feature `alloc`, allocates nothing.
//! **Invariant:** it knows neither a concrete kernel nor a concrete backend; both are passed in.

#![cfg_attr(not(test), no_std)]

#[cfg(feature = "alloc")]
extern crate alloc;

mod args;
mod backend;
#[cfg(feature = "alloc")]
mod call;
mod error;
mod kernel;
mod scalar_type;
#[cfg(feature = "alloc")]
mod services;
mod shape;
mod slot;
#[cfg(feature = "alloc")]
mod tensor;
mod value;
mod view;

pub use args::{Args, IntList, Signature, TensorList};
pub use backend::{Backend, CompileSpec, Delegate, DelegateHandle, DelegateSource};
#[cfg(feature = "alloc")]
pub use backend::{Prepared, SharedBytes};
#[cfg(feature = "alloc")]
pub use call::{Argument, Call};
pub use error::{BlobEntry, Error};
pub use kernel::{
    Arg, Kernel, KernelContext, KernelFn, KernelLists, Rows, Workers, find_kernel, pick_kernels,
};
pub use scalar_type::{Bool, Element, ScalarType};
#[cfg(feature = "alloc")]
pub use services::{Service, ServiceMissing, Services};
pub use shape::{CONTIGUOUS, Dims, MAX_DIMS, broadcast_shapes, is_dim_order, numel, same};
pub use slot::{Dynamism, Row, TensorMut, TensorSlot};
#[cfg(feature = "alloc")]
pub use tensor::{AlignedBytes, Tensor};
pub use value::{EValue, Scalar};
pub use view::TensorView;

/// The half-precision types, as the `half` crate defines them.
pub use half::{bf16, f16};
