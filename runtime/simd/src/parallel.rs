//! Parallel loops over the tasks of one operator; sequential loops where no threads are available.

#![expect(unsafe_code, reason = "gives each task its own part of a slice")]

use core::{cell::UnsafeCell, slice};

use afferent_core::Workers;

/// Minimum work of a task, in multiply-accumulate operations (MACs).
///
/// Less work than this costs less on the calling thread than the synchronization with another one.
#[derive(Debug, Clone, Copy)]
pub struct Grain {
    min_macs: usize,
}

impl Grain {
    /// GEMM that packs its operands on each call: every task packs panels of its own.
    pub(crate) const GEMM: Self = Self::from_macs(1 << 20);
    /// GEMM with prepacked weights.
    pub(crate) const PACKED_GEMM: Self = Self::from_macs(1 << 18);
    /// Product of one row with prepacked weights: bound by the bandwidth of the weights.
    pub(crate) const PACKED_GEMV: Self = Self::from_macs(1 << 15);
    /// Depthwise convolution of NCHW tensors: every task copies its planes.
    pub(crate) const DEPTHWISE_NCHW: Self = Self::from_macs(1 << 18);
    /// Depthwise convolution of NHWC tensors, `f32` and int8.
    pub(crate) const DEPTHWISE_NHWC: Self = Self::from_macs(1 << 17);

    /// Grain of tasks with at least `min_macs` operations each.
    ///
    /// # Panics
    /// If `min_macs` is zero.
    pub const fn from_macs(min_macs: usize) -> Self {
        assert!(min_macs > 0, "a task has at least one operation");
        Self { min_macs }
    }

    /// Number of tasks that `macs` operations are split into, at most one per thread.
    pub fn tasks(self, macs: usize, threads: usize) -> usize {
        threads.min(macs / self.min_macs).max(1)
    }
}

/// Number of threads that [`for_each`] runs on.
pub fn threads(workers: Option<&dyn Workers>) -> usize {
    workers.map_or(1, Workers::threads)
}

/// Calls `task` with each index below `tasks`: on `workers`, or in order on the calling thread.
pub fn for_each(workers: Option<&dyn Workers>, tasks: usize, task: impl Fn(usize) + Sync) {
    match workers {
        Some(workers) if tasks > 1 => workers.run(tasks, &task),
        _ => (0..tasks).for_each(task),
    }
}

/// A slice that is split into chunks of equal length; the last chunk may be shorter.
#[derive(Debug)]
pub struct Chunks<'d, T> {
    /// The slice.
    pub data: &'d mut [T],
    /// Elements per chunk.
    pub chunk_len: usize,
}

/// Calls `task` with the index of each chunk of `data` and the chunk. The last chunk may be shorter
/// than `chunk_len`.
///
/// # Panics
/// If `chunk_len` is zero.
pub fn for_each_chunk<T: Send>(
    workers: Option<&dyn Workers>,
    data: &mut [T],
    chunk_len: usize,
    task: impl Fn(usize, &mut [T]) + Sync,
) {
    let tasks = data.len().div_ceil(chunk_len);
    let shared = SharedSlice::new(data);
    for_each(workers, tasks, |index| {
        let start = index * chunk_len;
        let len = chunk_len.min(shared.len() - start);
        // SAFETY: `Workers` guarantees that no index is passed twice, and chunks of different
        // indices do not overlap.
        task(index, unsafe { shared.slice_mut(start, len) });
    });
}

/// Calls `task` with the index of each chunk of `first`, the chunk, and the chunk of `second` with
/// the same index.
///
/// # Panics
/// If a chunk length is zero, or `second` has fewer chunks than `first`.
pub fn for_each_chunk_pair<T: Send, U: Send>(
    workers: Option<&dyn Workers>,
    first: Chunks<'_, T>,
    second: Chunks<'_, U>,
    task: impl Fn(usize, &mut [T], &mut [U]) + Sync,
) {
    let tasks = first.data.len().div_ceil(first.chunk_len);
    let chunk_len = second.chunk_len;
    let second = second.data;
    assert!(second.len().div_ceil(chunk_len) >= tasks, "`second` has at least as many chunks");
    let second = SharedSlice::new(second);
    for_each_chunk(workers, first.data, first.chunk_len, |index, chunk| {
        let start = index * chunk_len;
        let len = chunk_len.min(second.len() - start);
        // SAFETY: as in `for_each_chunk`.
        task(index, chunk, unsafe { second.slice_mut(start, len) });
    });
}

/// A slice that several threads write disjoint parts of.
pub(crate) struct SharedSlice<'a, T>(&'a [UnsafeCell<T>]);

// SAFETY: threads access the elements only through `ptr_at` and `slice_mut`, whose callers
// guarantee that the parts of different threads are disjoint.
unsafe impl<T: Send> Sync for SharedSlice<'_, T> {}

impl<'a, T> SharedSlice<'a, T> {
    pub(crate) fn new(data: &'a mut [T]) -> Self {
        let (start, len) = (data.as_mut_ptr(), data.len());
        // SAFETY: a cell has the layout of its content, and `data` stays borrowed as long as this.
        Self(unsafe { slice::from_raw_parts(start.cast(), len) })
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Pointer to the element at `index`.
    ///
    /// # Panics
    /// If `index` is greater than the length.
    ///
    /// # Safety
    /// Elements accessed through the pointer are not accessed elsewhere at the same time.
    #[inline(always)]
    pub(crate) unsafe fn ptr_at(&self, index: usize) -> *mut T {
        self.0[index..].as_ptr().cast_mut().cast()
    }

    /// The `len` elements from `start` on.
    ///
    /// # Panics
    /// If they are outside the slice.
    ///
    /// # Safety
    /// No other part that exists at the same time contains any of the elements.
    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "the parts are disjoint")]
    pub(crate) unsafe fn slice_mut(&self, start: usize, len: usize) -> &mut [T] {
        let cells = &self.0[start..start + len];
        // SAFETY: the cells are inside the slice, and the caller guarantees exclusive access.
        unsafe { slice::from_raw_parts_mut(cells.as_ptr().cast_mut().cast(), len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs each task on a new thread.
    struct ScopedThreads;

    // SAFETY: each task has a thread of its own, and the scope joins all of them.
    unsafe impl Workers for ScopedThreads {
        fn threads(&self) -> usize {
            4
        }

        fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
            std::thread::scope(|scope| {
                for index in 0..tasks {
                    scope.spawn(move || task(index));
                }
            });
        }
    }

    #[test]
    fn every_element_belongs_to_one_chunk() {
        for workers in [None, Some(&ScopedThreads as &dyn Workers)] {
            for (len, chunk_len) in [(0, 3), (7, 3), (6, 3), (2, 5)] {
                let mut data = vec![0; len];
                for_each_chunk(workers, &mut data, chunk_len, |index, chunk| {
                    chunk.iter_mut().for_each(|element| *element += index + 1);
                });
                let expected: Vec<usize> = (0..len).map(|at| at / chunk_len + 1).collect();
                assert_eq!(data, expected);
            }
        }
    }

    #[test]
    fn tasks_have_at_least_the_grain() {
        let grain = Grain::from_macs(100);
        for (macs, threads, tasks) in [(0, 4, 1), (99, 4, 1), (250, 4, 2), (1000, 4, 4)] {
            assert_eq!(grain.tasks(macs, threads), tasks, "{macs} MACs");
        }
    }
}
