//! `cortex_m::maximum.out`: larger of two tensors.
//!
//! | argument | type      | shape                     |
//! |----------|-----------|---------------------------|
//! | `self`   | i8 tensor | any                       |
//! | `other`  | i8 tensor | broadcasts with `self`    |
//! | `out`    | i8 tensor | broadcast of both         |
//!
//! Larger of two quantized numbers with equal scales and zero points. Exact.
//! Errors: sizes that do not broadcast, other dtypes.
//! Source: CMSIS-NN `arm_maximum_s8`.

use afferent_core::{Arg, Kernel};

use crate::shared::int8::broadcast::broadcast;

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("cortex_m::maximum.out", &[Arg::Tensor, Arg::Tensor, Arg::Out], |_, args| {
        broadcast(args, Ord::max)
    })];
