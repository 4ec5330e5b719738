//! Tables of a flatbuffer that may be corrupted. Accessors return `None` for unreadable objects.

use crate::schema::{Field, Kind, TableType};

/// Reads the unsigned number of `width` bytes at `at`.
pub(crate) fn number(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let mut word = [0; 8];
    word.get_mut(..width)?.copy_from_slice(bytes.get(at..at.checked_add(width)?)?);
    Some(u64::from_le_bytes(word))
}

/// Writes the low `width` bytes of `value` at `at`. Does nothing past the end.
pub(crate) fn set_number(bytes: &mut [u8], at: usize, width: usize, value: u64) {
    if let Some(to) = bytes.get_mut(at..at.saturating_add(width)) {
        to.copy_from_slice(&value.to_le_bytes()[..width]);
    }
}

fn offset(bytes: &[u8], at: usize, width: usize) -> Option<usize> {
    number(bytes, at, width).and_then(|value| usize::try_from(value).ok())
}

/// Returns the offset of the object that the reference at `at` points to.
pub(crate) fn follow(bytes: &[u8], at: usize) -> Option<usize> {
    at.checked_add(offset(bytes, at, 4)?).filter(|&target| target < bytes.len())
}

/// A vector.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vector {
    /// Offset of the first element.
    pub(crate) start: usize,
    /// Number of elements within the file.
    pub(crate) len: usize,
}

impl Vector {
    /// Reads the vector with elements of `width` bytes whose length is at `at`.
    pub(crate) fn at(bytes: &[u8], at: usize, width: usize) -> Option<Self> {
        let start = at.checked_add(4)?;
        let available = bytes.len().checked_sub(start)? / width;
        Some(Self { start, len: offset(bytes, at, 4)?.min(available) })
    }
}

/// A table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table {
    /// Offset of the table.
    pub(crate) at: usize,
    /// Offset of its vtable.
    vtable: usize,
}

impl Table {
    pub(crate) fn root(bytes: &[u8]) -> Option<Self> {
        Self::at(bytes, follow(bytes, 0)?)
    }

    pub(crate) fn at(bytes: &[u8], at: usize) -> Option<Self> {
        let distance = number(bytes, at, 4)? as u32 as i32;
        let vtable = i64::try_from(at).ok()?.checked_sub(distance.into())?;
        let vtable = usize::try_from(vtable).ok().filter(|&at| at.saturating_add(4) <= bytes.len());
        Some(Self { at, vtable: vtable? })
    }

    /// Returns the offset of a field's vtable entry.
    pub(crate) fn entry(&self, bytes: &[u8], slot: usize) -> Option<usize> {
        let at = 4 + 2 * slot;
        (at + 2 <= offset(bytes, self.vtable, 2)?).then_some(self.vtable + at)
    }

    /// Returns the offset of a field; `None` if it is absent.
    pub(crate) fn field(&self, bytes: &[u8], slot: usize) -> Option<usize> {
        let relative = offset(bytes, self.entry(bytes, slot)?, 2).filter(|&at| at > 0)?;
        Some(self.at + relative).filter(|&at| at < bytes.len())
    }

    /// Offset of the vtable.
    pub(crate) fn vtable_at(&self) -> usize {
        self.vtable
    }

    /// Bytes of the vtable, including its two lengths.
    pub(crate) fn vtable<'b>(&self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        bytes.get(self.vtable..self.vtable + offset(bytes, self.vtable, 2)?)
    }

    /// Returns the table that a field refers to, with its type.
    pub(crate) fn child(&self, bytes: &[u8], field: &Field) -> Option<(&'static TableType, Self)> {
        let kind = match field.kind {
            Kind::Table(kind) => kind,
            Kind::Union(kinds) => {
                let code = offset(bytes, self.field(bytes, field.slot - 1)?, 1)?;
                kinds.get(code.checked_sub(1)?)?
            }
            _ => return None,
        };
        let target = follow(bytes, self.field(bytes, field.slot)?)?;
        Some((kind, Self::at(bytes, target)?))
    }
}
