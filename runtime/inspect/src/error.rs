//! Errors of inspecting a program.

use std::path::PathBuf;

use afferent_core::{Error, ScalarType};
use afferent_runtime::ModelError;

/// Error of inspecting a program.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InspectError {
    /// A model cannot be loaded or run.
    #[error(transparent)]
    Model(Box<ModelError>),
    /// A program cannot be run.
    #[error("{}: {error}", path.display())]
    Run {
        /// The program file.
        path: PathBuf,
        /// The cause.
        error: Box<ModelError>,
    },
    /// A tensor cannot be built or read.
    #[error(transparent)]
    Tensor(#[from] Error),
    /// An NPY file cannot be read or written.
    #[error("{}: {reason}", path.display())]
    Npy {
        /// The file.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// An output differs in kind, dtype or shape from the expected one.
    #[error("{found} instead of {expected}")]
    OutputKind {
        /// Kind, or dtype and shape, of the output.
        found: String,
        /// Kind, or dtype and shape, of the expected output.
        expected: String,
    },
    /// The number of outputs differs from the expected one.
    #[error("{found} outputs, but {expected} are expected")]
    OutputCount {
        /// Number of outputs.
        found: usize,
        /// Expected number.
        expected: usize,
    },
    /// Elements of a dtype cannot be compared.
    #[error("elements of {dtype} cannot be compared")]
    Dtype {
        /// The dtype.
        dtype: ScalarType,
    },
    /// A file has no bundled test cases.
    #[error(
        "{}: has no test cases; bundle them with executorch.devtools.BundledProgram, or run the \
         program with `afferent model run`",
        path.display()
    )]
    NoTestCases {
        /// The program file.
        path: PathBuf,
    },
    /// A bundled program has no test cases for the requested method.
    #[error("{}: no test cases for this method; it has some for {available:?}", path.display())]
    TestCasesMissing {
        /// The program file.
        path: PathBuf,
        /// Methods with test cases.
        available: Vec<String>,
    },
    /// A test case has no expected outputs.
    #[error("the case ran, but the bundle has no expected outputs")]
    NoExpectedOutputs,
    /// An input cannot be filled with random values.
    #[error("input {index} of method {method:?} cannot be random: {reason}")]
    RandomInput {
        /// Name of the method.
        method: String,
        /// Index of the input.
        index: usize,
        /// The cause.
        reason: String,
    },
    /// A profile has more events than an ETDump holds.
    #[error(
        "the runs took {events} instructions, but an ETDump holds at most {limit}; profile fewer runs"
    )]
    TooManyEvents {
        /// Instructions of all runs.
        events: usize,
        /// Maximum of a file.
        limit: usize,
    },
}

impl From<ModelError> for InspectError {
    fn from(error: ModelError) -> Self {
        Self::Model(Box::new(error))
    }
}
