//! Bytes aligned to the width of the widest vector registers.

use alloc::boxed::Box;

use bytemuck::allocation::try_zeroed_slice_box;

use crate::ForeignBytes;

/// Memory aligned to 64 bytes, the width of the widest vector registers.
///
/// It is an allocation of its own, or borrows [foreign memory](ForeignBytes). Foreign memory is
/// copied before the first change; until then a clone holds the same memory.
#[derive(Default)]
pub struct AlignedBytes(Storage);

enum Storage {
    Own(Allocation),
    /// Aligned to [`AlignedBytes::ALIGNMENT`].
    Foreign(ForeignBytes),
}

/// Allocation with slack; the aligned bytes begin at byte `start`.
#[derive(Default)]
struct Allocation {
    /// The default alignment lets the allocator use zeroed pages of the system. With a greater
    /// alignment it writes the zeros.
    words: Box<[u64]>,
    start: usize,
    len: usize,
}

impl Default for Storage {
    fn default() -> Self {
        Self::Own(Allocation::default())
    }
}

impl Allocation {
    #[inline]
    fn as_slice(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[self.start..][..self.len]
    }

    #[inline]
    fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[self.start..][..self.len]
    }

    fn try_zeroed(len: usize) -> Option<Self> {
        if len == 0 {
            return Some(Self::default());
        }
        let count = len.div_ceil(8).checked_add(AlignedBytes::ALIGNMENT / 8)?;
        let words = try_zeroed_slice_box::<u64>(count).ok()?;
        let start = words.as_ptr().addr().wrapping_neg() % AlignedBytes::ALIGNMENT;
        Some(Self { words, start, len })
    }

    /// Copy of the first bytes of `bytes` in an allocation of `len` bytes; further ones are zero.
    fn try_copy(bytes: &[u8], len: usize) -> Option<Self> {
        let mut copy = Self::try_zeroed(len)?;
        let kept = bytes.len().min(len);
        copy.as_mut_slice()[..kept].copy_from_slice(&bytes[..kept]);
        Some(copy)
    }
}

impl AlignedBytes {
    /// Alignment of the first byte.
    pub const ALIGNMENT: usize = 64;

    /// Allocates `len` zero bytes.
    ///
    /// # Panics
    /// If the allocation fails.
    pub fn zeroed(len: usize) -> Self {
        Self::try_zeroed(len).expect("the allocator has enough memory")
    }

    /// Allocates `len` zero bytes; `None` if the allocation fails.
    pub fn try_zeroed(len: usize) -> Option<Self> {
        Some(Self(Storage::Own(Allocation::try_zeroed(len)?)))
    }

    /// Borrows `bytes`, or copies them if they are not aligned to [`AlignedBytes::ALIGNMENT`].
    /// `None` if the allocation fails. Bytes on a device stay there.
    pub fn try_from_foreign(bytes: ForeignBytes) -> Option<Self> {
        let storage = if bytes.is_empty() {
            Storage::default()
        } else if bytes.is_on_device() || is_aligned(bytes.as_slice()) {
            Storage::Foreign(bytes)
        } else {
            Storage::Own(Allocation::try_copy(bytes.as_slice(), bytes.len())?)
        };
        Some(Self(storage))
    }

    /// True if the bytes are borrowed from foreign memory.
    #[inline]
    pub fn is_foreign(&self) -> bool {
        matches!(self.0, Storage::Foreign(_))
    }

    /// Foreign memory that the bytes are borrowed from.
    pub fn foreign(&self) -> Option<&ForeignBytes> {
        match &self.0 {
            Storage::Foreign(bytes) => Some(bytes),
            Storage::Own(_) => None,
        }
    }

