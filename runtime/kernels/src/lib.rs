//! The portable operators, one file each.
//!
//! To add one: write `src/<namespace>/<op>.rs` with a `KERNELS` constant and add the two lines to
//! `src/<namespace>.rs`.

#![cfg_attr(not(test), no_std)]

use afferent_core::Kernel;

mod aten;
mod division;
mod dtype;
mod limit;
mod pointwise;

/// The operators of the namespace `aten`.
pub const ATEN: &[&[Kernel]] = aten::KERNELS;

/// Every portable kernel, one list a namespace.
pub const KERNELS: &[&[&[Kernel]]] = &[ATEN];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_qualified() {
        let all = KERNELS.iter().copied().flatten().copied().flatten();
        let mut names: Vec<&str> = all.map(|kernel| kernel.name).collect();
        let count = names.len();
        assert!(names.iter().all(|name| name.contains("::")), "{names:?}");
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
