//! Credits: limits of the packets in flight downstream of an edge.

use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
};

use crate::threading::AtomicUsize;

#[cfg(all(test, shuttle))]
mod interleavings;

/// One packet that an edge allows to be in flight downstream of it.
///
/// The packet that takes the credit holds a [`CreditGuard`], and so do the packets that nodes derive
/// from it. The credit is free again after all of them have been handled or dropped.
pub struct Credit(Arc<Shared>);

/// Keeps a credit taken. Clones keep the same credit.
pub struct CreditGuard(Arc<Shared>);

struct Shared {
    guards: AtomicUsize,
    on_free: Box<dyn Fn() + Send + Sync>,
}

impl Credit {
    /// Free credit. The thread that frees it again calls `on_free`.
    pub fn new(on_free: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(Shared { guards: AtomicUsize::new(0), on_free: Box::new(on_free) }))
    }

    /// True if no packet holds it.
    pub fn is_free(&self) -> bool {
        self.0.guards.load(Ordering::Acquire) == 0
    }

    /// Takes the credit if it is free.
    pub fn take(&self) -> Option<CreditGuard> {
        let taken = self.0.guards.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed);
        taken.is_ok().then(|| CreditGuard(self.0.clone()))
    }
}

impl Clone for CreditGuard {
    fn clone(&self) -> Self {
        self.0.guards.fetch_add(1, Ordering::Relaxed);
        Self(self.0.clone())
    }
}

impl Drop for CreditGuard {
    fn drop(&mut self) {
        if self.0.guards.fetch_sub(1, Ordering::AcqRel) == 1 {
            (self.0.on_free)();
        }
    }
}

impl fmt::Debug for Credit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credit({} guards)", self.0.guards.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credit_is_free_after_its_last_guard_is_dropped() {
        let freed = Arc::new(AtomicUsize::new(0));
        let count = freed.clone();
        let credit = Credit::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let guard = credit.take().unwrap();
        assert!(credit.take().is_none() && !credit.is_free());
        let other = guard.clone();
        drop(guard);
        assert!(!credit.is_free());
        drop(other);
        assert!(credit.is_free() && freed.load(Ordering::Relaxed) == 1);
        assert!(credit.take().is_some());
    }
}
