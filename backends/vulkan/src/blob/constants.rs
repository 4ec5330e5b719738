//! Constant data of a blob: in the blob itself, or named data of the program.

use afferent_core::Error;
use afferent_flatbuffer::{Field, TableVector};

use super::{
    entry::Entry,
    schema::{BYTES_KEY, BYTES_LENGTH, BYTES_OFFSET, NAMED},
};

/// Looks up named data of the program by key.
pub(super) type NamedData<'c, 'a> = &'c dyn Fn(&str) -> Option<&'a [u8]>;

/// Tables that locate constants.
pub(super) struct Constants<'a, 'c> {
    pub(super) tables: TableVector<'a>,
    /// Constant section of the blob.
    pub(super) data: &'a [u8],
    pub(super) named: NamedData<'c, 'a>,
}

impl<'a> Constants<'a, '_> {
    /// Bytes of constant `id`.
    pub(super) fn get(&self, at: Entry, field: Field, id: usize) -> Result<&'a [u8], Error> {
        let missing = at.invalid(field.1, "refers to a constant that does not exist");
        if id >= self.tables.len() {
            return Err(missing);
        }
        let table = at.read(self.tables.get(id))?;
        let length = at.read(table.scalar::<u64>(BYTES_LENGTH))?;
        let offset = at.read(table.scalar::<u64>(BYTES_OFFSET))?;
        if offset != NAMED {
            return at.read(BYTES_OFFSET.slice(self.data, offset, length));
        }
        let key = at.read(table.name(BYTES_KEY))?.filter(|key| !key.is_empty());
        let key = at.read(BYTES_KEY.required(key))?;
        let reason = "names data that is missing; load the program with its .ptd file";
        let bytes = (self.named)(key).ok_or(at.invalid(BYTES_KEY.1, reason))?;
        at.read(BYTES_LENGTH.slice(bytes, 0, length))
    }
}
