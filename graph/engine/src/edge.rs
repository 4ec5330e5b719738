//! The two ends of an edge: within a thread, and from one thread to another.

pub(crate) mod port;
pub(crate) mod queue;
pub(crate) mod timeline;

use std::sync::{Arc, PoisonError};

use afferent_graph::{Packet, Timestamp};

use crate::{
    EdgeCounts,
    clock::generation::Bound,
    edge::queue::{Queue, Taken},
    sys::{
        threading::{Mutex, MutexGuard},
        wake::Waker,
    },
};

/// The receiving end.
pub(crate) enum Inlet {
    /// From a node of the same thread: a plain queue, and the sender's place in the group.
    Near { queue: Queue, sender: usize },
    /// From another thread.
    Far(Arc<FarEdge>),
}

/// The sending end.
pub(crate) enum Outlet {
    /// To a node of the same thread: its place in the group, and the place of its input.
    Near { receiver: usize, input: usize },
    /// To another thread.
    Far(Arc<FarEdge>),
}

/// A queue between two threads.
///
/// The queue stands behind a lock, held for tens of nanoseconds and never during a call or a
/// wake, because `drop_oldest` and `latest` take from the receiver's end while the receiver
/// compares heads: lock-free rings have one or the other. Waking a thread costs a thousand times
/// more, so what matters is that a packet wakes at most once, and only when the receiver found
/// nothing left.
pub(crate) struct FarEdge {
    queue: Mutex<Queue>,
    sender: Arc<Waker>,
    receiver: Arc<Waker>,
}

impl FarEdge {
    pub(crate) fn new(queue: Queue, sender: Arc<Waker>, receiver: Arc<Waker>) -> Arc<Self> {
        Arc::new(Self { queue: Mutex::new(queue), sender, receiver })
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // A panic in the `Drop` of a payload leaves the queue as it should be.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// See [`Queue::offer`].
    #[must_use]
    pub(crate) fn offer(&self, packet: &mut Packet) -> bool {
        let mut queue = self.lock();
        // A receiver that left packets behind comes back for them by itself.
        let rings = queue.is_empty();
        let taken = queue.offer(packet);
        drop(queue);
        if taken && rings {
            self.receiver.ring();
        }
        taken
    }

    /// Changes the queue from the sender's end.
    pub(crate) fn send(&self, change: impl FnOnce(&mut Queue)) {
        change(&mut self.lock());
        self.receiver.ring();
    }

    /// Runs `read` on the queue, then tells the sender if that made the room it waits for.
    fn receive<R>(&self, read: impl FnOnce(&mut Queue) -> R) -> R {
        let mut queue = self.lock();
        let result = read(&mut queue);
        let frees = queue.frees_sender();
        drop(queue);
        if frees {
            self.sender.ring();
        }
        result
    }
}

impl Inlet {
    /// Runs `read` on the queue; names the sender in this group that can go on after it.
    fn receive<R>(&mut self, read: impl FnOnce(&mut Queue) -> R) -> (R, Option<usize>) {
        match self {
            Self::Near { queue, sender } => {
                let result = read(queue);
                (result, queue.frees_sender().then_some(*sender))
            }
            Self::Far(edge) => (edge.receive(read), None),
        }
    }

    /// See [`Queue::take`]; also the sender in this group that can go on after it.
    pub(crate) fn take(
        &mut self,
        now: Timestamp,
        epoch: u32,
        node_index: &mut Packet,
    ) -> (Taken<()>, Option<usize>) {
        self.receive(|queue| queue.take(now, epoch, node_index))
    }

    /// See [`Queue::head`]; also the sender in this group that can go on after it.
    pub(crate) fn head(&mut self, now: Timestamp, epoch: u32) -> (Taken<Timestamp>, Option<usize>) {
        self.receive(|queue| queue.head(now, epoch))
    }

    /// See [`Queue::purge`]; also the sender in this group that can go on after it.
    pub(crate) fn purge(&mut self, epoch: u32) -> Option<usize> {
        self.receive(|queue| queue.purge(epoch)).1
    }

    /// See [`Queue::close`]; also the sender in this group that can go on after it.
    pub(crate) fn close(&mut self) -> Option<usize> {
        self.receive(Queue::close).1
    }

    /// See [`Queue::outlook`].
    pub(crate) fn outlook(&self) -> Option<Bound> {
        match self {
            Self::Near { queue, .. } => queue.outlook(),
            Self::Far(edge) => edge.lock().outlook(),
        }
    }

    pub(crate) fn is_far(&self) -> bool {
        matches!(self, Self::Far(_))
    }

    /// What was counted.
    pub(crate) fn counts(&self) -> EdgeCounts {
        match self {
            Self::Near { queue, .. } => queue.counts(),
            Self::Far(edge) => edge.lock().counts(),
        }
    }
}
