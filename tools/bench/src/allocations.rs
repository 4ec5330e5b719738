//! Global allocator that counts allocations and limits the allocated bytes.

#![expect(unsafe_code, reason = "implements a global allocator that forwards to the system")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicU64, Ordering},
};

use cap::Cap;

static COUNT: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static SYSTEM: Cap<System> = Cap::new(System, usize::MAX);

/// System allocator with a counter. Allocations above the limit fail.
struct Counting;

/// Number of allocations of all threads since the start of the program.
pub(crate) fn count() -> u64 {
    COUNT.load(Ordering::SeqCst)
}

/// Limits further allocations to `bytes` more than are allocated now.
pub(crate) fn limit(bytes: usize) {
    let limit = SYSTEM.allocated().saturating_add(bytes);
    SYSTEM.set_limit(limit).expect("the limit is at least the allocated size");
}

// SAFETY: all calls are forwarded to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::SeqCst);
        // SAFETY: guaranteed by the caller.
        unsafe { SYSTEM.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::SeqCst);
        // SAFETY: guaranteed by the caller.
        unsafe { SYSTEM.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::SeqCst);
        // SAFETY: guaranteed by the caller.
        unsafe { SYSTEM.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        // SAFETY: guaranteed by the caller.
        unsafe { SYSTEM.dealloc(old, layout) }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn allocations_are_counted() {
        let before = super::count();
        let bytes = std::hint::black_box(vec![1_u8; 100]);
        assert!(super::count() > before, "{} bytes", bytes.len());
    }
}
