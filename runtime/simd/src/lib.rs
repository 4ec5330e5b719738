//! CPU compute kernels on slices, shared by operator kernels and backends.
//!
//! Begin with [`vector`], the trait that all arithmetic is written against, and [`isa`], which
//! compiles it for each instruction set. Then read [`gemm`] and its `tile` module, the simplest
//! microkernel; the other GEMMs and convolutions have the same structure.
//!
//! | module        | contents                                                                  |
//! |---------------|---------------------------------------------------------------------------|
//! | [`attention`] | scaled dot-product attention: decode and prefill                          |
//! | [`conv`]      | convolutions: im2col, depthwise NCHW and NHWC, Winograd                   |
//! | [`epilogue`]  | bias, activation and requantization, fused into the store                 |
//! | [`fft`]       | Fourier transforms of real and complex signals                            |
//! | [`gemm`]      | `f32` GEMM that packs its operands on each call, and GEMV                 |
//! | [`igemm`]     | `f32` GEMM with prepacked weights, dense or through an indirection buffer |
//! | `image`       | images to tensors: sampling, color conversion, normalization (feature `std`) |
//! | [`isa`]       | instruction sets: detection, and code compiled for each                   |
//! | [`lut`]       | lookup tables for functions of int8 values                                |
//! | [`math`]      | elementwise functions                                                     |
//! | [`norm`]      | layer norm and group norm                                                 |
//! | [`parallel`]  | parallel loops, and the grain that decides when a thread is worth it      |
//! | `pool`        | thread pool of the process (feature `std`)                                |
//! | [`qgemm`]     | GEMM of int8 rows with int8 or int4 weights                               |
//! | [`resize`]    | bilinear interpolation of NHWC rows                                       |
//! | [`softmax`]   | softmax and log-softmax                                                   |
//! | [`transpose`] | transposition of matrices of 32-bit elements                              |
//! | [`vector`]    | portable vector traits: [`Simd`], [`Float`], [`Int`], [`Mask`]            |
//!
//! **Invariant:** a function checks the lengths of its slices before any access through a pointer.
//! Input values never cause an access out of bounds.
//! **Invariant:** code for an instruction set runs only with a token that detection returned.

#![cfg_attr(not(any(test, feature = "std")), no_std)]

pub mod attention;
pub mod conv;
pub mod epilogue;
mod error;
pub mod fft;
pub mod gemm;
pub mod igemm;
#[cfg(feature = "std")]
pub mod image;
pub mod isa;
pub mod lut;
pub mod math;
pub mod norm;
pub mod parallel;
#[cfg(feature = "std")]
pub mod pool;
pub mod qgemm;
pub mod resize;
pub mod softmax;
pub mod transpose;
pub mod vector;

pub use epilogue::Activation;
pub use error::SizeError;
pub use isa::{Isa, Routine};
pub use vector::{Float, Int, Mask, Simd};
