//! Fields of a program file, read in place.
//!
//! Numbers of fields are those of ExecuTorch `program.fbs`. **Invariant:** tables and vectors come
//! from a file that [`Table::root`] trusts, so that no read needs a check.

#![expect(unsafe_code, reason = "reads a trusted file through pointers")]

use core::{marker::PhantomData, slice};

/// Table of a FlatBuffer.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    at: *const u8,
    /// Offsets of the fields, after two numbers.
    vtable: *const u8,
    /// Bytes of the vtable. Kept, because a compiler cannot know that it never changes.
    vtable_len: usize,
    file: PhantomData<&'a [u8]>,
}

/// Vector or string of a FlatBuffer.
#[derive(Clone, Copy)]
pub(super) struct Vector<'a> {
    at: *const u8,
    pub(super) len: usize,
    file: PhantomData<&'a [u8]>,
}

#[inline(always)]
fn read<T: Copy>(at: *const u8) -> T {
    // SAFETY: `at` is in a trusted file, and the callers ask for types without invalid values.
    unsafe { at.cast::<T>().read_unaligned() }
}

/// Position to which the offset at `at` points.
#[inline(always)]
fn target(at: *const u8) -> *const u8 {
    at.wrapping_add(read::<u32>(at) as usize)
}

impl<'a> Table<'a> {
    /// Root table of `file`.
    ///
    /// # Safety
    /// The file is a valid program, as the exporter wrote it.
    pub(super) unsafe fn root(file: &'a [u8]) -> Self {
        Self::new(target(file.as_ptr()))
    }

    #[inline(always)]
    fn new(at: *const u8) -> Self {
        let vtable = at.wrapping_offset(-(read::<i32>(at) as isize));
        Self { at, vtable, vtable_len: read::<u16>(vtable).into(), file: PhantomData }
    }

    /// Position of field `field`; `None` if the table lacks it.
    #[inline(always)]
    fn field(self, field: usize) -> Option<*const u8> {
        let entry = 4 + 2 * field;
        if entry >= self.vtable_len {
            return None;
        }
        let offset = usize::from(read::<u16>(self.vtable.wrapping_add(entry)));
        (offset > 0).then(|| self.at.wrapping_add(offset))
    }

    /// Number, zero if absent.
    #[inline(always)]
    pub(super) fn number<T: Copy + Default>(self, field: usize) -> T {
        self.field(field).map_or(T::default(), read)
    }

    /// Table, if present.
    #[inline(always)]
    pub(super) fn opt_table(self, field: usize) -> Option<Self> {
        self.field(field).map(|at| Self::new(target(at)))
    }

    /// Table, which is present in a valid file.
    #[inline(always)]
    pub(super) fn table(self, field: usize) -> Self {
        self.opt_table(field).unwrap_or(self)
    }

    /// Vector or string, empty if absent.
    #[inline(always)]
    pub(super) fn vector(self, field: usize) -> Vector<'a> {
        match self.field(field) {
            Some(at) => {
                let at = target(at);
                let len = read::<u32>(at) as usize;
                Vector { at: at.wrapping_add(4), len, file: PhantomData }
            }
            None => Vector { at: self.at, len: 0, file: PhantomData },
        }
    }
}

impl<'a> Vector<'a> {
    /// Table at `index`, which is less than the length.
    #[inline(always)]
    pub(super) fn table(self, index: usize) -> Table<'a> {
        Table::new(target(self.at.wrapping_add(4 * index)))
    }

    /// Number at `index`, which is less than the length. Numbers in the file may be wider.
    #[inline(always)]
    pub(super) fn number(self, index: usize, width: usize) -> u32 {
        read(self.at.wrapping_add(width * index))
    }

    /// Bytes of a string or of a vector of bytes.
    #[inline(always)]
    pub(super) fn bytes(self) -> &'a [u8] {
        // SAFETY: the vector is in a trusted file, which lives for `'a`.
        unsafe { slice::from_raw_parts(self.at, self.len) }
    }

    /// Characters of a string.
    #[inline(always)]
    pub(super) fn text(self) -> &'a str {
        // SAFETY: strings of a trusted file are UTF-8.
        unsafe { str::from_utf8_unchecked(self.bytes()) }
    }

    /// Numbers. The exporter aligns them to eight bytes.
    #[inline(always)]
    pub(super) fn doubles(self) -> &'a [f64] {
        // SAFETY: the vector is in a trusted file; the program is aligned, and in it the vector.
        unsafe { slice::from_raw_parts(self.at.cast(), self.len) }
    }

    /// Indices of values. The exporter aligns them to four bytes.
    #[inline(always)]
    pub(super) fn ids(self) -> &'a [u32] {
        // SAFETY: as above; the program is aligned, and in it the vector.
        unsafe { slice::from_raw_parts(self.at.cast(), self.len) }
    }
}
