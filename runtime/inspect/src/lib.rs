//! Inspection of ExecuTorch programs: contents, comparison of outputs, profiles and NPY files.
//!
//! The commands `afferent model info`, `verify`, `diff` and `run --profile` print what this crate
//! computes. Begin with [`ProgramContents::of`], [`verify`], or [`diff`].
//!
//! | module | holds |
//! |---|---|
//! | `contents` | contents of a program: methods, operators, delegates, memory |
//! | `compare` | comparison of an output with an expected one |
//! | `verify`, `diff` | bundled test cases; comparison of two programs |
//! | `etdump`, `profile` | profiles of runs: ETDump for ExecuTorch's Inspector, and mean times |
//! | `value`, `random` | owned inputs and outputs; random inputs |
//! | `npy` | tensors in NPY files |

mod compare;
mod contents;
mod diff;
mod error;
mod etdump;
pub mod npy;
mod profile;
mod random;
mod value;
mod verify;

pub use compare::{Difference, ElementDifference, Tolerance, compare};
pub use contents::{
    ByteTotal, CompileSpecContents, DelegateContents, MethodContents, MutableBufferContents,
    NamedBytes, OperatorContents, ProgramContents, TensorContents, TestCaseCount, ValueContents,
};
pub use diff::{OutputComparison, diff};
pub use error::InspectError;
pub use etdump::EtDumpRecorder;
pub use profile::{InstructionProfile, InstructionTime, MeanTimes, PartTime};
pub use random::random_inputs;
pub use value::{OwnedValue, describe, in_dim_order, mismatch};
pub use verify::{TestCaseResult, verify};