    /// Changes the length; new bytes are zero. Foreign memory is copied. `None` if the allocation
    /// fails; then nothing changes.
    pub fn try_resize(&mut self, len: usize) -> Option<()> {
        match &mut self.0 {
            Storage::Own(own) if own.start.checked_add(len)? <= own.words.len() * 8 => {
                let kept = own.len.min(len);
                own.len = len;
                own.as_mut_slice()[kept..].fill(0);
            }
            _ => self.0 = Storage::Own(Allocation::try_copy(self.as_slice(), len)?),
        }
        Some(())
    }

    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        match &self.0 {
            Storage::Own(own) => own.as_slice(),
            Storage::Foreign(bytes) => aligned(bytes),
        }
    }

    /// Copies foreign memory into an allocation of its own. `None` if the allocation fails.
    #[inline]
    pub fn try_make_own(&mut self) -> Option<()> {
        if self.is_foreign() { self.copy_foreign() } else { Some(()) }
    }

    #[cold]
    fn copy_foreign(&mut self) -> Option<()> {
        let bytes = self.as_slice();
        self.0 = Storage::Own(Allocation::try_copy(bytes, bytes.len())?);
        Some(())
    }

    /// The bytes for writing. Foreign memory is copied first.
    ///
    /// # Panics
    /// If the allocation for a copy fails; [`AlignedBytes::try_make_own`] reports that.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        self.try_make_own().expect("the allocator has enough memory");
        match &mut self.0 {
            Storage::Own(own) => own.as_mut_slice(),
            Storage::Foreign(_) => unreachable!("foreign memory was copied"),
        }
    }
}

fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().addr().is_multiple_of(AlignedBytes::ALIGNMENT)
}

/// The bytes of aligned foreign memory.
///
/// # Panics
/// If the memory has moved, against the contract of [`Memory::bytes`](crate::Memory::bytes).
#[cold]
fn aligned(bytes: &ForeignBytes) -> &[u8] {
    let bytes = bytes.as_slice();
    assert!(is_aligned(bytes), "foreign memory does not move");
    bytes
}

impl AsRef<[u8]> for AlignedBytes {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl Clone for AlignedBytes {
    /// Copies an allocation; foreign memory is shared.
    fn clone(&self) -> Self {
        match &self.0 {
            Storage::Own(own) => Self::from(own.as_slice()),
            Storage::Foreign(bytes) => Self(Storage::Foreign(bytes.clone())),
        }
    }
}

impl core::fmt::Debug for AlignedBytes {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "AlignedBytes({})", self.as_slice().len())
    }
}

impl From<&[u8]> for AlignedBytes {
    fn from(bytes: &[u8]) -> Self {
        let mut copy = Self::zeroed(bytes.len());
        copy.as_mut_slice().copy_from_slice(bytes);
        copy
    }
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;

    use super::*;
    use crate::Memory;

    fn memory(bytes: &[u8]) -> (Arc<dyn Memory>, ForeignBytes) {
        let memory: Arc<dyn Memory> = Arc::new(AlignedBytes::from(bytes));
        (memory.clone(), ForeignBytes::new(memory))
    }

    #[test]
    fn foreign_memory_is_borrowed_until_the_first_change() {
        let (memory, bytes) = memory(&[1, 2, 3]);
        let mut borrowed = AlignedBytes::try_from_foreign(bytes).unwrap();
        let clone = borrowed.clone();
        assert_eq!(Arc::strong_count(&memory), 3);
        assert_eq!(clone.as_slice().as_ptr(), memory.bytes().as_ptr());
        borrowed.as_mut_slice()[0] = 9;
        assert!(!borrowed.is_foreign() && clone.is_foreign());
        assert_eq!((borrowed.as_slice(), clone.as_slice()), (&[9, 2, 3][..], &[1, 2, 3][..]));
        assert_eq!(Arc::strong_count(&memory), 2);
        drop(clone);
        assert_eq!(Arc::strong_count(&memory), 1);
    }

    #[test]
    fn a_resize_copies_foreign_memory() {
        for (len, expected) in [(2, &[1, 2][..]), (3, &[1, 2, 3]), (5, &[1, 2, 3, 0, 0]), (0, &[])]
        {
            let (memory, bytes) = memory(&[1, 2, 3]);
            let mut resized = AlignedBytes::try_from_foreign(bytes).unwrap();
            assert!(resized.try_resize(usize::MAX).is_none());
            assert!(resized.is_foreign(), "a failed resize changes nothing");
            resized.try_resize(len).unwrap();
            assert_eq!((resized.as_slice(), Arc::strong_count(&memory)), (expected, 1));
        }
    }

    #[test]
    fn misaligned_and_empty_foreign_memory_is_released() {
        let (memory, bytes) = memory(&[1, 2, 3]);
        for (start, len) in [(1, 2), (0, 0), (3, 0)] {
            let part = bytes.part(start, len).unwrap();
            let copy = AlignedBytes::try_from_foreign(part).unwrap();
            assert!(!copy.is_foreign());
            assert_eq!(copy.as_slice(), &memory.bytes()[start..start + len]);
        }
        assert_eq!(Arc::strong_count(&memory), 2);
    }
}
