//! The operators of the namespace `aten`.

use afferent_core::Kernel;

mod add;

/// One slice a file, alphabetical.
pub(crate) const KERNELS: &[&[Kernel]] = &[add::KERNELS];
