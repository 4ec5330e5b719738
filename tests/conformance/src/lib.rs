//! Programs and operators with expected outputs from PyTorch, run on every kernel list.
//!
//! | module      | holds                                                   |
//! |-------------|---------------------------------------------------------|
//! | `case`      | the JSON of a case, and tensors compared within tolerance |
//! | `archive`   | compressed lists of cases                                 |
//! | `official`  | operators and dtypes of the official runtime, `data/official.json` |
//! | `operators` | single calls of kernels, `data/operators`                 |
//! | `program`   | one exported program and its cases                        |
//! | `programs`  | programs of every kind, each in its folder of `data/programs` |
//! | `suite`     | the official operator suite, `data/suite`, and whole models, `data/models` |
//!
//! `cargo test -p afferent-tests-conformance -- --nocapture` prints the tables.

#[cfg(test)]
mod archive;
mod case;
#[cfg(test)]
mod official;
#[cfg(test)]
mod operators;
#[cfg(test)]
mod program;
#[cfg(test)]
mod programs;
#[cfg(test)]
mod suite;

use std::path::PathBuf;

use afferent_core::KernelLists;

/// The kernel lists under test, by name.
pub const KERNEL_LISTS: &[(&str, KernelLists<'static>)] =
    &[("portable", afferent_kernels::KERNELS)];

/// The folder with the data.
pub fn data() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data")
}

pub use case::{Tolerance, Value, compare};
