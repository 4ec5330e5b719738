//! Core types of the runtime: tensors, values, kernels, backends and delegates.
//!
//! To write a kernel, begin with `kernel` and `args`; to write a backend, with `backend`.
//!
//! | module | holds |
//! |---|---|
//! | `scalar_type`, `shape` | dtypes; sizes, dim order, strides, broadcasting |
//! | `view`, `slot` | input tensors of a kernel; tensors of a loaded method |
//! | `value`, `args` | values of a method (`EValue`); arguments of one call |
//! | `kernel` | kernels, kernel lists, selective build, the context of a call |
//! | `backend` | backends, delegates, the weight cache |
//! | `error` | errors of kernels, delegates and tensors |
//! | `floats` | values of tensors of any floating-point type (feature `alloc`) |
//! | `tensor`, `call` | owned tensors; kernel calls without a program (feature `alloc`) |
//! | `aligned_bytes`, `foreign` | memory of tensors: allocated, or of another owner (feature `alloc`) |
//! | `services` | typed map of services (feature `alloc`) |
//!
//! **Invariant:** this crate opens no file, starts no thread, reads no clock and, without the
//! feature `alloc`, allocates nothing.
//! **Invariant:** it knows no kernel and no backend by name; both are passed in.

#![cfg_attr(not(test), no_std)]

#[cfg(feature = "alloc")]
extern crate alloc;

#[cfg(feature = "alloc")]
mod aligned_bytes;
mod args;
mod backend;
#[cfg(feature = "alloc")]
mod call;
mod error;
#[cfg(feature = "alloc")]
mod floats;
#[cfg(feature = "alloc")]
mod foreign;
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

#[cfg(feature = "alloc")]
pub use aligned_bytes::AlignedBytes;
pub use args::{Args, IntList, Signature, TensorList};
pub use backend::{Backend, CompileSpec, Delegate, DelegateHandle, DelegateSource};
#[cfg(feature = "alloc")]
pub use backend::{SharedBytes, WeightCache};
#[cfg(feature = "alloc")]
pub use call::{Argument, Call};
pub use error::{BlobEntry, Error};
#[cfg(feature = "alloc")]
pub use floats::{read_float_range, read_floats, tensor_of};
#[cfg(feature = "alloc")]
pub use foreign::{ForeignBytes, Memory};
pub use kernel::{
    Arg, DelegateObserver, Kernel, KernelContext, KernelFn, KernelLists, OpPattern, Workers,
    find_kernel, select_kernels,
};
pub use scalar_type::{Bool, Element, ScalarType};
#[cfg(feature = "alloc")]
pub use services::{Service, ServiceMissing, Services};
pub use shape::{
    CONTIGUOUS_DIM_ORDER, Dims, MAX_DIMS, broadcast_shapes, dims_equal, is_dim_order, is_row_major,
    numel,
};
#[cfg(feature = "alloc")]
pub use slot::Residence;
pub use slot::{Dynamism, SlicePosition, TensorMut, TensorSlot};
#[cfg(feature = "alloc")]
pub use tensor::Tensor;
pub use value::{EValue, Scalar};
pub use view::TensorView;

/// Half-precision types of the `half` crate.
pub use half::{bf16, f16};
