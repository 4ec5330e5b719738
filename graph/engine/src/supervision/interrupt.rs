//! Interrupts: canceling the work of nodes that has become obsolete.
//!
//! An interrupt starts an epoch. A packet gets the epoch in which it reaches the first node that
//! can be canceled, and derived packets inherit it; packets of earlier epochs are obsolete. Work of
//! other nodes stays valid: packets that they send after the interrupt belong to the new epoch,
//! however long they took.
//!
//! A canceled node handles the interrupt on its own thread between two calls: its outbox and queues
//! are emptied, then [`Node::cancel`] discards unfinished work. A running call sees a flag, and its
//! packets are dropped. On the virtual clock an interrupt waits until all threads rest, so that it
//! affects the same packets in every run.
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

/// Interrupts a running graph from another thread, as a packet of its interrupting output does.
///
/// Clones interrupt the same run.
#[derive(Clone)]
pub struct InterruptHandle(Arc<Interruption>);

struct Interruption {
    epoch: AtomicU32,
    /// For each node of the graph: whether it can be canceled, and the flag of its current call.
    canceled: Vec<(bool, Arc<Flag>)>,
    /// Guards epoch and flags, which change together.
    change: Mutex<()>,
    /// Threads of the nodes that can be canceled.
    wakers: Vec<Arc<Waker>>,
    /// On the virtual clock an interrupt waits until all threads rest.
    waits: bool,
    pending: AtomicBool,
    /// Called with the epoch of each interrupt that begins in this process.
    tell: Box<dyn Fn(u32) + Send + Sync>,
}

impl Default for InterruptHandle {
    fn default() -> Self {
        Self::new(&[], Vec::new(), false, |_| ())
    }
}

impl InterruptHandle {
    /// Interrupt of the nodes marked in `canceled`, on the threads of `wakers`.
    pub(crate) fn new(
        canceled: &[bool],
        wakers: Vec<Arc<Waker>>,
        waits: bool,
        tell: impl Fn(u32) + Send + Sync + 'static,
    ) -> Self {
        let canceled = canceled.iter().map(|can| (*can, Arc::default())).collect();
        let (epoch, pending) = (AtomicU32::new(1), AtomicBool::new(false));
        let (change, tell) = (Mutex::new(()), Box::new(tell));
        Self(Arc::new(Interruption { epoch, canceled, change, wakers, waits, pending, tell }))
    }

    /// Makes the current work of the nodes that can be canceled obsolete, and returns at once.
    pub fn interrupt(&self) {
        if self.0.waits {
            self.0.pending.store(true, Ordering::Release);
        } else {
            self.begin_next();
        }
    }

    /// Current epoch; the first one is 1.
    pub fn epoch(&self) -> u32 {
        self.0.epoch.load(Ordering::Acquire)
    }

    /// Starts the epoch of an interrupt that waited for all threads to rest; true if there was one.
    pub(crate) fn begin_pending(&self) -> bool {
        let pending = self.0.pending.swap(false, Ordering::AcqRel);
        if pending {
            self.begin_next();
        }
        pending
    }

    /// Takes over an interrupt of another process, which began `epoch`. Earlier epochs have no
    /// effect; true if this one has.
    pub fn raise(&self, epoch: u32) -> bool {
        self.begin(|current| epoch.max(current)).is_some()
    }

    fn begin_next(&self) {
        let began = self.begin(|current| current.saturating_add(1));
        if let Some(epoch) = began {
            (self.0.tell)(epoch);
        }
    }

    /// Begins the epoch that follows from the current one, unless it is the same; returns it.
    fn begin(&self, next: impl FnOnce(u32) -> u32) -> Option<u32> {
        let change = self.0.change.lock().unwrap_or_else(PoisonError::into_inner);
        let current = self.0.epoch.load(Ordering::Acquire);
        let epoch = Some(next(current)).filter(|epoch| *epoch != current)?;
        self.0.epoch.store(epoch, Ordering::Release);
        for (_, flag) in self.0.canceled.iter().filter(|(can, _)| *can) {
            flag.store(true, Ordering::Release);
        }
        drop(change);
        self.0.wakers.iter().for_each(|waker| waker.ring());
        Some(epoch)
    }

    /// Flag of the current call of the node: true if it is obsolete.
    pub(crate) fn flag(&self, node_index: usize) -> &Arc<Flag> {
        &self.0.canceled[node_index].1
    }

    /// Current epoch, which the node has now handled.
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
    fn only_nodes_that_can_be_canceled_see_it() {
        let waker = Arc::new(Waker::default());
        let interrupt = InterruptHandle::new(&[false, true], vec![waker.clone()], false, |_| ());
        interrupt.interrupt();
        let flags = [0, 1].map(|node_index| interrupt.flag(node_index).load(Ordering::Relaxed));
        assert_eq!((flags, waker.rings()), ([false, true], true));
        assert_eq!(interrupt.answer(1), 2);
        assert!(!interrupt.flag(1).load(Ordering::Relaxed));
    }

    #[test]
    fn on_the_virtual_clock_it_waits() {
        let interrupt = InterruptHandle::new(&[true], Vec::new(), true, |_| ());
        interrupt.interrupt();
        interrupt.interrupt();
        assert_eq!(interrupt.epoch(), 1);
        assert!(interrupt.begin_pending() && !interrupt.begin_pending());
        assert_eq!(interrupt.epoch(), 2);
    }
}
