//! FlatBuffers, read with every step checked.
//!
//! Source: the FlatBuffers binary format. A table starts with the signed distance back to its
//! vtable; the vtable holds its own length, the length of the table, and for each field its place
//! in the table, 0 when absent. References are unsigned distances forward. Everything is
//! little-endian and read byte by byte, so that the bytes need no alignment.

use core::fmt;

use crate::{Defect, Fault, List, Number, Read};

/// The longest name of a method, an operator, a tensor or a key, in bytes.
pub const MAX_NAME: usize = 1024;

/// A field of a table: its slot in the schema, and its name for messages.
#[derive(Debug, Clone, Copy)]
pub struct Field(
    /// Slot in the schema.
    pub usize,
    /// Name.
    pub &'static str,
);

impl Field {
    /// `fault` of this field.
    pub const fn fault(self, fault: Fault) -> Defect {
        Defect { field: self.1, fault }
    }

    const fn out_of_file(self, at: usize) -> Defect {
        self.fault(Fault::OutOfFile { at })
    }

    /// That this field must not have its value.
    pub const fn invalid(self, reason: &'static str) -> Defect {
        self.fault(Fault::Invalid { reason })
    }

    /// `value`, which must not be absent.
    pub fn required<T>(self, value: Option<T>) -> Read<T> {
        value.ok_or(self.fault(Fault::Missing))
    }

    /// `index` as a place among `len` entries.
    pub fn index(self, index: impl Into<i64>, len: usize) -> Read<u32> {
        let index = index.into();
        match u32::try_from(index) {
            Ok(place) if (place as usize) < len => Ok(place),
            _ => Err(self.fault(Fault::Index { index, len })),
        }
    }

    /// `number` as a `usize`.
    pub fn to_usize(self, number: u64) -> Read<usize> {
        let what = "a number that exceeds the address space of this machine";
        usize::try_from(number).map_err(|_| self.fault(Fault::NotSupported { what }))
    }

    /// `len` bytes of `bytes` from `start` on.
    pub fn slice(self, bytes: &[u8], start: u64, len: u64) -> Read<&[u8]> {
        let range = usize::try_from(start).ok().zip(usize::try_from(len).ok());
        let found = range.and_then(|(start, len)| bytes.get(start..start.checked_add(len)?));
        let limit = bytes.len() as u64;
        found.ok_or(self.fault(Fault::Range { start, len, limit }))
    }
}

/// The `N` bytes at `at`.
pub fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<usize> {
    array(bytes, at).map(u16::from_le_bytes).map(usize::from)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u32::from_le_bytes(array(bytes, at)?)).ok()
}

/// A table of a buffer.
#[derive(Clone, Copy)]
pub struct Table<'a> {
    buffer: &'a [u8],
    /// Where it starts in `buffer`.
    at: usize,
    /// Its length.
    size: usize,
    /// The part of the vtable that holds the places of the fields.
    vtable: &'a [u8],
}

impl<'a> Table<'a> {
    /// The table that the first four bytes of `buffer` refer to.
    pub fn root(buffer: &'a [u8]) -> Read<Self> {
        let root = u32_at(buffer, 0).and_then(|at| Self::at(buffer, at));
        root.ok_or(Field(0, "root table").out_of_file(0))
    }

    fn at(buffer: &'a [u8], at: usize) -> Option<Self> {
        let distance = i32::from_le_bytes(array(buffer, at)?);
        let vtable_at = i64::try_from(at).ok()?.checked_sub(i64::from(distance))?;
        let vtable_at = usize::try_from(vtable_at).ok()?;
        let (len, size) = (u16_at(buffer, vtable_at)?, u16_at(buffer, vtable_at.checked_add(2)?)?);
        let vtable = buffer.get(vtable_at..vtable_at.checked_add(len)?)?.get(4..)?;
        buffer.get(at..at.checked_add(size)?)?;
        Some(Self { buffer, at, size, vtable })
    }

    /// Where `field` stands in the buffer and its `width` bytes, unless it is absent.
    pub fn fixed(&self, field: Field, width: usize) -> Read<Option<(usize, &'a [u8])>> {
        let place = match u16_at(self.vtable, field.0 * 2) {
            None | Some(0) => return Ok(None),
            Some(place) => place,
        };
        let at = self.at.saturating_add(place);
        if place + width > self.size {
            return Err(field.out_of_file(at));
        }
        let bytes = self.buffer.get(at..at.saturating_add(width));
        bytes.map(|bytes| Some((at, bytes))).ok_or(field.out_of_file(at))
    }

    /// Bytes of the buffer that it lies in.
    pub fn buffer_len(&self) -> usize {
        self.buffer.len()
    }

    /// Where it starts.
    pub const fn start(&self) -> usize {
        self.at
    }

