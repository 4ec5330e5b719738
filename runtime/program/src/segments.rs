//! Segments and named data.

use core::fmt;

use crate::{
    error::FieldResult,
    schema::{DATA_SEGMENT_OFFSET, DATA_SEGMENT_SIZE, NAMED_DATA_KEY, NAMED_DATA_SEGMENT_INDEX},
};
use afferent_flatbuffer::{Field, Table, TableVector};

/// Segments after the flatbuffer.
#[derive(Clone, Copy)]
pub(crate) struct Segments<'a> {
    pub(crate) data: &'a [u8],
    pub(crate) table: TableVector<'a>,
}

impl<'a> Segments<'a> {
    /// Segment at `index`; `field` contains the index and is named in errors.
    pub(crate) fn get(&self, field: Field, index: u32) -> FieldResult<&'a [u8]> {
        let index = field.index(index, self.table.len())?;
        let segment = self.table.get(index as usize)?;
        let start = segment.scalar(DATA_SEGMENT_OFFSET)?;
        DATA_SEGMENT_SIZE.slice(self.data, start, segment.scalar(DATA_SEGMENT_SIZE)?)
    }
}

impl fmt::Debug for Segments<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} segments", self.table.len())
    }
}

/// Named data, stored in segments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NamedData<'a> {
    pub(crate) entries: TableVector<'a>,
    pub(crate) segments: Segments<'a>,
}

impl<'a> NamedData<'a> {
    /// Key, table and data of the entry at `index`.
    pub(crate) fn get(&self, index: usize) -> FieldResult<(&'a str, Table<'a>, &'a [u8])> {
        let entry = self.entries.get(index)?;
        let key = NAMED_DATA_KEY.required(entry.name(NAMED_DATA_KEY)?)?;
        let segment = entry.scalar(NAMED_DATA_SEGMENT_INDEX)?;
        Ok((key, entry, self.segments.get(NAMED_DATA_SEGMENT_INDEX, segment)?))
    }

    /// Table and data of the first entry with this key.
    pub(crate) fn find(&self, key: &str) -> Option<(Table<'a>, &'a [u8])> {
        let has_key = |entry: &Table<'a>| {
            entry.bytes(NAMED_DATA_KEY).is_ok_and(|found| found == Some(key.as_bytes()))
        };
        let index = self.entries.iter().position(|entry| entry.as_ref().is_ok_and(has_key))?;
        self.get(index).ok().map(|(_, entry, data)| (entry, data))
    }

    /// Keys and data in order.
    pub(crate) fn iter(self) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        let entries = (0..self.entries.len()).filter_map(move |index| self.get(index).ok());
        entries.map(|(key, _, data)| (key, data))
    }
}
