//! Runs within a limit of allocated bytes.

use std::{
    alloc::System,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Mutex,
};

use cap::Cap;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Serializes the tests: the limit applies to the whole process.
pub(crate) static SERIAL: Mutex<()> = Mutex::new(());

/// Calls `run`, which may allocate `bytes`. A panic or a larger allocation fails the test with `what`.
pub(crate) fn limited<T>(bytes: usize, what: &str, run: impl FnOnce() -> T) -> T {
    let limit = ALLOCATOR.allocated() + bytes;
    ALLOCATOR.set_limit(limit).expect("the limit exceeds the allocated bytes");
    let result = catch_unwind(AssertUnwindSafe(run));
    ALLOCATOR.set_limit(usize::MAX).expect("the limit exceeds the allocated bytes");
    result.unwrap_or_else(|_| panic!("{what}"))
}
