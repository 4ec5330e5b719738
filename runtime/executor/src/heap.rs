//! Memory that a method may ask for while it runs: scratch, and tensors without bound.

use core::ptr::NonNull;

/// Where a method gets memory while it runs.
///
/// Most methods ask for none, or only at their first run.
pub trait Heap {
    /// The scratch memory for kernels.
    fn scratch(&mut self) -> &mut [u8];

    /// Makes the scratch memory at least `bytes` long; `false` when that cannot be.
    fn grow_scratch(&mut self, bytes: usize) -> bool;

    /// At least `bytes` bytes for tensor number `slot`, initialised, aligned to 16 and valid as
    /// long as the heap; after the next call for the same slot at least until the run ends.
    /// `None` when there are none.
    fn tensor(&mut self, slot: usize, bytes: usize) -> Option<(NonNull<u8>, usize)>;
}

/// Scratch memory of fixed size and nothing else, as on a microcontroller.
#[derive(Debug, Default)]
pub struct FixedScratch<'a>(
    /// The memory.
    pub &'a mut [u8],
);

impl Heap for FixedScratch<'_> {
    fn scratch(&mut self) -> &mut [u8] {
        self.0
    }

    fn grow_scratch(&mut self, _: usize) -> bool {
        false
    }

    fn tensor(&mut self, _: usize, _: usize) -> Option<(NonNull<u8>, usize)> {
        None
    }
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

        /// Frees what outgrown tensors left. Call between runs.
        pub(crate) fn sweep(&mut self) {
            for block in self.outgrown.drain(..) {
                self.used -= block.as_slice().len();
            }
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
    }

    impl Heap for GlobalHeap {
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
            let bytes = bytes.saturating_add(bytes / 2);
            if !self.reserve(bytes) {
                return None;
            }
            let Some(mut block) = AlignedBytes::try_zeroed(bytes) else {
                self.used -= bytes;
                return None;
            };
            let data = NonNull::from(block.as_mut_slice()).cast();
            self.outgrown.extend(self.tensors.insert(slot, block));
            Some((data, bytes))
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
    }
}
