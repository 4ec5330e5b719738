//! Errors of files.

use core::fmt;

pub use afferent_flatbuffer::ErrorKind;
pub(crate) use afferent_flatbuffer::{FieldError, FieldResult};

/// Error of a file that this runtime does not accept.
///
/// It owns no heap memory and works on microcontrollers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// The file identifier is not the expected one.
    #[error(
        "not {}: the file identifier is \"{}\", expected {}",
        .file.title(), .found.escape_ascii(), .file.identifier()
    )]
    WrongIdentifier {
        /// Expected kind of file.
        file: FileKind,
        /// Bytes 4..8 of the file.
        found: [u8; 4],
    },
    /// The file is a bundled program, which contains the program and test cases.
    #[error("this is a bundled program (.bpte, BP08); load the program that it contains")]
    Bundled,
    /// The file has an unsupported version of the format.
    #[error(
        "{} has the file identifier \"{}\", but this runtime reads {}; export the model again",
        .file.title(), .found.escape_ascii(), .file.identifier()
    )]
    WrongVersion {
        /// Expected kind of file.
        file: FileKind,
        /// File identifier.
        found: [u8; 4],
    },
    /// The file is shorter than its header says.
    #[error("the file is truncated: it has {found} bytes, but needs {needed}")]
    Truncated {
        /// Expected kind of file.
        file: FileKind,
        /// Minimum size in bytes, as far as the header is readable.
        needed: u64,
        /// Size in bytes.
        found: u64,
    },
    /// A field is invalid.
    #[error("{location}{field} {kind}")]
    Invalid {
        /// Location of the field.
        location: Location,
        /// Name of the field in the ExecuTorch schema.
        field: &'static str,
        /// Cause of the error.
        kind: ErrorKind,
    },
}

impl ProgramError {
    /// ExecuTorch error code.
    pub const fn code(self) -> u32 {
        match self {
            Self::Invalid { kind: ErrorKind::NotSupported { .. }, .. } | Self::Bundled => 0x10,
            Self::WrongIdentifier { file, .. }
            | Self::WrongVersion { file, .. }
            | Self::Truncated { file, .. }
            | Self::Invalid {
                location: Location::File(file) | Location::Entry { file, .. }, ..
            } => match file {
                FileKind::Program | FileKind::Bundled => 0x23,
                FileKind::ExternalData => 0x24,
            },
            Self::Invalid { .. } => 0x23,
        }
    }
}

/// Kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// Program, `.pte`.
    Program,
    /// External data, `.ptd`.
    ExternalData,
    /// Program with test cases, `.bpte`.
    Bundled,
}

impl FileKind {
    const fn title(self) -> &'static str {
        match self {
            Self::Program => "a .pte program",
            Self::ExternalData => "a .ptd data file",
            Self::Bundled => "a .bpte bundled program",
        }
    }

    /// FlatBuffers file identifier, bytes 4..8 of the file.
    pub(crate) const fn identifier(self) -> &'static str {
        match self {
            Self::Program => "ET12",
            Self::ExternalData => "FT01",
            Self::Bundled => "BP08",
        }
    }
}

/// Location of an invalid field. All indices count from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Location {
    /// Header or root table.
    File(FileKind),
    /// Method, outside the entries of its vectors.
    Method(u32),
    /// Value of a method.
    Value {
        /// Method index.
        method: u32,
        /// Value index.
        value: u32,
    },
    /// Instruction of a method.
    Instruction {
        /// Method index.
        method: u32,
        /// Instruction index.
        instruction: u32,
    },
    /// Operator of a method.
    Operator {
        /// Method index.
        method: u32,
        /// Operator index.
        operator: u32,
    },
    /// Delegate of a method.
    Delegate {
        /// Method index.
        method: u32,
        /// Delegate index.
        delegate: u32,
    },
    /// Segment of a program.
    Segment(u32),
    /// Entry of the named data.
    Entry {
        /// Kind of the file that contains the entry.
        file: FileKind,
        /// Entry index.
        entry: u32,
    },
    /// Test suite of a `.bpte` file.
    Suite(u32),
    /// Test case of a `.bpte` file.
    Case {
        /// Test suite index.
        suite: u32,
        /// Test case index.
        case: u32,
    },
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::File(_) => Ok(()),
            Self::Method(method) => write!(f, "method {method}: "),
            Self::Value { method, value } => write!(f, "method {method}, value {value}: "),
            Self::Instruction { method, instruction } => {
                write!(f, "method {method}, instruction {instruction}: ")
            }
            Self::Operator { method, operator } => {
                write!(f, "method {method}, operator {operator}: ")
            }
            Self::Delegate { method, delegate } => {
                write!(f, "method {method}, delegate {delegate}: ")
            }
            Self::Segment(segment) => write!(f, "segment {segment}: "),
            Self::Entry { entry, .. } => write!(f, "entry {entry}: "),
            Self::Suite(suite) => write!(f, "suite {suite}: "),
            Self::Case { suite, case } => write!(f, "suite {suite}, case {case}: "),
        }
    }
}

/// Adds the location to a [`FieldError`].
pub(crate) trait AtLocation {
    fn at(self, location: Location) -> ProgramError;
}

impl AtLocation for FieldError {
    fn at(self, location: Location) -> ProgramError {
        ProgramError::Invalid { location, field: self.field, kind: self.kind }
    }
}
