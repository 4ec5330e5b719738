//! `f32` data for tests.

/// Integers from -125 to 125, the same on each call.
pub(crate) fn integer(index: usize) -> i32 {
    (index * 7919 % 251) as i32 - 125
}
