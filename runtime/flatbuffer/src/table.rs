//! Tables, vectors of tables and strings.
//!
//! Source: the FlatBuffers binary format. A table starts with the signed offset back to its vtable.
//! The vtable holds its own size, the size of the table, and the offset of each field in the table;
//! 0 marks an absent field. References are unsigned offsets forward. All scalars are little-endian
//! and read byte by byte, so the buffer needs no alignment.

use core::fmt;

use crate::{ErrorKind, FieldError, FieldResult, Scalar, Vector};

/// Maximum length of a name (method, operator, tensor, key), in bytes.
pub const MAX_NAME_BYTES: usize = 1024;

/// Field of a table: its vtable slot and its name for error messages.
#[derive(Debug, Clone, Copy)]
pub struct Field(
    /// Vtable slot, which is the index in the schema.
    pub usize,
    /// Name, such as `Tensor.sizes`.
    pub &'static str,
);

impl Field {
    /// Error of this field.
    pub const fn error(self, kind: ErrorKind) -> FieldError {
        FieldError { field: self.1, kind }
    }

    const fn out_of_bounds(self, at: usize) -> FieldError {
        self.error(ErrorKind::OutOfBounds { at })
    }

    /// [`ErrorKind::Invalid`] of this field.
    pub const fn invalid(self, reason: &'static str) -> FieldError {
        self.error(ErrorKind::Invalid { reason })
    }

    /// Unwraps `value`, or returns [`ErrorKind::Missing`].
    pub fn required<T>(self, value: Option<T>) -> FieldResult<T> {
        value.ok_or(self.error(ErrorKind::Missing))
    }

    /// Checks that `index` is less than `len`.
    pub fn index(self, index: impl Into<i64>, len: usize) -> FieldResult<u32> {
        let index = index.into();
        match u32::try_from(index) {
            Ok(index) if (index as usize) < len => Ok(index),
            _ => Err(self.error(ErrorKind::IndexOutOfRange { index, len })),
        }
    }

    /// Converts `value` to `usize`.
    pub fn to_usize(self, value: u64) -> FieldResult<usize> {
        let feature = "a number that exceeds the address space of this machine";
        usize::try_from(value).map_err(|_| self.error(ErrorKind::NotSupported { feature }))
    }

    /// Subslice of `len` bytes at `start`.
    pub fn slice(self, bytes: &[u8], start: u64, len: u64) -> FieldResult<&[u8]> {
        let range = usize::try_from(start).ok().zip(usize::try_from(len).ok());
        let found = range.and_then(|(start, len)| bytes.get(start..start.checked_add(len)?));
        let limit = bytes.len() as u64;
        found.ok_or(self.error(ErrorKind::RangeOutOfBounds { start, len, limit }))
    }
}

/// The `N` bytes at offset `at`.
pub fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<usize> {
    array(bytes, at).map(u16::from_le_bytes).map(usize::from)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u32::from_le_bytes(array(bytes, at)?)).ok()
}

/// Table in a buffer.
#[derive(Clone, Copy)]
pub struct Table<'a> {
    buffer: &'a [u8],
    /// Offset in `buffer`.
    at: usize,
    /// Size in bytes.
    size: usize,
    /// Field offsets of the vtable, without the two sizes at its start.
    vtable: &'a [u8],
}

impl<'a> Table<'a> {
    /// Root table of `buffer`.
    pub fn root(buffer: &'a [u8]) -> FieldResult<Self> {
        let root = u32_at(buffer, 0).and_then(|at| Self::at(buffer, at));
        root.ok_or(Field(0, "root table").out_of_bounds(0))
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

    /// Offset of `field` in the buffer and its `width` bytes; `None` if the field is absent.
    pub fn inline_bytes(
        &self,
        field: Field,
        width: usize,
    ) -> FieldResult<Option<(usize, &'a [u8])>> {
        let offset = match u16_at(self.vtable, field.0 * 2) {
            None | Some(0) => return Ok(None),
            Some(offset) => offset,
        };
        let at = self.at.saturating_add(offset);
        if offset + width > self.size {
            return Err(field.out_of_bounds(at));
        }
        let bytes = self.buffer.get(at..at.saturating_add(width));
        bytes.map(|bytes| Some((at, bytes))).ok_or(field.out_of_bounds(at))
    }

    /// Size of the buffer that contains the table, in bytes.
    pub fn buffer_len(&self) -> usize {
        self.buffer.len()
    }

    /// Offset of the table in the buffer.
    pub const fn offset(&self) -> usize {
        self.at
    }

    /// Bytes of the vtable, with the two sizes at its start.
    pub fn vtable_bytes(&self) -> impl Iterator<Item = u8> + use<'a> {
        let lengths = [self.vtable.len() + 4, self.size];
        let lengths = lengths.into_iter().flat_map(|len| (len as u16).to_le_bytes());
        lengths.chain(self.vtable.iter().copied())
    }

    /// Scalar in `field`; 0 if the field is absent.
    pub fn scalar<T: Scalar>(&self, field: Field) -> FieldResult<T> {
        Ok(T::read(self.inline_bytes(field, T::WIDTH)?.map_or(&[], |(_, bytes)| bytes)))
    }

    /// Offsets of the reference in `field` and of the object that it points to.
    fn target(&self, field: Field) -> FieldResult<Option<(usize, usize)>> {
        let Some((at, distance)) = self.inline_bytes(field, 4)? else { return Ok(None) };
        let target = u32_at(distance, 0).and_then(|distance| at.checked_add(distance));
        target.map(|target| Some((at, target))).ok_or(field.out_of_bounds(at))
    }

