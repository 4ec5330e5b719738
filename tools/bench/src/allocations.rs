//! Counts the allocations of the whole program, and limits them.

#![expect(unsafe_code, reason = "a global allocator that counts what it hands on")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicU64, Ordering},
};

use cap::Cap;

static COUNT: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static SYSTEM: Cap<System> = Cap::new(System, usize::MAX);

/// The allocator of the system, which ends the process at the limit.
struct Counting;

/// Allocations of all threads since the start of the program.
pub(crate) fn count() -> u64 {
    COUNT.load(Ordering::SeqCst)
}

/// Allows so many bytes more than there are.
pub(crate) fn limit(bytes: usize) {
    let limit = SYSTEM.allocated().saturating_add(bytes);
    SYSTEM.set_limit(limit).expect("a limit is above what there is");
}

// SAFETY: everything is handed on to the allocator of the system.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::SeqCst);
        // SAFETY: demanded of the caller.
        unsafe { SYSTEM.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::SeqCst);
        // SAFETY: demanded of the caller.
        unsafe { SYSTEM.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::SeqCst);
        // SAFETY: demanded of the caller.
        unsafe { SYSTEM.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        // SAFETY: demanded of the caller.
        unsafe { SYSTEM.dealloc(old, layout) }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_allocation_counts() {
        let before = super::count();
        let bytes = std::hint::black_box(vec![1_u8; 100]);
        assert!(super::count() > before, "{} bytes", bytes.len());
    }
}
