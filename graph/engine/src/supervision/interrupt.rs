//! Interrupting the nodes whose work can become obsolete.
//!
//! An interrupt begins an epoch. A packet gets the epoch in which it comes to the first node that
//! can be cancelled, and hands it down to what is made of it; packets of earlier epochs are
//! obsolete. What other nodes have and do stays valid, so what they send after the interrupt
//! belongs to the new epoch, however long they have worked on it.
//!
//! A cancelled node hears of the interrupt on its own thread, between two calls: its outbox and
//! its queues are emptied, then it forgets what is half done ([`Node::cancel`]). A call that is
//! under way sees a flag, and what it sends is dropped. On the virtual clock an interrupt comes
//! when everything that happened before it has come to rest, so that it hits the same packets in
//! every run.
//!
//! [`Node::cancel`]: afferent_graph::Node::cancel

use std::sync::{
    Arc, PoisonError,
    atomic::{AtomicBool as Flag, Ordering},
};

use crate::sys::{
    threading::{AtomicBool, AtomicU32, Mutex},
    wake::Waker,
};

/// Interrupts a running graph from elsewhere, as a packet of its interrupting output does.
///
/// Clones interrupt the same run.
#[derive(Clone)]
pub struct InterruptHandle(Arc<Interruption>);

struct Interruption {
    epoch: AtomicU32,
    /// Of each node, in the order of the graph: its present call is obsolete.
    cancelled: Vec<(bool, Arc<Flag>)>,
    /// Epoch and flags change together.
    change: Mutex<()>,
    /// The threads of the nodes that can be cancelled.
    wakers: Vec<Arc<Waker>>,
    /// On the virtual clock an interrupt waits until all threads do.
    waits: bool,
    pending: AtomicBool,
}

impl Default for InterruptHandle {
    fn default() -> Self {
        Self::new(&[], Vec::new(), false)
    }
}

impl InterruptHandle {
    /// For a run whose nodes can be cancelled as `cancelled` says, on the threads of `wakers`.
    pub(crate) fn new(cancelled: &[bool], wakers: Vec<Arc<Waker>>, waits: bool) -> Self {
        let cancelled = cancelled.iter().map(|can| (*can, Arc::default())).collect();
        let (epoch, pending) = (AtomicU32::new(1), AtomicBool::new(false));
        let change = Mutex::new(());
        Self(Arc::new(Interruption { epoch, cancelled, change, wakers, waits, pending }))
    }

    /// Makes the present work of the nodes that can be cancelled obsolete, and returns at once.
    pub fn interrupt(&self) {
        if self.0.waits {
            self.0.pending.store(true, Ordering::Release);
        } else {
            self.begin();
        }
    }

    /// The present epoch, from one on.
    pub fn epoch(&self) -> u32 {
        self.0.epoch.load(Ordering::Acquire)
    }

    /// Begins the epoch of an interrupt that has waited for all threads to rest; whether there was
    /// one.
    pub(crate) fn begin_pending(&self) -> bool {
        let pending = self.0.pending.swap(false, Ordering::AcqRel);
        if pending {
            self.begin();
        }
        pending
    }

    fn begin(&self) {
        let change = self.0.change.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.epoch.fetch_add(1, Ordering::AcqRel);
        for (_, flag) in self.0.cancelled.iter().filter(|(can, _)| *can) {
            flag.store(true, Ordering::Release);
        }
        drop(change);
        self.0.wakers.iter().for_each(|waker| waker.ring());
    }

    /// Whether the present call of the node at `place` is obsolete.
    pub(crate) fn flag(&self, node_index: usize) -> &Arc<Flag> {
        &self.0.cancelled[node_index].1
    }

    /// The present epoch, of which the node at `place` has now heard.
    pub(crate) fn answer(&self, node_index: usize) -> u32 {
        let _change = self.0.change.lock().unwrap_or_else(PoisonError::into_inner);
        self.flag(node_index).store(false, Ordering::Release);
        self.epoch()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nodes_that_can_be_cancelled_see_it() {
        let waker = Arc::new(Waker::default());
        let interrupt = InterruptHandle::new(&[false, true], vec![waker.clone()], false);
        interrupt.interrupt();
        let flags = [0, 1].map(|node_index| interrupt.flag(node_index).load(Ordering::Relaxed));
        assert_eq!((flags, waker.rings()), ([false, true], true));
        assert_eq!(interrupt.answer(1), 2);
        assert!(!interrupt.flag(1).load(Ordering::Relaxed));
    }

    #[test]
    fn on_the_virtual_clock_it_waits() {
        let interrupt = InterruptHandle::new(&[true], Vec::new(), true);
        interrupt.interrupt();
        interrupt.interrupt();
        assert_eq!(interrupt.epoch(), 1);
        assert!(interrupt.begin_pending() && !interrupt.begin_pending());
        assert_eq!(interrupt.epoch(), 2);
    }
}
