//! Reads program files: bytes in, a checked `Program` out.
//!
//! | module        | holds                                                                   |
//! |---------------|-------------------------------------------------------------------------|
//! | `program`     | a `.pte` program: its methods and its named data                        |
//! | `plan`        | a method: values, inputs, outputs, instructions, planned memory         |
//! | `value`, `tensor`, `instruction`, `delegate` | the entries of a method          |
//! | `external`    | a `.ptd` file: tensors and data with names                              |
//! | `bundled`     | a `.bpte` file: a program with test cases                               |
//! | `check`       | the one walk over everything that a file can give                       |
//! | `header`, `segments` | the parts of a file                                              |
//! | `schema`      | the numbers of the fields of tables                                     |
//! | `error`       | why a file is refused                                                   |
//!
//! **Invariant:** no bytes make this crate panic, recurse, allocate, or work longer than a small
//! multiple of their length.
//! **Invariant:** what a [`Program`] gives was checked when it was parsed: every number of a
//! value, an operator or an instruction exists, every slice has the length that its tensor needs,
//! every planned tensor lies within its memory. Alignment is the business of who reads the data.
//!
//! Every accessor is a reading function that can fail; parsing calls each of them once for each
//! entry, so afterwards they cannot.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

mod bundled;
mod check;
mod delegate;
mod error;
mod external;
#[cfg(test)]
mod faults;
mod header;
mod instruction;
mod plan;
mod program;
mod schema;
mod segments;
mod tensor;
mod value;

pub use afferent_flatbuffer::List;
pub use bundled::{BundledProgram, TestCase, TestSuite, TestValue};
pub use delegate::{DelegatePlan, Operator};
pub use error::{Fault, FileKind, Place, ProgramError};
pub use external::ExternalData;
pub use instruction::Instruction;
pub use plan::MethodPlan;
pub use program::Program;
pub use tensor::{Placement, TensorData, TensorLayout, TensorMeta};
pub use value::Value;

pub use afferent_core::{CompileSpec, Dynamism, ScalarType};
