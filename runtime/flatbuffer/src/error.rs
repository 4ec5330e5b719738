//! Errors of single fields.

/// Error of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The field, or the object that it points to, is outside the file.
    #[error("at byte {at} points outside the file; the file is damaged")]
    OutOfBounds {
        /// Byte offset of the field or the reference in the file.
        at: usize,
    },
    /// A required field is absent.
    #[error("is missing")]
    Missing,
    /// A string is not UTF-8.
    #[error("is not valid UTF-8")]
    NotUtf8,
    /// A name exceeds the length limit.
    #[error("has {len} bytes, but a name may have at most {max}")]
    NameTooLong {
        /// Length in bytes.
        len: usize,
        /// Limit in bytes.
        max: usize,
    },
    /// An index refers to an entry that does not exist.
    #[error("is {index}, out of range for {len} entries")]
    IndexOutOfRange {
        /// The index.
        index: i64,
        /// Number of entries.
        len: usize,
    },
    /// An index refers to a value of the wrong type.
    #[error("refers to value {value}, which is not {expected}")]
    WrongValueType {
        /// Index of the value.
        value: u32,
        /// Accepted types.
        expected: &'static str,
    },
    /// An enum or a union has an undefined code.
    #[error("has the unknown code {code}")]
    UnknownCode {
        /// The code.
        code: i64,
    },
    /// A byte range exceeds the data that it refers to.
    #[error("needs {len} bytes at offset {start}, but only {limit} bytes are available")]
    RangeOutOfBounds {
        /// First byte.
        start: u64,
        /// Number of bytes.
        len: u64,
        /// Number of available bytes.
        limit: u64,
    },
    /// The value of the field is not allowed.
    #[error("{reason}")]
    Invalid {
        /// Clause that continues the name of the field.
        reason: &'static str,
    },
    /// The file is valid, but it needs a feature that this runtime does not have.
    #[error("is not supported: {feature}")]
    NotSupported {
        /// The missing feature.
        feature: &'static str,
    },
    /// Shared objects are referenced so often that reading all references takes too long.
    #[error("is referenced more often than the size of the file allows")]
    WorkLimit,
}

/// Error of a named field; the caller adds the location of the field in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldError {
    /// Name of the field.
    pub field: &'static str,
    /// Cause of the error.
    pub kind: ErrorKind,
}

/// Result of reading a field.
pub type FieldResult<T> = Result<T, FieldError>;
