//! Memory that a method may ask for while it runs: scratch, and tensors without bound.

#![expect(unsafe_code, reason = "methods keep addresses of what a heap gives")]

use core::ptr::NonNull;

/// Where a method gets memory while it runs; the method keeps it for itself.
///
/// Most methods ask for none, or only at their first run.
///
/// # Safety
/// The bytes that [`Heap::tensor`] gives are as many as it says, and at least as many as were asked
/// for; they are initialised, aligned to 16, and valid for reads and writes by their address alone:
/// the heap itself does not touch them. They stay so as long as the heap, or, after another call
/// for the same slot, until the next call of [`Heap::sweep`].
pub unsafe trait Heap: Send {
    /// The scratch memory for kernels.
    fn scratch(&mut self) -> &mut [u8];

    /// Makes the scratch memory at least `bytes` long; `false` when that cannot be.
    fn grow_scratch(&mut self, bytes: usize) -> bool;

    /// At least `bytes` bytes for tensor number `slot`: their address, and how many they are.
    /// `None` when there are none.
    fn tensor(&mut self, slot: usize, bytes: usize) -> Option<(NonNull<u8>, usize)>;

    /// Frees what outgrown tensors left: a run begins.
    fn sweep(&mut self);
}

/// Scratch memory of fixed size and nothing else, as on a microcontroller.
#[derive(Debug, Default)]
pub struct FixedScratch<'a>(
    /// The memory.
    pub &'a mut [u8],
);

// SAFETY: it gives no memory to tensors.
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

    fn sweep(&mut self) {}
}

#[cfg(feature = "alloc")]
pub use global::GlobalHeap;

#[cfg(feature = "alloc")]
mod global {
    use alloc::{collections::BTreeMap, vec::Vec};
    use core::ptr::NonNull;

    use afferent_core::AlignedBytes;

    use super::Heap;

    /// Memory of the global allocator, up to a limit.
    #[derive(Debug, Default)]
    pub struct GlobalHeap {
        scratch: AlignedBytes,
        tensors: BTreeMap<usize, AlignedBytes>,
        /// Blocks that outgrown tensors left; a view of them may still exist in this run.
        outgrown: Vec<AlignedBytes>,
        limit: usize,
        used: usize,
    }

    impl GlobalHeap {
        /// A heap that provides at most `limit` bytes.
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

        fn block(&mut self, bytes: usize) -> Option<AlignedBytes> {
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

    // SAFETY: a block has as many initialised bytes as it says, aligned to 64, which are not
    // touched again before it is freed: by `sweep` after another one took its place, or with the
    // heap.
    unsafe impl Heap for GlobalHeap {
        fn scratch(&mut self) -> &mut [u8] {
            self.scratch.as_mut_slice()
        }

        fn grow_scratch(&mut self, bytes: usize) -> bool {
            let more = bytes.saturating_sub(self.scratch.as_slice().len());
            let granted = self.reserve(more);
            if granted && more > 0 {
                // Its contents are arbitrary: the old memory may go before the new one comes.
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
            // Half as much again, so that a stream of growing tensors settles.
            let ample = bytes.saturating_add(bytes / 2);
            let mut block = self.block(ample).or_else(|| self.block(bytes))?;
            let memory = block.as_mut_slice();
            let (len, data) = (memory.len(), NonNull::from(memory).cast());
            self.outgrown.extend(self.tensors.insert(slot, block));
            Some((data, len))
        }

        fn sweep(&mut self) {
            for block in self.outgrown.drain(..) {
                self.used -= block.as_slice().len();
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn scratch_memory_that_the_system_does_not_have_is_refused() {
            let mut heap = GlobalHeap::new(usize::MAX);
            assert!(heap.grow_scratch(100));
            assert!(!heap.grow_scratch(isize::MAX.unsigned_abs() - 1000));
            assert!(heap.scratch().is_empty());
            assert!(heap.grow_scratch(100));
            assert_eq!(heap.used, 100);
        }

        #[test]
        fn tensors_get_half_as_much_again_where_the_limit_allows() {
            let mut heap = GlobalHeap::new(100);
            let mut len = |slot, bytes| heap.tensor(slot, bytes).map(|(_, len)| len);
            assert_eq!(len(0, 20), Some(30));
            assert_eq!(len(0, 50), Some(50), "beside the 30 that it outgrew");
            assert_eq!(len(1, 21), None);
            heap.sweep();
            assert_eq!(heap.tensor(1, 21).map(|(_, len)| len), Some(31));
        }
    }
}
