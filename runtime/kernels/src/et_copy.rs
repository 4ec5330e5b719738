//! The operators of the namespace `et_copy`.

use afferent_core::Kernel;

mod d2h_copy;
mod h2d_copy;

/// Every kernel of the namespace, one slice a file, alphabetical.
pub(crate) const KERNELS: &[&[Kernel]] = &[d2h_copy::KERNELS, h2d_copy::KERNELS];
