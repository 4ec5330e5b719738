//! Kernels on scalars, sizes and views: the namespace `executorch_prim` and parts of `aten`.

use afferent_core::Kernel;

mod et_copy_index;
mod et_view;
mod local_scalar_dense;
mod scalar;
mod sym_size;

/// Kernels of the namespace, one slice per file, in alphabetical order.
pub(crate) const KERNELS: &[&[Kernel]] = &[
    et_copy_index::KERNELS,
    et_view::KERNELS,
    local_scalar_dense::KERNELS,
    scalar::KERNELS,
    sym_size::KERNELS,
];