    /// Table that `field` points to.
    pub fn table(&self, field: Field) -> FieldResult<Option<Self>> {
        let Some((at, target)) = self.target(field)? else { return Ok(None) };
        Self::at(self.buffer, target).map(Some).ok_or(field.out_of_bounds(at))
    }

    /// Vector with elements of `width` bytes: offset of the first element, and all bytes.
    pub fn vector_bytes(
        &self,
        field: Field,
        width: usize,
    ) -> FieldResult<Option<(usize, &'a [u8])>> {
        let Some((at, target)) = self.target(field)? else { return Ok(None) };
        let vector = || {
            let start = target.checked_add(4)?;
            let len = u32_at(self.buffer, target)?.checked_mul(width)?;
            Some((start, self.buffer.get(start..start.checked_add(len)?)?))
        };
        vector().map(Some).ok_or(field.out_of_bounds(at))
    }

    /// Vector of bytes, or the bytes of a string.
    pub fn bytes(&self, field: Field) -> FieldResult<Option<&'a [u8]>> {
        Ok(self.vector_bytes(field, 1)?.map(|(_, bytes)| bytes))
    }

    /// Vector of scalars.
    pub fn vector<T: Scalar>(&self, field: Field) -> FieldResult<Option<Vector<'a, T>>> {
        let vector = self.vector_bytes(field, T::WIDTH)?;
        Ok(vector.map(|(_, bytes)| Vector::new(bytes, T::WIDTH, T::read)))
    }

    /// Vector of tables.
    pub fn tables(&self, field: Field) -> FieldResult<Option<TableVector<'a>>> {
        let Some((start, bytes)) = self.vector_bytes(field, 4)? else { return Ok(None) };
        Ok(Some(TableVector { buffer: self.buffer, start, bytes, field }))
    }

    /// Vector of tables; empty if the field is absent.
    pub fn tables_or_empty(&self, field: Field) -> FieldResult<TableVector<'a>> {
        Ok(self.tables(field)?.unwrap_or(TableVector { field, ..TableVector::EMPTY }))
    }

    /// String of any length.
    pub fn string(&self, field: Field) -> FieldResult<Option<&'a str>> {
        let Some(bytes) = self.bytes(field)? else { return Ok(None) };
        core::str::from_utf8(bytes).map(Some).map_err(|_| field.error(ErrorKind::NotUtf8))
    }

    /// String of at most [`MAX_NAME_BYTES`] bytes.
    pub fn name(&self, field: Field) -> FieldResult<Option<&'a str>> {
        match self.bytes(field)? {
            Some(bytes) if bytes.len() > MAX_NAME_BYTES => {
                Err(field.error(ErrorKind::NameTooLong { len: bytes.len(), max: MAX_NAME_BYTES }))
            }
            _ => self.string(field),
        }
    }
}

/// Vector of tables.
#[derive(Clone, Copy)]
pub struct TableVector<'a> {
    buffer: &'a [u8],
    /// Offset of the first reference in `buffer`.
    start: usize,
    /// References, four bytes each.
    bytes: &'a [u8],
    /// Field that holds the vector, for error messages.
    pub field: Field,
}

impl<'a> TableVector<'a> {
    /// An absent vector.
    pub const EMPTY: Self = Self { buffer: &[], start: 0, bytes: &[], field: Field(0, "absent") };

    /// Number of tables.
    pub fn len(&self) -> usize {
        self.bytes.len() / 4
    }

    /// Table at `index`.
    pub fn get(&self, index: usize) -> FieldResult<Table<'a>> {
        let offset = index.checked_mul(4).filter(|&offset| offset < self.bytes.len());
        let Some(offset) = offset else {
            let index = i64::try_from(index).unwrap_or(i64::MAX);
            return Err(self.field.error(ErrorKind::IndexOutOfRange { index, len: self.len() }));
        };
        let at = self.start.saturating_add(offset);
        let target = u32_at(self.bytes, offset).and_then(|distance| at.checked_add(distance));
        let table = target.and_then(|target| Table::at(self.buffer, target));
        table.ok_or(self.field.out_of_bounds(at))
    }

    /// True if the vector has no tables.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over the tables in order.
    pub fn iter(self) -> impl Iterator<Item = FieldResult<Table<'a>>> {
        (0..self.len()).map(move |index| self.get(index))
    }
}

impl fmt::Debug for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table at byte {}", self.at)
    }
}

impl fmt::Debug for TableVector<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tables at byte {}", self.len(), self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Field = Field(0, "A");
    const B: Field = Field(1, "B");

    /// Root table at byte 12. Vtable at byte 4: field A at offset 4, field B absent.
    const FILE: [u8; 24] =
        [12, 0, 0, 0, 8, 0, 8, 0, 4, 0, 0, 0, 8, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0];

    #[test]
    fn fields_of_a_table_are_read() {
        let table = Table::root(&FILE).unwrap();
        assert_eq!(table.scalar::<u32>(A).unwrap(), 4);
        assert_eq!(table.scalar::<u32>(B).unwrap(), 0);
        assert_eq!(table.scalar::<u32>(Field(9, "C")).unwrap(), 0);
        assert!(table.scalar::<u64>(A).is_err());
        assert!(table.bytes(A).is_err());
    }

    #[test]
    fn damaged_files_do_not_panic() {
        for at in 0..FILE.len() {
            for byte in 0..=255 {
                let mut file = FILE;
                file[at] = byte;
                for len in 0..=file.len() {
                    let Ok(table) = Table::root(&file[..len]) else { continue };
                    for field in [A, B] {
                        let _ = (table.scalar::<u64>(field), table.string(field));
                        let _ = (table.vector::<u64>(field), table.table(field));
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
