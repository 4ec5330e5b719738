//! The portable operators, one file each, in one folder for each namespace.
//!
//! To add one to `aten`: write `src/aten/<op>.rs` with a `KERNELS` constant and add its two lines
//! to `src/aten.rs`.

#![cfg_attr(not(test), no_std)]

use afferent_core::Kernel;

mod accumulator;
mod along;
mod aten;
mod batch_norm;
mod bytes;
mod conv;
mod distance;
mod dtype;
mod elements;
mod extremum;
mod loops;
mod matmul;
mod norm;
mod reduce;
mod upsample;
mod window;

/// The operators of ATen, one slice per file, alphabetical.
pub const ATEN: &[&[Kernel]] = aten::KERNELS;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_qualified() {
        let mut seen = BTreeSet::new();
        for kernel in ATEN.iter().copied().flatten() {
            assert!(kernel.name.starts_with("aten::"), "{}", kernel.name);
            assert!(seen.insert(kernel.name), "{} stands twice", kernel.name);
        }
    }
}
