//! Tables of a flatbuffer that may be damaged: what cannot be read is absent.

use crate::schema::{Field, Kind, TableType};

/// The unsigned number of `width` bytes at `at`.
pub(crate) fn number(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let mut whole = [0; 8];
    whole.get_mut(..width)?.copy_from_slice(bytes.get(at..at.checked_add(width)?)?);
    Some(u64::from_le_bytes(whole))
}

/// Writes the low bytes of `value`, as many as `width`, at `at`, if there is room.
pub(crate) fn set_number(bytes: &mut [u8], at: usize, width: usize, value: u64) {
    if let Some(place) = bytes.get_mut(at..at.saturating_add(width)) {
        place.copy_from_slice(&value.to_le_bytes()[..width]);
    }
}

fn position(bytes: &[u8], at: usize, width: usize) -> Option<usize> {
    number(bytes, at, width).and_then(|value| usize::try_from(value).ok())
}

/// Where the object lies to which the reference at `at` points.
pub(crate) fn follow(bytes: &[u8], at: usize) -> Option<usize> {
    at.checked_add(position(bytes, at, 4)?).filter(|&target| target < bytes.len())
}

/// A vector: its first element, and how many there are in the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vector {
    pub(crate) start: usize,
    pub(crate) len: usize,
}

impl Vector {
    /// The vector of elements of `width` bytes that starts with its length at `at`.
    pub(crate) fn at(bytes: &[u8], at: usize, width: usize) -> Option<Self> {
        let start = at.checked_add(4)?;
        let room = bytes.len().checked_sub(start)? / width;
        Some(Self { start, len: position(bytes, at, 4)?.min(room) })
    }
}

/// A table at a place of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table {
    pub(crate) at: usize,
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

    /// Where the place of a field stands in the vtable.
    pub(crate) fn entry(&self, bytes: &[u8], slot: usize) -> Option<usize> {
        let at = 4 + 2 * slot;
        (at + 2 <= position(bytes, self.vtable, 2)?).then_some(self.vtable + at)
    }

    /// Where a field stands, unless it is absent.
    pub(crate) fn field(&self, bytes: &[u8], slot: usize) -> Option<usize> {
        let place = position(bytes, self.entry(bytes, slot)?, 2).filter(|&place| place > 0)?;
        Some(self.at + place).filter(|&at| at < bytes.len())
    }

    /// Where its vtable is.
    pub(crate) fn vtable_at(&self) -> usize {
        self.vtable
    }

    /// The vtable, its two lengths included.
    pub(crate) fn vtable<'b>(&self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        bytes.get(self.vtable..self.vtable + position(bytes, self.vtable, 2)?)
    }

    /// The kind of the table to which a field refers, and the table.
    pub(crate) fn child(&self, bytes: &[u8], field: &Field) -> Option<(&'static TableType, Self)> {
        let kind = match field.kind {
            Kind::Table(kind) => kind,
            Kind::Union(kinds) => {
                let code = position(bytes, self.field(bytes, field.slot - 1)?, 1)?;
                kinds.get(code.checked_sub(1)?)?
            }
            _ => return None,
        };
        let target = follow(bytes, self.field(bytes, field.slot)?)?;
        Some((kind, Self::at(bytes, target)?))
    }
}
