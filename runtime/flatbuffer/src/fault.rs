//! What is wrong with a field of a file.

/// What is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// It or what it refers to does not lie in the file.
    #[error("at byte {at} does not lie within the file; the file is damaged")]
    OutOfFile {
        /// Where the field or the reference stands.
        at: usize,
    },
    /// It is needed.
    #[error("is missing")]
    Missing,
    /// It is not text.
    #[error("is not UTF-8")]
    NotUtf8,
    /// It is longer than any name may be.
    #[error("is a name of {len} bytes; {max} are the most")]
    TooLong {
        /// Its length.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// It numbers an entry that does not exist.
    #[error("is {index}, but there are {len} entries")]
    Index {
        /// The number.
        index: i64,
        /// Number of entries.
        len: usize,
    },
    /// It numbers a value of the wrong kind.
    #[error("names value {value}, which is not {wanted}")]
    Kind {
        /// The value.
        value: u32,
        /// What it should be.
        wanted: &'static str,
    },
    /// It holds a code that means nothing.
    #[error("has the unknown code {code}")]
    UnknownCode {
        /// The code.
        code: i64,
    },
    /// It asks for bytes that are not there.
    #[error("needs {len} bytes from byte {start} on, but there are {limit}")]
    Range {
        /// First byte.
        start: u64,
        /// Number of bytes.
        len: u64,
        /// Bytes that exist.
        limit: u64,
    },
    /// It has a value that it must not have.
    #[error("{reason}")]
    Invalid {
        /// What is wrong.
        reason: &'static str,
    },
    /// It is legal, but this runtime has no use for it.
    #[error("is not supported: {what}")]
    NotSupported {
        /// What would be needed.
        what: &'static str,
    },
    /// Many references share one object, so that reading all of them takes too long.
    #[error("is referred to more often than the size of the file allows")]
    Budget,
}

/// A fault and the field that has it; the place is known further up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Defect {
    /// Name of the field.
    pub field: &'static str,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What reading a field gives.
pub type Read<T> = Result<T, Defect>;
