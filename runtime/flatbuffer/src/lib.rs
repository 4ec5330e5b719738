//! Reads FlatBuffers of files that nobody vouches for.
//!
//! | module  | holds                                            |
//! |---------|--------------------------------------------------|
//! | `table` | tables, vectors and strings                      |
//! | `list`  | numbers that lie in the file                     |
//! | `fault` | what is wrong with a field                       |
//!
//! **Invariant:** no bytes make this crate panic, recurse, allocate, or read outside of them.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![expect(
    clippy::missing_errors_doc,
    reason = "every reading function fails where bytes are wrong"
)]

mod fault;
mod list;
mod table;

pub use fault::{Defect, Fault, Read};
pub use list::{List, Number, to_u32, to_usize};
pub use table::{Field, MAX_NAME, Table, Tables, array};
