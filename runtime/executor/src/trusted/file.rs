//! Fields of a program file, read in place.
//!
//! Numbers of fields are those of ExecuTorch `program.fbs`. Reads outside of the file give
//! [`Fault::Program`].

use super::error::Fault;

pub(super) type Result<T> = core::result::Result<T, Fault>;

/// Table of a FlatBuffer. Offsets fit 32 bits, as on a microcontroller.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    file: &'a [u8],
    at: usize,
    vtable: usize,
    /// Bytes of the vtable.
    len: usize,
}

/// Vector of a FlatBuffer.
#[derive(Clone, Copy)]
pub(super) struct Vector<'a> {
    file: &'a [u8],
    at: usize,
    pub(super) len: usize,
}

#[inline]
fn read<const N: usize>(file: &[u8], at: usize) -> Result<[u8; N]> {
    let bytes = file.get(at..).and_then(|rest| rest.first_chunk());
    bytes.copied().ok_or(Fault::Program)
}

#[inline]
fn read_u32(file: &[u8], at: usize) -> Result<u32> {
    read(file, at).map(u32::from_le_bytes)
}

impl<'a> Table<'a> {
    /// Root table of `file`.
    pub(super) fn root(file: &'a [u8]) -> Result<Self> {
        Self::at(file, read_u32(file, 0)? as usize)
    }

    /// Table at position `at`.
    #[inline]
    pub(super) fn at(file: &'a [u8], at: usize) -> Result<Self> {
        let back = read_u32(file, at)? as usize;
        let vtable = at.wrapping_sub(back) & u32::MAX as usize;
        let len = u16::from_le_bytes(read(file, vtable)?).into();
        Ok(Self { file, at, vtable, len })
    }

    /// Position of field `field`; `None` if the table lacks it.
    #[inline]
    fn field(&self, field: usize) -> Result<Option<usize>> {
        let entry = 4 + 2 * field;
        if entry + 2 > self.len {
            return Ok(None);
        }
        let offset = usize::from(u16::from_le_bytes(read(self.file, self.vtable + entry)?));
        Ok((offset > 0).then_some(self.at + offset))
    }

    /// Number of `N` bytes, zero if absent.
    #[inline]
    pub(super) fn bytes<const N: usize>(&self, field: usize) -> Result<[u8; N]> {
        self.field(field)?.map_or(Ok([0; N]), |at| read(self.file, at))
    }

    /// Number of 8 bits, zero if absent.
    #[inline]
    pub(super) fn u8(&self, field: usize) -> Result<u8> {
        self.bytes::<1>(field).map(|[byte]| byte)
    }

    /// Number of 32 bits, zero if absent.
    #[inline]
    pub(super) fn u32(&self, field: usize) -> Result<u32> {
        self.bytes(field).map(u32::from_le_bytes)
    }

    /// Low 32 bits of a number of 64 bits, zero if absent.
    pub(super) fn low_u32(&self, field: usize) -> Result<usize> {
        let number = self.bytes(field).map(u64::from_le_bytes)?;
        usize::try_from(number).map_err(|_| Fault::Program)
    }

    /// Position to which the offset in `field` points.
    #[inline]
    fn target(&self, field: usize) -> Result<Option<usize>> {
        match self.field(field)? {
            Some(at) => Ok(Some(at.wrapping_add(read_u32(self.file, at)? as usize))),
            None => Ok(None),
        }
    }

    /// Table, if present.
    pub(super) fn opt_table(&self, field: usize) -> Result<Option<Self>> {
        self.target(field)?.map(|at| Self::at(self.file, at)).transpose()
    }

    /// Table.
    #[inline]
    pub(super) fn table(&self, field: usize) -> Result<Self> {
        Self::at(self.file, self.target(field)?.ok_or(Fault::Program)?)
    }

    /// Vector or string, empty if absent.
    #[inline]
    pub(super) fn vector(&self, field: usize) -> Result<Vector<'a>> {
        match self.target(field)? {
            Some(at) => {
                let len = read_u32(self.file, at)? as usize;
                Ok(Vector { file: self.file, at: at + 4, len })
            }
            None => Ok(Vector { file: self.file, at: 0, len: 0 }),
        }
    }
}

