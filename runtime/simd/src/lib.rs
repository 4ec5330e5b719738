//! Arithmetic on slices, shared by kernels and backends.
//!
//! | module      | holds                                                                     |
//! |-------------|---------------------------------------------------------------------------|
//! | `attention` | means of values, weighted by how well keys match queries                  |
//! | `channels`  | depthwise convolutions of channels that lie together                      |
//! | `conv`      | convolutions                                                              |
//! | `gemm`      | products of matrices, and of whatever can be packed like one              |
//! | `indirect`  | products of packed weights with rows found by their places                |
//! | `integer`   | products of integers of 8 and 4 bits                                      |
//! | `isa`       | instruction sets, found at run time, and how code is compiled for each    |
//! | `math`      | functions of a vector of numbers                                          |
//! | `norm`      | layer norm and group norm                                                 |
//! | `parallel`  | one piece of work on several threads                                      |
//! | `pool`      | the threads of the process (feature `std`)                                |
//! | `softmax`   | softmax and its logarithm                                                 |
//! | `vector`    | what a vector register can do: the traits that arithmetic is written in   |
//! | `winograd`  | convolutions of 3 x 3 with a quarter of the multiplications                |
//!
//! **Invariant:** a function takes slices and checks their lengths; what it is given decides
//! neither whether memory outside them is reached nor whether it ends.
//! **Invariant:** code for an instruction set runs only with a token that detection made.

#![cfg_attr(not(any(test, feature = "std")), no_std)]

mod activation;
pub mod attention;
pub mod channels;
pub mod conv;
pub mod gemm;
pub mod indirect;
pub mod integer;
pub mod isa;
pub mod math;
pub mod norm;
pub mod parallel;
#[cfg(feature = "std")]
pub mod pool;
pub mod softmax;
pub mod vector;
pub mod winograd;

pub use activation::Activation;
pub use isa::{Isa, Routine};
pub use vector::{Float, Int, Mask, Simd};
