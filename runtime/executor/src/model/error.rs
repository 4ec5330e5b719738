//! Errors of opening, loading and running a model.

use std::path::PathBuf;

use afferent_program::ProgramError;

use super::ModelFile;
use crate::{LoadError, RunError};

/// Error of opening, loading or running a model.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A file cannot be read.
    #[error("{}: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error message of the system.
        reason: String,
    },
    /// A file is not a valid program or data file.
    #[error("{}: {error}", path.display())]
    Program {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: ProgramError,
    },
    /// The program has no such method.
    #[error("{}: no method {name:?}; it has {}", path.display(), available.join(", "))]
    MethodMissing {
        /// The program file.
        path: PathBuf,
        /// Requested name.
        name: String,
        /// Methods of the program.
        available: Vec<String>,
    },
    /// A method cannot be loaded.
    #[error("{}: method {method:?}: {}", path.display(), reasons(error, problems))]
    Load {
        /// The program file.
        path: PathBuf,
        /// The method.
        method: String,
        /// The cause.
        error: LoadError,
        /// Messages of all [`Problem`](crate::Problem)s.
        problems: Vec<String>,
    },
    /// A method plans more memory than allowed.
    #[error(
        "{}: method {method:?} plans {needed} bytes of memory, more than the limit of {limit}; \
         raise the limit if the program is trusted",
        path.display()
    )]
    Memory {
        /// The program file.
        path: PathBuf,
        /// The method.
        method: String,
        /// Planned bytes.
        needed: usize,
        /// Allowed bytes.
        limit: usize,
    },
    /// The memory of a method cannot be allocated.
    #[error("{}: method {method:?}: out of memory: {needed} bytes are needed", path.display())]
    NoMemory {
        /// The program file.
        path: PathBuf,
        /// The method.
        method: String,
        /// Requested bytes.
        needed: usize,
    },
    /// A run failed.
    #[error("method {method:?}{}: {error}", at(operator))]
    Run {
        /// The method.
        method: String,
        /// Operator or backend of the failed instruction.
        operator: Option<String>,
        /// The cause.
        error: RunError,
    },
}

fn reasons(error: &LoadError, problems: &[String]) -> String {
    if problems.is_empty() { error.to_string() } else { problems.join("; ") }
}

fn at(operator: &Option<String>) -> String {
    operator.as_ref().map_or_else(String::new, |operator| format!(", {operator}"))
}

impl ModelError {
    pub(super) fn no_memory(file: &ModelFile, method: &str, needed: usize) -> Self {
        Self::NoMemory { path: file.path().to_owned(), method: method.to_owned(), needed }
    }

    /// ExecuTorch's code for this error.
    pub fn code(&self) -> u32 {
        match self {
            Self::Read { .. } => 0x22,
            Self::Program { error, .. } => error.code(),
            Self::MethodMissing { .. } => 0x12,
            Self::Load { error, .. } => error.code(),
            Self::Memory { .. } | Self::NoMemory { .. } => 0x21,
            Self::Run { error, .. } => error.code(),
        }
    }
}