    /// The bytes of its vtable.
    pub fn vtable(&self) -> impl Iterator<Item = u8> + use<'a> {
        let lengths = [self.vtable.len() + 4, self.size];
        let lengths = lengths.into_iter().flat_map(|len| (len as u16).to_le_bytes());
        lengths.chain(self.vtable.iter().copied())
    }

    /// A number, 0 when it is absent.
    pub fn number<T: Number>(&self, field: Field) -> Read<T> {
        Ok(T::read(self.fixed(field, T::WIDTH)?.map_or(&[], |(_, bytes)| bytes)))
    }

    /// Where the object lies that `field` refers to.
    fn target(&self, field: Field) -> Read<Option<(usize, usize)>> {
        let Some((at, distance)) = self.fixed(field, 4)? else { return Ok(None) };
        let target = u32_at(distance, 0).and_then(|distance| at.checked_add(distance));
        target.map(|target| Some((at, target))).ok_or(field.out_of_file(at))
    }

    /// The table that `field` refers to.
    pub fn table(&self, field: Field) -> Read<Option<Self>> {
        let Some((at, target)) = self.target(field)? else { return Ok(None) };
        Self::at(self.buffer, target).map(Some).ok_or(field.out_of_file(at))
    }

    /// Where the elements start, and their bytes, of a vector of elements of `width` bytes.
    pub fn vector(&self, field: Field, width: usize) -> Read<Option<(usize, &'a [u8])>> {
        let Some((at, target)) = self.target(field)? else { return Ok(None) };
        let vector = || {
            let start = target.checked_add(4)?;
            let len = u32_at(self.buffer, target)?.checked_mul(width)?;
            Some((start, self.buffer.get(start..start.checked_add(len)?)?))
        };
        vector().map(Some).ok_or(field.out_of_file(at))
    }

    /// A vector of bytes, or the bytes of a string.
    pub fn bytes(&self, field: Field) -> Read<Option<&'a [u8]>> {
        Ok(self.vector(field, 1)?.map(|(_, bytes)| bytes))
    }

    /// A vector of numbers.
    pub fn list<T: Number>(&self, field: Field) -> Read<Option<List<'a, T>>> {
        Ok(self.vector(field, T::WIDTH)?.map(|(_, bytes)| List::new(bytes, T::WIDTH, T::read)))
    }

    /// A vector of tables.
    pub fn tables(&self, field: Field) -> Read<Option<Tables<'a>>> {
        let Some((start, bytes)) = self.vector(field, 4)? else { return Ok(None) };
        Ok(Some(Tables { buffer: self.buffer, start, bytes, field }))
    }

    /// A vector of tables, empty when absent.
    pub fn tables_or_empty(&self, field: Field) -> Read<Tables<'a>> {
        Ok(self.tables(field)?.unwrap_or(Tables { field, ..Tables::EMPTY }))
    }

    /// A string of any length.
    pub fn text(&self, field: Field) -> Read<Option<&'a str>> {
        let Some(bytes) = self.bytes(field)? else { return Ok(None) };
        core::str::from_utf8(bytes).map(Some).map_err(|_| field.fault(Fault::NotUtf8))
    }

    /// A string of at most [`MAX_NAME`] bytes.
    pub fn name(&self, field: Field) -> Read<Option<&'a str>> {
        match self.bytes(field)? {
            Some(bytes) if bytes.len() > MAX_NAME => {
                Err(field.fault(Fault::TooLong { len: bytes.len(), max: MAX_NAME }))
            }
            _ => self.text(field),
        }
    }
}

/// A vector of tables.
#[derive(Clone, Copy)]
pub struct Tables<'a> {
    buffer: &'a [u8],
    /// Where the first reference stands in `buffer`.
    start: usize,
    /// The references.
    bytes: &'a [u8],
    /// The field that holds the vector.
    pub field: Field,
}

impl<'a> Tables<'a> {
    /// A vector that is absent.
    pub const EMPTY: Self = Self { buffer: &[], start: 0, bytes: &[], field: Field(0, "absent") };

    /// Number of tables.
    pub fn len(&self) -> usize {
        self.bytes.len() / 4
    }

    /// The table at `index`.
    pub fn get(&self, index: usize) -> Read<Table<'a>> {
        let place = index.checked_mul(4).filter(|&place| place < self.bytes.len());
        let Some(place) = place else {
            let index = i64::try_from(index).unwrap_or(i64::MAX);
            return Err(self.field.fault(Fault::Index { index, len: self.len() }));
        };
        let at = self.start.saturating_add(place);
        let target = u32_at(self.bytes, place).and_then(|distance| at.checked_add(distance));
        let table = target.and_then(|target| Table::at(self.buffer, target));
        table.ok_or(self.field.out_of_file(at))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them.
    pub fn iter(self) -> impl Iterator<Item = Read<Table<'a>>> {
        (0..self.len()).map(move |index| self.get(index))
    }
}

impl fmt::Debug for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table at byte {}", self.at)
    }
}

impl fmt::Debug for Tables<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tables at byte {}", self.len(), self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Field = Field(0, "A");
    const B: Field = Field(1, "B");

    /// Root at 12; vtable at 4 with fields at 4 and 0 (absent).
    const FILE: [u8; 24] =
        [12, 0, 0, 0, 8, 0, 8, 0, 4, 0, 0, 0, 8, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0];

    #[test]
    fn a_table_gives_its_fields() {
        let table = Table::root(&FILE).unwrap();
        assert_eq!(table.number::<u32>(A).unwrap(), 4);
        assert_eq!(table.number::<u32>(B).unwrap(), 0);
        assert_eq!(table.number::<u32>(Field(9, "C")).unwrap(), 0);
        assert!(table.number::<u64>(A).is_err());
        assert!(table.bytes(A).is_err());
    }

    #[test]
    fn no_byte_makes_it_panic() {
        for at in 0..FILE.len() {
            for byte in 0..=255 {
                let mut file = FILE;
                file[at] = byte;
                for len in 0..=file.len() {
                    let Ok(table) = Table::root(&file[..len]) else { continue };
                    for field in [A, B] {
                        let _ = (table.number::<u64>(field), table.text(field));
                        let _ = (table.list::<u64>(field), table.table(field));
                        if let Ok(Some(tables)) = table.tables(field) {
                            assert!(tables.len() <= file.len());
                            assert!(tables.iter().count() == tables.len());
                        }
                    }
                }
            }
        }
    }
}
