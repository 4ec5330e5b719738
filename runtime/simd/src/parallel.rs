//! One piece of work on several threads, without threads where there are none.

#![expect(unsafe_code, reason = "gives each piece of work its own part of a slice")]

use core::{cell::UnsafeCell, slice};

use afferent_core::Workers;

/// Calls `work` with each number below `pieces`, on `workers` or, without, in order.
pub fn for_each(workers: Option<&dyn Workers>, pieces: usize, work: impl Fn(usize) + Sync) {
    match workers {
        Some(workers) if pieces > 1 => workers.run(pieces, &work),
        _ => (0..pieces).for_each(work),
    }
}

/// Cuts `data` into chunks of `len` items, the last of which may be shorter, and calls `work` with
/// the number of each chunk and the chunk.
///
/// # Panics
/// When `len` is zero.
pub fn for_each_chunk<T: Send>(
    workers: Option<&dyn Workers>,
    data: &mut [T],
    len: usize,
    work: impl Fn(usize, &mut [T]) + Sync,
) {
    let pieces = data.len().div_ceil(len);
    let shared = Shared::new(data);
    for_each(workers, pieces, |piece| {
        let start = piece * len;
        let len = len.min(shared.len() - start);
        // SAFETY: `Workers` promise to call with no number twice, and chunks of different numbers
        // are apart.
        work(piece, unsafe { shared.part(start, len) });
    });
}

/// As [`for_each_chunk`], with a chunk of each of two slices, which have equally many.
pub fn for_each_pair<T: Send, U: Send>(
    workers: Option<&dyn Workers>,
    (data, len): (&mut [T], usize),
    (more, more_len): (&mut [U], usize),
    work: impl Fn(usize, &mut [T], &mut [U]) + Sync,
) {
    let pieces = data.len().div_ceil(len);
    assert!(more.len().div_ceil(more_len) >= pieces, "each chunk has one of the other slice");
    let more = Shared::new(more);
    for_each_chunk(workers, data, len, |piece, part| {
        let start = piece * more_len;
        let len = more_len.min(more.len() - start);
        // SAFETY: as in `for_each_chunk`.
        work(piece, part, unsafe { more.part(start, len) });
    });
}

/// A slice of which several threads write parts.
pub(crate) struct Shared<'a, T>(&'a [UnsafeCell<T>]);

// SAFETY: threads reach the items only through `part`, whose callers keep their parts apart.
unsafe impl<T: Send> Sync for Shared<'_, T> {}

impl<'a, T> Shared<'a, T> {
    pub(crate) fn new(data: &'a mut [T]) -> Self {
        let (start, len) = (data.as_mut_ptr(), data.len());
        // SAFETY: a cell has the layout of what it holds, and `data` is borrowed as long as this.
        Self(unsafe { slice::from_raw_parts(start.cast(), len) })
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Where item `at` is.
    ///
    /// # Panics
    /// When it is outside the slice.
    ///
    /// # Safety
    /// Of what is reached through the pointer, nothing else reaches any at the same time.
    #[inline(always)]
    pub(crate) unsafe fn pointer(&self, at: usize) -> *mut T {
        self.0[at..].as_ptr().cast_mut().cast()
    }

    /// The items from `start` on.
    ///
    /// # Panics
    /// When they are outside the slice.
    ///
    /// # Safety
    /// While the result lives, no other part has any of its items.
    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "the parts are apart")]
    pub(crate) unsafe fn part(&self, start: usize, len: usize) -> &mut [T] {
        let cells = &self.0[start..start + len];
        // SAFETY: the cells are inside the slice, and demanded of the caller to be its alone.
        unsafe { slice::from_raw_parts_mut(cells.as_ptr().cast_mut().cast(), len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads of the standard library, a new one for each piece.
    struct Scope;

    // SAFETY: each piece has a thread of its own, and the scope waits for all of them.
    unsafe impl Workers for Scope {
        fn threads(&self) -> usize {
            4
        }

        fn run(&self, pieces: usize, work: &(dyn Fn(usize) + Sync)) {
            std::thread::scope(|scope| {
                for piece in 0..pieces {
                    scope.spawn(move || work(piece));
                }
            });
        }
    }

    #[test]
    fn every_item_belongs_to_one_chunk() {
        for workers in [None, Some(&Scope as &dyn Workers)] {
            for (len, chunk) in [(0, 3), (7, 3), (6, 3), (2, 5)] {
                let mut data = vec![0; len];
                for_each_chunk(workers, &mut data, chunk, |piece, part| {
                    part.iter_mut().for_each(|item| *item += piece + 1);
                });
                let expected: Vec<usize> = (0..len).map(|at| at / chunk + 1).collect();
                assert_eq!(data, expected);
            }
        }
    }
}
