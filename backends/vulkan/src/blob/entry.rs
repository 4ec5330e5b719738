//! Errors that name the entry of the blob at fault.

use afferent_core::{BlobEntry, Error};
use afferent_flatbuffer::{ErrorKind, Field, FieldError};

/// An entry of the blob, for error messages.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    kind: BlobEntry,
    index: u32,
}

impl Entry {
    pub(crate) const GRAPH: Self = Self { kind: BlobEntry::Graph, index: 0 };

    pub(crate) fn value(index: usize) -> Self {
        Self { kind: BlobEntry::Value, index: saturate(index) }
    }

    pub(crate) fn node(index: usize) -> Self {
        Self { kind: BlobEntry::Node, index: saturate(index) }
    }

    /// Converts a flatbuffer error to an error of this entry.
    pub(super) fn read<T>(self, read: Result<T, FieldError>) -> Result<T, Error> {
        read.map_err(|FieldError { field, kind }| {
            let reason = match kind {
                ErrorKind::OutOfBounds { .. } | ErrorKind::RangeOutOfBounds { .. } => {
                    "exceeds the blob"
                }
                ErrorKind::Missing => "is missing",
                ErrorKind::IndexOutOfRange { .. } => "refers to an entry that does not exist",
                ErrorKind::Invalid { reason } => reason,
                _ => "is damaged; export the program again",
            };
            self.invalid(field, reason)
        })
    }

    pub(crate) fn invalid(self, field: &'static str, reason: &'static str) -> Error {
        Error::InvalidBlob { entry: self.kind, index: self.index, field, reason }
    }

    /// Returns an error unless `condition` holds.
    pub(super) fn expect(
        self,
        condition: bool,
        field: Field,
        reason: &'static str,
    ) -> Result<(), Error> {
        if condition { Ok(()) } else { Err(self.invalid(field.1, reason)) }
    }
}

fn saturate(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
