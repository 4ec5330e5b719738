//! Slices cut from memory of the caller, one behind the other.

#![expect(unsafe_code, reason = "turns bytes into slices of other types")]

use core::{
    mem::{MaybeUninit, align_of, size_of},
    slice,
};

/// Memory that is handed out from its start.
pub(crate) struct Bump<'a> {
    rest: &'a mut [MaybeUninit<u8>],
}

/// The memory was too small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exhausted;

impl<'a> Bump<'a> {
    pub(crate) fn new(memory: &'a mut [u8]) -> Self {
        let len = memory.len();
        // SAFETY: initialised bytes are also maybe-uninitialised ones, and the borrow goes over;
        // nothing reads them as bytes while it lasts.
        let rest = unsafe { slice::from_raw_parts_mut(memory.as_mut_ptr().cast(), len) };
        Self { rest }
    }

    /// A slice of `len` elements, made one after the other by `make`.
    ///
    /// Values that own something are not dropped by the memory: the caller sees to that.
    pub(crate) fn slice<T, E: From<Exhausted>>(
        &mut self,
        len: usize,
        mut make: impl FnMut(usize) -> Result<T, E>,
    ) -> Result<&'a mut [T], E> {
        let cells = self.cells::<T>(len)?;
        for (at, cell) in cells.iter_mut().enumerate() {
            cell.write(make(at)?);
        }
        // SAFETY: every element was written above.
        Ok(unsafe { &mut *(core::ptr::from_mut(cells) as *mut [T]) })
    }

    fn cells<T>(&mut self, len: usize) -> Result<&'a mut [MaybeUninit<T>], Exhausted> {
        let rest = core::mem::take(&mut self.rest);
        let skip = rest.as_ptr().align_offset(align_of::<T>());
        let bytes = len.checked_mul(size_of::<T>()).ok_or(Exhausted)?;
        let end = skip.checked_add(bytes).filter(|&end| end <= rest.len()).ok_or(Exhausted)?;
        let (used, rest) = rest.split_at_mut(end);
        self.rest = rest;
        let start = used[skip..].as_mut_ptr().cast();
        // SAFETY: the bytes behind `skip` are aligned for `T`, as many as `len` elements need, and
        // borrowed for `'a` by nothing else.
        Ok(unsafe { slice::from_raw_parts_mut(start, len) })
    }
}

/// Adds up what [`Bump`] will need.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    bytes: usize,
}

impl Tally {
    /// Counts a slice of `len` elements, wherever it will start.
    pub(crate) fn add<T>(&mut self, len: usize) {
        let bytes = len.saturating_mul(size_of::<T>()).saturating_add(align_of::<T>() - 1);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    pub(crate) fn bytes(self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_aligned_and_apart() {
        let mut memory = [0_u8; 64];
        let mut bump = Bump::new(&mut memory);
        let bytes = bump.slice(3, |at| Ok::<_, Exhausted>(at as u8)).unwrap();
        let words = bump.slice(4, |at| Ok::<_, Exhausted>(at as u64 * 1000)).unwrap();
        assert_eq!(words, [0, 1000, 2000, 3000]);
        assert_eq!(bytes, [0, 1, 2]);
        assert_eq!(bump.slice(8, |at| Ok::<_, Exhausted>(at as u64)), Err(Exhausted));
    }

    #[test]
    fn a_tally_is_never_too_small() {
        for shift in 0..8 {
            let mut tally = Tally::default();
            tally.add::<u8>(3);
            tally.add::<u64>(2);
            let mut memory = [0_u8; 64];
            let mut bump = Bump::new(&mut memory[shift..shift + tally.bytes()]);
            bump.slice(3, |_| Ok::<_, Exhausted>(0_u8)).unwrap();
            bump.slice(2, |_| Ok::<_, Exhausted>(0_u64)).unwrap();
        }
    }
}
