//! Programs and operator calls with expected outputs from PyTorch, run with every kernel list.
//!
//! | module       | content                                                                   |
//! |--------------|---------------------------------------------------------------------------|
//! | `case`       | JSON of a case, comparison of tensors                                     |
//! | `archive`    | archives of cases                                                         |
//! | `official`   | operators and dtypes of the official runtime, `data/official.json`        |
//! | `operators`  | kernel calls, `data/operators`                                            |
//! | `program`    | one exported program and its cases                                        |
//! | `programs`   | programs for all features of the format, `data/programs`                  |
//! | `last_token` | last-token slicing: rows that a program computes                          |
//! | `suite`      | ExecuTorch's operator suite and whole models, the other folders of `data` |
//! | `trusted`    | the loader of microcontrollers                                            |
//! | `vulkan`     | programs for Vulkan, `data/vulkan*`; with the feature `vulkan`            |
//!
//! `cargo test -p afferent-tests-conformance -- --nocapture` prints the tables. Begin with
//! `operators` for a kernel and with `programs` for the runtime.

#[cfg(test)]
mod archive;
mod case;
#[cfg(test)]
mod last_token;
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
#[cfg(test)]
mod trusted;
#[cfg(all(test, feature = "vulkan"))]
mod vulkan;

use std::path::PathBuf;

use afferent_core::KernelLists;
use afferent_kernels::{Isa, with_isa};

/// Kernel list under test and its instruction set.
#[derive(Debug, Clone)]
pub struct List {
    /// Name in the tables.
    pub name: String,
    /// The kernels.
    pub kernels: KernelLists<'static>,
    isa: Option<Isa>,
}

impl List {
    /// Runs `f` with the instruction set of this list.
    pub fn run<T>(&self, f: impl FnOnce() -> T) -> T {
        with_isa(self.isa, f)
    }
}

/// Kernel lists under test: portable code, as without the feature `std`, then each instruction set
/// of this processor, slowest first.
pub fn kernel_lists() -> Vec<List> {
    let mut sets: Vec<_> = Isa::available().map(Some).collect();
    sets.push(None);
    let name = |isa: Option<Isa>| isa.map_or("portable", Isa::name).to_owned();
    let list = |isa| List { name: name(isa), kernels: afferent_kernels::KERNELS, isa };
    sets.into_iter().rev().map(list).collect()
}

/// Folder of the data.
pub fn data() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data")
}

pub use case::{Tolerance, Value, compare};
