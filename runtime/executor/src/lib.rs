//! Loads ExecuTorch programs and runs their methods.
//!
//! Begin with [`Model`], which opens a file and runs its methods with memory from the heap. Without
//! `std`, [`Method::load`] does the same in memory of the caller.
//!
//! | module | holds |
//! |---|---|
//! | `model` | program files, all their methods, the weight cache (feature `std`) |
//! | `method` | the interpreter of a loaded method, and its outputs |
//! | `load`, `resolve` | from a method plan to a loaded method, with all checks |
//! | `input`, `input_alias` | binding of inputs, and of views of inputs |
//! | `views` | views that instructions make |
//! | `last_token_slicing` | graph rewrite that computes only the row that is read |
//! | `arena`, `tables` | memory for the tables of a method |
//! | `planned_buffer`, `heap` | planned memory; memory that is allocated at run time |
//! | `trusted` | a smaller loader and interpreter for signed images (feature `trusted`) |
//! | `initial_value` | initial values of mutable buffers |
//! | `error` | errors of loading and running |
//!
//! **Invariant:** the crate knows no kernel and no backend by name; both are passed in as lists.
//! **Invariant:** a run allocates nothing, unless a kernel needs more scratch memory than before or
//! an unbounded tensor grows.

#![cfg_attr(not(any(test, feature = "std")), no_std)]

#[cfg(feature = "alloc")]
extern crate alloc;

mod arena;
mod error;
mod heap;
mod initial_value;
mod input;
mod input_alias;
mod last_token_slicing;
mod load;
mod method;
#[cfg(feature = "std")]
mod model;
mod planned_buffer;
#[cfg(feature = "alloc")]
mod residence;
mod resolve;
mod tables;
#[cfg(feature = "trusted")]
mod trusted;
mod views;

pub use error::{LoadError, Problem, RunError};
#[cfg(feature = "alloc")]
pub use heap::GlobalHeap;
pub use heap::{FixedScratch, Heap};
pub use input::Input;
pub use load::{FindData, LoadContext, Report};
pub use method::{Method, Output, Outputs, RunObserver, RunOptions};
#[cfg(feature = "std")]
pub use model::{
    FileAccess, Model, ModelError, ModelFile, ModelOptions, ModelOutputs, Signature,
    StateFileError, TensorSpec, WeightCacheError, callee,
};
pub use planned_buffer::PlannedBuffer;
#[cfg(feature = "trusted")]
pub use trusted::{TrustedError, TrustedMethod};

pub use afferent_core as core;
pub use afferent_program as program;
