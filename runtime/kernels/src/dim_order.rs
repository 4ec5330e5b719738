//! Operators of the namespace `dim_order_ops`.

use afferent_core::Kernel;

mod clone_dim_order;
mod empty_dim_order;
mod to_dim_order_copy;

/// Kernels of the namespace, one slice per file, in alphabetical order.
pub(crate) const KERNELS: &[&[Kernel]] =
    &[clone_dim_order::KERNELS, empty_dim_order::KERNELS, to_dim_order_copy::KERNELS];