impl<'a> Vector<'a> {
    /// Table at `index`.
    #[inline]
    pub(super) fn table(&self, index: usize) -> Result<Table<'a>> {
        if index >= self.len {
            return Err(Fault::Program);
        }
        let at = self.at + 4 * index;
        Table::at(self.file, at.wrapping_add(read_u32(self.file, at)? as usize))
    }

    /// Elements of `size` bytes each.
    #[inline]
    pub(super) fn elements(&self, size: usize) -> Result<&'a [u8]> {
        let bytes = self.len.checked_mul(size).ok_or(Fault::Program)?;
        self.file.get(self.at..).and_then(|rest| rest.get(..bytes)).ok_or(Fault::Program)
    }

    /// Position of the table at `index`.
    #[inline]
    pub(super) fn target(&self, index: usize) -> Result<usize> {
        let at = self.at + 4 * index;
        Ok(at.wrapping_add(read_u32(self.file, at)? as usize))
    }
}

/// Indices of values, in place.
pub(super) fn ids(vector: Vector<'_>) -> Result<&[u32]> {
    bytemuck::try_cast_slice(vector.elements(4)?).map_err(|_| Fault::Program)
}

/// Low half of the 64-bit number at `at`. The files of a microcontroller need no more.
#[inline]
pub(super) fn header_u32(bytes: &[u8], at: usize) -> Result<usize> {
    read_u32(bytes, at).map(|number| number as usize)
}

/// Offsets of the first `N` fields of the last table that was read. Most tables of a type share a
/// vtable.
pub(super) struct Layout<const N: usize> {
    vtable: usize,
    offsets: [u16; N],
}

impl<const N: usize> Default for Layout<N> {
    fn default() -> Self {
        Self { vtable: 0, offsets: [0; N] }
    }
}

impl<const N: usize> Layout<N> {
    /// Table at `at`.
    #[inline]
    pub(super) fn read<'a>(&mut self, file: &'a [u8], at: usize) -> Result<Known<'a, '_, N>> {
        let back = read_u32(file, at)? as usize;
        let vtable = at.wrapping_sub(back) & u32::MAX as usize;
        if vtable != self.vtable {
            self.update(file, at, vtable)?;
        }
        Ok(Known { file, at, offsets: &self.offsets })
    }

    #[cold]
    fn update(&mut self, file: &[u8], at: usize, vtable: usize) -> Result<()> {
        let table = Table::at(file, at)?;
        for (field, offset) in self.offsets.iter_mut().enumerate() {
            let found = table.field(field)?.map_or(0, |found| found - at);
            *offset = u16::try_from(found).map_err(|_| Fault::Program)?;
        }
        self.vtable = vtable;
        Ok(())
    }
}

/// Table whose layout is known.
pub(super) struct Known<'a, 'l, const N: usize> {
    file: &'a [u8],
    at: usize,
    offsets: &'l [u16; N],
}

impl<'a, const N: usize> Known<'a, '_, N> {
    /// Number of `M` bytes, zero if absent.
    #[inline]
    pub(super) fn bytes<const M: usize>(&self, field: usize) -> Result<[u8; M]> {
        match self.offsets[field] {
            0 => Ok([0; M]),
            offset => read(self.file, self.at + usize::from(offset)),
        }
    }

    /// Number of 8 bits, zero if absent.
    #[inline]
    pub(super) fn u8(&self, field: usize) -> Result<u8> {
        self.bytes::<1>(field).map(|[byte]| byte)
    }

    /// Number of 32 bits, zero if absent.
    #[inline]
    pub(super) fn u32(&self, field: usize) -> Result<u32> {
        self.bytes(field).map(u32::from_le_bytes)
    }

    /// Position to which the offset in `field` points; `None` if it is absent.
    #[inline]
    pub(super) fn opt_target(&self, field: usize) -> Result<Option<usize>> {
        match self.offsets[field] {
            0 => Ok(None),
            offset => {
                let at = self.at + usize::from(offset);
                Ok(Some(at.wrapping_add(read_u32(self.file, at)? as usize)))
            }
        }
    }

    /// Position to which the offset in `field` points.
    #[inline]
    pub(super) fn target(&self, field: usize) -> Result<usize> {
        self.opt_target(field)?.ok_or(Fault::Program)
    }

    /// Vector or string, empty if absent.
    #[inline]
    pub(super) fn vector(&self, field: usize) -> Result<Vector<'a>> {
        let Some(at) = self.opt_target(field)? else {
            return Ok(Vector { file: self.file, at: 0, len: 0 });
        };
        let len = read_u32(self.file, at)? as usize;
        Ok(Vector { file: self.file, at: at + 4, len })
    }
}
