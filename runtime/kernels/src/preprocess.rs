//! The operators of the namespace `preprocess`.

use afferent_core::Kernel;

mod tile_crop;

/// Every kernel of the namespace, one slice a file, alphabetical.
pub(crate) const KERNELS: &[&[Kernel]] = &[tile_crop::KERNELS];
