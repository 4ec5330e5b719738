//! Arithmetic on slices, shared by kernels and backends.
//!
//! | module     | holds                                                                      |
//! |------------|----------------------------------------------------------------------------|
//! | `conv`     | convolutions                                                               |
//! | `gemm`     | products of matrices, and of whatever can be packed like one               |
//! | `isa`      | instruction sets, found at run time, and how code is compiled for each      |
//! | `pool`     | the threads of the process (feature `std`)                                 |
//! | `vector`   | what a vector register can do: the traits that arithmetic is written in     |
//! | `parallel` | one piece of work on several threads                                       |
//!
//! **Invariant:** a function takes slices and checks their lengths; what it is given decides
//! neither whether memory outside them is reached nor whether it ends.
//! **Invariant:** code for an instruction set runs only with a token that detection made.

#![cfg_attr(not(any(test, feature = "std")), no_std)]

pub mod conv;
pub mod gemm;
pub mod isa;
pub mod parallel;
#[cfg(feature = "std")]
pub mod pool;
pub mod vector;

pub use isa::{Isa, Routine};
pub use vector::{Float, Int, Mask, Simd};
