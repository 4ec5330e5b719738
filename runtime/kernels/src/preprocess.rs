//! Operators of the namespace `preprocess`.

use afferent_core::Kernel;

mod tile_crop;

/// Kernels of the namespace, one slice per file, in alphabetical order.
pub(crate) const KERNELS: &[&[Kernel]] = &[tile_crop::KERNELS];
