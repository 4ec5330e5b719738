//! Memory that a method allocates while it runs: scratch memory and unbounded tensors.

#![expect(unsafe_code, reason = "methods keep addresses of memory that a heap owns")]

use core::ptr::NonNull;

/// Allocator of a method for memory at run time. One method uses it exclusively.
///
/// Most methods allocate nothing, or only in their first run.
///
/// # Safety
/// The block that [`Heap::tensor`] returns has the returned size, which is at least the requested
/// one. Its bytes are initialized, aligned to 16, and valid for reads and writes through the
/// returned address; the heap itself does not access them. The block stays valid as long as the
/// heap or, after another call for the same slot, until the next call of [`Heap::free_outgrown`].
pub unsafe trait Heap: Send {
    /// Scratch memory for kernels.
    fn scratch(&mut self) -> &mut [u8];

    /// Grows the scratch memory to at least `bytes` bytes. Returns false if the allocation fails.
    fn grow_scratch(&mut self, bytes: usize) -> bool;

    /// Allocates at least `bytes` bytes for the tensor in `slot`. Returns the address and the size
    /// of the block, or `None` if the allocation fails.
    fn tensor(&mut self, slot: usize, bytes: usize) -> Option<(NonNull<u8>, usize)>;

    /// Frees blocks that later ones for the same slot have replaced. Called when a run begins.
    fn free_outgrown(&mut self);
}

/// Scratch memory of fixed size without memory for unbounded tensors, as on a microcontroller.
#[derive(Debug, Default)]
pub struct FixedScratch<'a>(
    /// The scratch memory.
    pub &'a mut [u8],
);

// SAFETY: `tensor` returns no block.
unsafe impl Heap for FixedScratch<'_> {
    fn scratch(&mut self) -> &mut [u8] {
        self.0
    }

    fn grow_scratch(&mut self, _: usize) -> bool {
        false
    }

    fn tensor(&mut self, _: usize, _: usize) -> Option<(NonNull<u8>, usize)> {
        None
    }

    fn free_outgrown(&mut self) {}
}

#[cfg(feature = "alloc")]
pub use global::GlobalHeap;

#[cfg(feature = "alloc")]
mod global {
    use alloc::{collections::BTreeMap, vec::Vec};
    use core::ptr::NonNull;

    use afferent_core::AlignedBytes;

    use super::Heap;

    /// Heap on the global allocator with a memory limit.
    #[derive(Debug, Default)]
    pub struct GlobalHeap {
        scratch: AlignedBytes,
        tensors: BTreeMap<usize, AlignedBytes>,
        /// Replaced blocks. Views of them may exist until the run ends.
        outgrown: Vec<AlignedBytes>,
        limit: usize,
        used: usize,
    }

    impl GlobalHeap {
        /// Heap of at most `limit` bytes.
        pub fn new(limit: usize) -> Self {
            Self { limit, ..Self::default() }
        }

        fn reserve(&mut self, bytes: usize) -> bool {
            match self.used.checked_add(bytes) {
                Some(used) if used <= self.limit => {
                    self.used = used;
                    true
                }
                _ => false,
            }
        }

        fn alloc(&mut self, bytes: usize) -> Option<AlignedBytes> {
            if !self.reserve(bytes) {
                return None;
            }
            let block = AlignedBytes::try_zeroed(bytes);
            if block.is_none() {
                self.used -= bytes;
            }
            block
        }
    }

    // SAFETY: a block consists of initialized bytes, aligned to 64, that the heap does not access
    // before it frees them: in `free_outgrown` after a replacement, or when the heap is dropped.
    unsafe impl Heap for GlobalHeap {
        fn scratch(&mut self) -> &mut [u8] {
            self.scratch.as_mut_slice()
        }

        fn grow_scratch(&mut self, bytes: usize) -> bool {
            let more = bytes.saturating_sub(self.scratch.as_slice().len());
            let granted = self.reserve(more);
            if granted && more > 0 {
                // The contents need not be kept, so the old memory is freed first.
                self.scratch = AlignedBytes::default();
                let Some(scratch) = AlignedBytes::try_zeroed(bytes) else {
                    self.used -= bytes;
                    return false;
                };
                self.scratch = scratch;
            }
            granted
        }

        fn tensor(&mut self, slot: usize, bytes: usize) -> Option<(NonNull<u8>, usize)> {
            // Half as much again, so that growing tensors seldom need another block.
            let ample = bytes.saturating_add(bytes / 2);
            let mut block = self.alloc(ample).or_else(|| self.alloc(bytes))?;
            let memory = block.as_mut_slice();
            let (len, data) = (memory.len(), NonNull::from(memory).cast());
            self.outgrown.extend(self.tensors.insert(slot, block));
            Some((data, len))
        }

        fn free_outgrown(&mut self) {
            for block in self.outgrown.drain(..) {
                self.used -= block.as_slice().len();
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn failed_growth_frees_the_scratch_memory() {
            let mut heap = GlobalHeap::new(usize::MAX);
            assert!(heap.grow_scratch(100));
            assert!(!heap.grow_scratch(isize::MAX.unsigned_abs() - 1000));
            assert!(heap.scratch().is_empty());
            assert!(heap.grow_scratch(100));
            assert_eq!(heap.used, 100);
        }

        #[test]
        fn tensors_get_half_as_much_again_within_the_limit() {
            let mut heap = GlobalHeap::new(100);
            let mut len = |slot, bytes| heap.tensor(slot, bytes).map(|(_, len)| len);
            assert_eq!(len(0, 20), Some(30));
            assert_eq!(len(0, 50), Some(50), "in addition to the 30 bytes that it outgrew");
            assert_eq!(len(1, 21), None);
            heap.free_outgrown();
            assert_eq!(heap.tensor(1, 21).map(|(_, len)| len), Some(31));
        }
    }
}
