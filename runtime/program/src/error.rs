//! Why a file is refused.

use core::fmt;

pub use afferent_flatbuffer::Fault;
pub(crate) use afferent_flatbuffer::{Defect, Read};

/// Why the bytes are not a model that this runtime accepts.
///
/// It holds no string of its own, so that it serves a microcontroller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// The file is of another kind.
    #[error(
        "not {}: bytes 4..8 are \"{}\" instead of {}",
        .file.title(), .found.escape_ascii(), .file.magic()
    )]
    WrongMagic {
        /// What was expected.
        file: FileKind,
        /// What stands where the magic should be.
        found: [u8; 4],
    },
    /// The file is a program together with test cases: a `BundledProgram`.
    #[error("this is a bundled program (.bpte, BP08): the program is inside of it")]
    Bundled,
    /// The file was made for another version of the format.
    #[error(
        "{} has the format version \"{}\", this runtime reads {}: export the model again",
        .file.title(), .found.escape_ascii(), .file.magic()
    )]
    WrongVersion {
        /// What was expected.
        file: FileKind,
        /// Its magic.
        found: [u8; 4],
    },
    /// The file ends early.
    #[error("the file is cut off: it has {found} bytes and needs {needed}")]
    Truncated {
        /// What was expected.
        file: FileKind,
        /// Bytes that the file should have, as far as is known.
        needed: u64,
        /// Bytes that it has.
        found: u64,
    },
    /// A field cannot be right.
    #[error("{place}{field} {fault}")]
    Invalid {
        /// Where in the file.
        place: Place,
        /// The field, as in the schemas of ExecuTorch.
        field: &'static str,
        /// What is wrong with it.
        fault: Fault,
    },
}

impl ProgramError {
    /// The number of this error in ExecuTorch.
    pub const fn code(self) -> u32 {
        match self {
            Self::Invalid { fault: Fault::NotSupported { .. }, .. } | Self::Bundled => 0x10,
            Self::WrongMagic { file, .. }
            | Self::WrongVersion { file, .. }
            | Self::Truncated { file, .. }
            | Self::Invalid { place: Place::File(file) | Place::Entry { file, .. }, .. } => {
                match file {
                    FileKind::Program | FileKind::Bundled => 0x23,
                    FileKind::ExternalData => 0x24,
                }
            }
            Self::Invalid { .. } => 0x23,
        }
    }
}

/// A kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A program, `.pte`.
    Program,
    /// External data, `.ptd`.
    ExternalData,
    /// A program with test cases, `.bpte`.
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

    /// Bytes 4..8 of such a file.
    pub(crate) const fn magic(self) -> &'static str {
        match self {
            Self::Program => "ET12",
            Self::ExternalData => "FT01",
            Self::Bundled => "BP08",
        }
    }
}

/// Where in a file a fault lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// In no method.
    File(FileKind),
    /// In a method, but in no entry of its tables.
    Method(u32),
    /// In a value of a method.
    Value {
        /// Number of the method.
        method: u32,
        /// Number of the value.
        value: u32,
    },
    /// In an instruction of a method.
    Instruction {
        /// Number of the method.
        method: u32,
        /// Number of the instruction.
        instruction: u32,
    },
    /// In an operator of a method.
    Operator {
        /// Number of the method.
        method: u32,
        /// Number of the operator.
        operator: u32,
    },
    /// In a delegate of a method.
    Delegate {
        /// Number of the method.
        method: u32,
        /// Number of the delegate.
        delegate: u32,
    },
    /// In a segment of a program.
    Segment(u32),
    /// In an entry of the named data.
    Entry {
        /// Whose data it is.
        file: FileKind,
        /// Number of the entry.
        entry: u32,
    },
    /// In the test cases of one method in a `.bpte` file.
    Suite(u32),
    /// In a test case of a `.bpte` file.
    Case {
        /// Number of the method's test cases.
        suite: u32,
        /// Number of the case.
        case: u32,
    },
}

impl fmt::Display for Place {
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

/// What a fault of a field becomes when its place is known.
pub(crate) trait At {
    fn at(self, place: Place) -> ProgramError;
}

impl At for Defect {
    fn at(self, place: Place) -> ProgramError {
        ProgramError::Invalid { place, field: self.field, fault: self.fault }
    }
}
