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
//! | `rows`      | programs of which one row is wanted: how many are computed |
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
mod rows;
#[cfg(test)]
mod suite;

use std::path::PathBuf;

use afferent_core::KernelLists;
use afferent_kernels::{Isa, with_isa};

/// Kernels under test, and what they compute with.
#[derive(Debug, Clone)]
pub struct List {
    /// Its name in the tables.
    pub name: String,
    /// The kernels.
    pub kernels: KernelLists<'static>,
    isa: Option<Isa>,
}

impl List {
    /// Runs `f` with the arithmetic of this list.
    pub fn run<T>(&self, f: impl FnOnce() -> T) -> T {
        with_isa(self.isa, f)
    }
}

/// The kernel lists under test: portable code alone, as without the feature `std`, then vectors of
/// each instruction set that this processor has, the slowest first.
pub fn kernel_lists() -> Vec<List> {
    let mut sets: Vec<_> = Isa::available().map(Some).collect();
    sets.push(None);
    let name = |isa: Option<Isa>| isa.map_or("portable", Isa::name).to_owned();
    let list = |isa| List { name: name(isa), kernels: afferent_kernels::KERNELS, isa };
    sets.into_iter().rev().map(list).collect()
}

/// The folder with the data.
pub fn data() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data")
}

pub use case::{Tolerance, Value, compare};
