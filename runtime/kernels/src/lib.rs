//! The portable operators, one file each.
//!
//! To add one: write `src/<namespace>/<op>.rs` with a `KERNELS` constant and add the two lines to
//! `src/<namespace>.rs`.

#![cfg_attr(not(test), no_std)]

#[cfg(feature = "std")]
extern crate std;

use afferent_core::Kernel;

mod aten;
mod dim_order;
mod et_copy;
mod llama;
mod preprocess;
mod prim;
mod quantized_decomposed;
mod shared;

#[cfg(feature = "std")]
pub use afferent_simd::Isa;
#[cfg(feature = "std")]
pub use shared::simd::with_isa;

/// The operators of the namespace `aten`.
pub const ATEN: &[&[Kernel]] = aten::KERNELS;

/// The operators of the namespace `dim_order_ops`.
pub const DIM_ORDER: &[&[Kernel]] = dim_order::KERNELS;

/// The operators of the namespace `et_copy`.
pub const ET_COPY: &[&[Kernel]] = et_copy::KERNELS;

/// The operators of the namespace `llama`.
pub const LLAMA: &[&[Kernel]] = llama::KERNELS;

/// The operators of the namespace `preprocess`.
pub const PREPROCESS: &[&[Kernel]] = preprocess::KERNELS;

/// The operators on numbers, sizes and views.
pub const PRIM: &[&[Kernel]] = prim::KERNELS;

/// The operators of the namespace `quantized_decomposed`.
pub const QUANTIZED_DECOMPOSED: &[&[Kernel]] = quantized_decomposed::KERNELS;

/// Every portable kernel, one list a namespace.
pub const KERNELS: &[&[&[Kernel]]] =
    &[ATEN, DIM_ORDER, ET_COPY, LLAMA, PREPROCESS, PRIM, QUANTIZED_DECOMPOSED];

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
