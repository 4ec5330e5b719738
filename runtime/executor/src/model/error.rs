//! Why a model could not be opened, loaded or run.

use std::path::PathBuf;

use afferent_program::ProgramError;

use super::ModelFile;
use crate::{LoadError, RunError};

/// Why a model could not be opened, loaded or run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A file cannot be read.
    #[error("{}: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: String,
    },
    /// A file is not a valid program or data file.
    #[error("{}: {error}", path.display())]
    Program {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: ProgramError,
    },
    /// The program has no such method.
    #[error("{}: no method {name:?}; it has {}", path.display(), available.join(", "))]
    MethodMissing {
        /// The program file.
        path: PathBuf,
        /// Asked for.
        name: String,
        /// Methods of the program.
        available: Vec<String>,
    },
    /// A method cannot be loaded here.
    #[error("{}: method {method:?}: {}", path.display(), reasons(error, problems))]
    Load {
        /// The program file.
        path: PathBuf,
        /// The method.
        method: String,
        /// Why.
        error: LoadError,
        /// Each part that does not fit, as a text.
        problems: Vec<String>,
    },
    /// A method needs more memory than allowed.
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
        /// Bytes that it plans.
        needed: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// The system does not give a method its memory.
    #[error(
        "{}: method {method:?}: the system does not give the {needed} bytes that it needs",
        path.display()
    )]
    NoMemory {
        /// The program file.
        path: PathBuf,
        /// The method.
        method: String,
        /// Bytes asked for.
        needed: usize,
    },
    /// A run ended early.
    #[error("method {method:?}{}: {error}", at(operator))]
    Run {
        /// The method.
        method: String,
        /// The operator or backend of the instruction that failed.
        operator: Option<String>,
        /// Why.
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

    /// The number of this error in ExecuTorch.
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
