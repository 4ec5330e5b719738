//! Bump allocator: slices of any type from memory of the caller.

#![expect(unsafe_code, reason = "turns bytes into slices of other types")]

use core::{
    mem::{MaybeUninit, align_of, size_of},
    slice,
};

/// Memory that is allocated from its start and never freed.
pub(crate) struct Arena<'a> {
    free: &'a mut [MaybeUninit<u8>],
}

/// The arena is too small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ArenaExhausted;

impl<'a> Arena<'a> {
    pub(crate) fn new(memory: &'a mut [u8]) -> Self {
        let len = memory.len();
        // SAFETY: initialized bytes are valid `MaybeUninit` ones, and the exclusive borrow moves
        // into the arena, so nothing reads them as bytes while it lasts.
        let free = unsafe { slice::from_raw_parts_mut(memory.as_mut_ptr().cast(), len) };
        Self { free }
    }

    /// Allocates a slice of `len` elements and initializes each with `init(index)`.
    ///
    /// The arena never drops the elements. The caller drops those that own resources.
    pub(crate) fn alloc<T, E: From<ArenaExhausted>>(
        &mut self,
        len: usize,
        mut init: impl FnMut(usize) -> Result<T, E>,
    ) -> Result<&'a mut [T], E> {
        let cells = self.alloc_uninit::<T>(len)?;
        for (at, cell) in cells.iter_mut().enumerate() {
            cell.write(init(at)?);
        }
        // SAFETY: every element was written above.
        Ok(unsafe { &mut *(core::ptr::from_mut(cells) as *mut [T]) })
    }

    fn alloc_uninit<T>(&mut self, len: usize) -> Result<&'a mut [MaybeUninit<T>], ArenaExhausted> {
        let free = core::mem::take(&mut self.free);
        let padding = free.as_ptr().align_offset(align_of::<T>());
        let bytes = len.checked_mul(size_of::<T>()).ok_or(ArenaExhausted)?;
        let end = padding.checked_add(bytes).filter(|&end| end <= free.len());
        let (used, free) = free.split_at_mut(end.ok_or(ArenaExhausted)?);
        self.free = free;
        let start = used[padding..].as_mut_ptr().cast();
        // SAFETY: the bytes after `padding` are aligned for `T`, suffice for `len` elements, and
        // are borrowed by nothing else for `'a`.
        Ok(unsafe { slice::from_raw_parts_mut(start, len) })
    }
}

/// Computes the size of an [`Arena`] for a sequence of allocations.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ArenaSize {
    bytes: usize,
}

impl ArenaSize {
    /// Adds a slice of `len` elements, with the largest padding that it may need.
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
    fn slices_are_aligned_and_disjoint() {
        let mut memory = [0_u8; 64];
        let mut arena = Arena::new(&mut memory);
        let bytes = arena.alloc(3, |at| Ok::<_, ArenaExhausted>(at as u8)).unwrap();
        let words = arena.alloc(4, |at| Ok::<_, ArenaExhausted>(at as u64 * 1000)).unwrap();
        assert_eq!(words, [0, 1000, 2000, 3000]);
        assert_eq!(bytes, [0, 1, 2]);
        assert_eq!(arena.alloc(8, |at| Ok::<_, ArenaExhausted>(at as u64)), Err(ArenaExhausted));
    }

    #[test]
    fn computed_size_suffices_for_any_alignment() {
        for shift in 0..8 {
            let mut size = ArenaSize::default();
            size.add::<u8>(3);
            size.add::<u64>(2);
            let mut memory = [0_u8; 64];
            let mut arena = Arena::new(&mut memory[shift..shift + size.bytes()]);
            arena.alloc(3, |_| Ok::<_, ArenaExhausted>(0_u8)).unwrap();
            arena.alloc(2, |_| Ok::<_, ArenaExhausted>(0_u64)).unwrap();
        }
    }
}
