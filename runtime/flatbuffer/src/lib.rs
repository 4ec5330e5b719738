//! Reader of FlatBuffers from untrusted files. Every access is checked.
//!
//! | module   | contents                                          |
//! |----------|---------------------------------------------------|
//! | `table`  | tables, vectors of tables, strings                |
//! | `vector` | vectors of scalars, converted on access           |
//! | `error`  | error of a field, with the name of the field      |
//!
//! Begin with [`Table::root`]; a [`Field`] names a field by its vtable slot.
//!
//! **Invariant:** no input makes this crate panic, recurse, allocate, or read out of bounds.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![expect(clippy::missing_errors_doc, reason = "every accessor fails on damaged input")]

mod error;
mod table;
mod vector;

pub use error::{ErrorKind, FieldError, FieldResult};
pub use table::{Field, MAX_NAME_BYTES, Table, TableVector, array};
pub use vector::{Scalar, Vector, to_u32, to_usize};
