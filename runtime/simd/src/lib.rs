//! Arithmetic on slices, shared by kernels and backends.
//!
//! | module     | holds                                                                      |
//! |------------|----------------------------------------------------------------------------|
//! | `attention` | means of values, weighted by how well keys match queries                  |
//! | `math`     | functions of a vector of numbers                                           |
//! | `norm`     | layer norm and group norm                                                  |
//! | `softmax`  | softmax and its logarithm                                                  |
//! | `isa`      | instruction sets, found at run time, and how code is compiled for each      |
//! | `vector`   | what a vector register can do: the traits that arithmetic is written in     |
//! | `parallel` | one piece of work on several threads                                       |
//!
//! **Invariant:** a function takes slices and checks their lengths; what it is given decides
//! neither whether memory outside them is reached nor whether it ends.
//! **Invariant:** code for an instruction set runs only with a token that detection made.

#![cfg_attr(not(any(test, feature = "std")), no_std)]

pub mod attention;
pub mod isa;
pub mod math;
pub mod norm;
pub mod parallel;
pub mod softmax;
pub mod vector;

pub use isa::{Isa, Routine};
pub use vector::{Float, Int, Mask, Simd};
