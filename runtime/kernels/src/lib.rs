//! Portable kernels: implementations of ATen and ExecuTorch operators for the CPU.
//!
//! Each operator is one file in the folder of its namespace: [`ATEN`], [`CORTEX_M`],
//! [`DIM_ORDER`], [`ET_COPY`], [`LLAMA`], [`PREPROCESS`], [`PRIM`], [`QUANTIZED_DECOMPOSED`]. The file states the schema, the
//! dtypes and shapes, the formula, the tolerance and the errors, and has a table of tests. The
//! module `shared` holds what several operators need. [`KERNELS`] lists all kernels; a program can
//! link a part of them (selective build).
//!
//! Begin with `aten/relu.rs` (pointwise), `aten/sum.rs` (a reduction) or `aten/slice_copy.rs` (data
//! movement). To add a kernel, write `src/<namespace>/<op>.rs` with a `KERNELS` constant, and add
//! its two lines to `src/<namespace>.rs`.
//!
//! With the feature `std`, `f32` kernels use SIMD code for the instruction set of the processor.
//! The other features select dtypes besides `f32`; `Cargo.toml` lists them.

#![cfg_attr(not(test), no_std)]

#[cfg(feature = "std")]
extern crate std;

use afferent_core::Kernel;

mod aten;
mod cortex_m;
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

/// Kernels of the namespace `aten`.
pub const ATEN: &[&[Kernel]] = aten::KERNELS;

/// Kernels of the namespace `cortex_m`.
pub const CORTEX_M: &[&[Kernel]] = cortex_m::KERNELS;

/// Kernels of the namespace `dim_order_ops`.
pub const DIM_ORDER: &[&[Kernel]] = dim_order::KERNELS;

/// Kernels of the namespace `et_copy`.
pub const ET_COPY: &[&[Kernel]] = et_copy::KERNELS;

/// Kernels of the namespace `llama`.
pub const LLAMA: &[&[Kernel]] = llama::KERNELS;

/// Kernels of the namespace `preprocess`.
pub const PREPROCESS: &[&[Kernel]] = preprocess::KERNELS;

/// Operators on scalars, sizes and views: `aten::sym_size.int`, `executorch_prim` and others.
pub const PRIM: &[&[Kernel]] = prim::KERNELS;

/// Kernels of the namespace `quantized_decomposed`.
pub const QUANTIZED_DECOMPOSED: &[&[Kernel]] = quantized_decomposed::KERNELS;

/// All portable kernels, one list per namespace.
pub const KERNELS: &[&[&[Kernel]]] =
    &[ATEN, CORTEX_M, DIM_ORDER, ET_COPY, LLAMA, PREPROCESS, PRIM, QUANTIZED_DECOMPOSED];

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
