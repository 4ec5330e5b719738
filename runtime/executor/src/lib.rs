//! Loads programs, plans their memory and runs their methods.
//!
//! | module    | holds                                                                        |
//! |-----------|------------------------------------------------------------------------------|
//! | `method`  | a loaded method: running it, its results                                     |
//! | `load`    | from the plan of a method to a loaded one                                    |
//! | `resolve` | operators, arguments and overlap of memory, checked at load                  |
//! | `input`, `alias` | how inputs, and views of them, reach the method                       |
//! | `views`   | views that instructions make                                                 |
//! | `one_row` | instructions that compute one row, because no other is read                  |
//! | `planned`, `heap`, `bump`, `tables` | memory: of the plan, on demand, for the tables     |
//! | `initial` | what state holds at first                                                    |
//! | `error`   | why a method cannot be loaded or run                                         |
//! | `model`   | programs in files, all their methods, memory from the heap (feature `std`)   |
//!
//! **Invariant:** it knows neither a kernel nor a backend; both come in as lists.
//! **Invariant:** after loading, a run allocates nothing, unless a kernel wants more scratch
//! memory than before or a tensor without bound grows.

#![cfg_attr(not(any(test, feature = "std")), no_std)]

#[cfg(feature = "alloc")]
extern crate alloc;

mod alias;
mod bump;
mod error;
mod heap;
mod initial;
mod input;
mod load;
mod method;
#[cfg(feature = "std")]
mod model;
mod one_row;
mod planned;
mod resolve;
mod tables;
mod views;

pub use error::{LoadError, Problem, RunError};
#[cfg(feature = "alloc")]
pub use heap::GlobalHeap;
pub use heap::{FixedScratch, Heap};
pub use input::Input;
pub use load::{FindData, Report, Services};
pub use method::{Method, Output, Outputs, RunObserver, RunOptions};
#[cfg(feature = "std")]
pub use model::{
    CacheProblem, FileAccess, Model, ModelError, ModelFile, ModelOptions, ModelOutputs,
};
pub use planned::PlannedBuffer;

pub use afferent_core as core;
pub use afferent_program as program;
