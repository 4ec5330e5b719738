//! Reader of ExecuTorch programs: parses and validates `.pte`, `.ptd` and `.bpte` files.
//!
//! | module               | contents                                                         |
//! |----------------------|------------------------------------------------------------------|
//! | `program`            | `.pte` program: methods and named data                           |
//! | `plan`               | execution plan of a method: values, instructions, planned memory |
//! | `value`, `tensor`, `instruction`, `delegate` | entries of a method                      |
//! | `external`           | `.ptd` file: named tensors and data                              |
//! | `bundled`            | `.bpte` file: a program with test cases                          |
//! | `check`              | validation of a program                                          |
//! | `header`, `segments` | sections of a file                                               |
//! | `schema`             | fields of the ExecuTorch schemas                                 |
//! | `error`              | [`ProgramError`] and [`Location`]                                |
//!
//! Begin with [`Program::parse`].
//!
//! **Invariant:** no input makes this crate panic, recurse or allocate. The work is at most a small
//! multiple of the file size.
//! **Invariant:** [`Program::parse`] checks everything that a [`Program`] returns. Every index
//! refers to an existing entry, every slice has the length that its tensor needs, and every planned
//! tensor is within its buffer. Only the alignment of data is not checked.
//!
//! Accessors cannot fail after parsing, because parsing has called each of them for each entry.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

mod bundled;
mod check;
mod delegate;
mod error;
mod external;
mod header;
mod instruction;
#[cfg(test)]
mod invalid_files;
mod plan;
mod program;
mod schema;
mod segments;
mod tensor;
mod value;

pub use afferent_flatbuffer::Vector;
pub use bundled::{BundledProgram, TestCase, TestSuite, TestValue};
pub use delegate::{DelegatePlan, Operator};
pub use error::{ErrorKind, FileKind, Location, ProgramError};
pub use external::ExternalData;
pub use instruction::Instruction;
pub use plan::MethodPlan;
pub use program::Program;
pub use tensor::{Allocation, TensorData, TensorLayout, TensorMeta};
pub use value::Value;

pub use afferent_core::{CompileSpec, Dynamism, ScalarType};
