//! The two ends of an edge, within a thread or between threads.

pub(crate) mod bell;
pub(crate) mod port;
pub(crate) mod queue;
pub(crate) mod timeline;

use std::sync::{Arc, PoisonError};

use afferent_graph::{Packet, Timestamp};

use crate::{
    EdgeCounts,
    clock::generation::Watermark,
    edge::{
        bell::Bell,
        queue::{Queue, Taken},
    },
    sys::threading::{Mutex, MutexGuard},
};

/// Receiving end.
pub(crate) enum Inlet {
    /// From a node of the same thread: a plain queue, and the index of the sender in the worker.
    Local { queue: Queue, sender: usize },
    /// From another thread.
    Remote(Arc<RemoteEdge>),
}

/// Sending end.
pub(crate) enum Outlet {
    /// To a node of the same thread: its index in the worker, and the index of its input.
    Local { receiver: usize, input: usize },
    /// To another thread.
    Remote(Arc<RemoteEdge>),
}

/// Queue between two threads, or between a thread and another process.
///
/// A mutex guards the queue. It is held for tens of nanoseconds and never during a call or a wake.
/// `drop_oldest` and `latest` remove packets at the receiver's end while the receiver compares
/// heads, which lock-free rings do not offer. Waking a thread costs a thousand times more, so a
/// packet wakes at most once, and only a receiver that found its queue empty.
pub(crate) struct RemoteEdge {
    queue: Mutex<Queue>,
    sender: Bell,
    receiver: Bell,
}

impl RemoteEdge {
    pub(crate) fn new(
        queue: Queue,
        sender: impl Into<Bell>,
        receiver: impl Into<Bell>,
    ) -> Arc<Self> {
        let (sender, receiver) = (sender.into(), receiver.into());
        Arc::new(Self { queue: Mutex::new(queue), sender, receiver })
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // A panic in the `Drop` of a payload leaves the queue consistent.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// See [`Queue::offer`].
    #[must_use]
    pub(crate) fn offer(&self, packet: &mut Packet) -> bool {
        let mut queue = self.lock();
        // A receiver that left packets in the queue returns for them by itself.
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

    /// Runs `read` on the queue, then wakes the sender if it waits for the space that this freed.
    pub(crate) fn receive<R>(&self, read: impl FnOnce(&mut Queue) -> R) -> R {
        let mut queue = self.lock();
        let result = read(&mut queue);
        let frees = queue.frees_sender();
        drop(queue);
        if frees {
            self.sender.ring();
        }
        result
    }

    pub(crate) fn counts(&self) -> EdgeCounts {
        self.lock().counts()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().is_closed()
    }
}

impl Inlet {
    /// Runs `read` on the queue; returns the sender in this worker that can continue.
    fn receive<R>(&mut self, read: impl FnOnce(&mut Queue) -> R) -> (R, Option<usize>) {
        match self {
            Self::Local { queue, sender } => {
                let result = read(queue);
                (result, queue.frees_sender().then_some(*sender))
            }
            Self::Remote(edge) => (edge.receive(read), None),
        }
    }

    /// See [`Queue::take`]; returns the sender in this worker that can continue, too.
    pub(crate) fn take(
        &mut self,
        now: Timestamp,
        epoch: u32,
        slot: &mut Packet,
    ) -> (Taken<()>, Option<usize>) {
        self.receive(|queue| queue.take(now, epoch, slot))
    }

    /// See [`Queue::head`]; returns the sender in this worker that can continue, too.
    pub(crate) fn head(&mut self, now: Timestamp, epoch: u32) -> (Taken<Timestamp>, Option<usize>) {
        self.receive(|queue| queue.head(now, epoch))
    }

    /// See [`Queue::purge`]; returns the sender in this worker that can continue.
    pub(crate) fn purge(&mut self, epoch: u32) -> Option<usize> {
        self.receive(|queue| queue.purge(epoch)).1
    }

    /// See [`Queue::close`]; returns the sender in this worker that can continue.
    pub(crate) fn close(&mut self) -> Option<usize> {
        self.receive(Queue::close).1
    }

    /// See [`Queue::outlook`].
    pub(crate) fn outlook(&self) -> Option<Watermark> {
        match self {
            Self::Local { queue, .. } => queue.outlook(),
            Self::Remote(edge) => edge.lock().outlook(),
        }
    }

    pub(crate) fn is_remote(&self) -> bool {
        matches!(self, Self::Remote(_))
    }

    /// Counters of the edge.
    pub(crate) fn counts(&self) -> EdgeCounts {
        match self {
            Self::Local { queue, .. } => queue.counts(),
            Self::Remote(edge) => edge.counts(),
        }
    }
}
