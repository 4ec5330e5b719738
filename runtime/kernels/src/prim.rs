//! The operators on numbers, sizes and views: namespace `executorch_prim` and its kin.

use afferent_core::Kernel;

mod et_copy_index;
mod et_view;
mod local_scalar_dense;
mod scalar;
mod sym_size;

/// Every kernel of the namespace, one slice a file, alphabetical.
pub(crate) const KERNELS: &[&[Kernel]] = &[
    et_copy_index::KERNELS,
    et_view::KERNELS,
    local_scalar_dense::KERNELS,
    scalar::KERNELS,
    sym_size::KERNELS,
];
