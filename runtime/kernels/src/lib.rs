//! The portable operators, one file each.
//!
//! To add one: write `src/<op>.rs` with a `KERNELS` constant and add the two lines below.

#![cfg_attr(not(test), no_std)]

use afferent_core::Kernel;

mod dtype;

/// Every portable kernel, one slice per operator file, alphabetical.
pub const KERNELS: &[&[Kernel]] = &[];
