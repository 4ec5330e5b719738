//! Locks, atomics and threads of the standard library, or of the model checker.

#[cfg(not(shuttle))]
pub(crate) use std::{
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicI64, AtomicU32},
    },
    thread,
};

#[cfg(shuttle)]
pub(crate) use shuttle::{
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicI64, AtomicU32},
    },
    thread,
};
