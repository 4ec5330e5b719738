//! Marks between which an emulator counts instructions.

use core::hint::black_box;

/// Begins a region.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn mark_begin() {
    black_box(1_u32);
}

/// Ends a region.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn mark_end() {
    black_box(2_u32);
}
