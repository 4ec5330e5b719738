//! Operators of the namespace `et_copy`.

use afferent_core::Kernel;

mod d2h_copy;
mod h2d_copy;

/// Kernels of the namespace, one slice per file, in alphabetical order.
pub(crate) const KERNELS: &[&[Kernel]] = &[d2h_copy::KERNELS, h2d_copy::KERNELS];
