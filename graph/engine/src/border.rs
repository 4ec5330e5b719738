//! Edges that lead to other processes.
//!
//! A graph may be divided into partitions, one for each process. An edge between two partitions is
//! two queues in series, one at each end, both with the policy of the edge: [`Outgoing`] in the
//! process of the sender, [`Incoming`] in that of the receiver. A [`Border`] carries packets from
//! the first to the second. Nodes see no difference, and a graph in one process has none of this.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use afferent_graph::{Header, Packet, Timestamp};

use crate::{
    EdgeCounts, InterruptHandle, StopHandle,
    clock::generation::Watermark,
    edge::{RemoteEdge, queue::Taken},
    metrics::budget::Meter,
};

/// Carries packets between the partitions of a graph.
pub trait Border: Send + Sync {
    /// True if the node with this index in the graph runs in this process.
    fn is_here(&self, node_index: usize) -> bool;

    /// Every node of this process is open and none has run. Waits until that is true of the other
    /// processes, too; returns the common start of the session.
    ///
    /// # Errors
    /// The process that is missing, and the reason.
    fn begin(&self) -> Result<Instant, String>;

    /// Ends of the edges that lead to other processes, and handles of the run. Called once after
    /// [`Border::begin`], before any node runs. [`Incoming::offer`] may be called from now on.
    fn connect(&self, ends: BorderEnds);

    /// The outgoing edge has something to send: see [`Outgoing::next`]. Called on the thread of the
    /// sender; must not block.
    fn send(&self, edge: usize);

    /// The receiver of the incoming edge has taken packets or closed it. Called on the thread of
    /// the receiver; must not block.
    fn taken(&self, edge: usize);

    /// An interrupt of this process began `epoch`. Must not block.
    fn interrupted(&self, epoch: u32);

    /// A packet of `trace` has passed an end of a budget at `real_ns`: its start or not. Called for
    /// budgets with an end in another process. Returns false if the budget is measured in this
    /// process. Must not block.
    fn passed(&self, budget: usize, starts: bool, trace: u64, real_ns: u64) -> bool;

    /// The run was asked to stop. Must not block.
    fn stopped(&self);
}

/// Parts of a run that a [`Border`] uses.
pub struct BorderEnds {
    /// Edges to other processes, in the order of the graph.
    pub outgoing: Vec<Outgoing>,
    /// Edges from other processes, in the order of the graph.
    pub incoming: Vec<Incoming>,
    /// Interrupts the nodes of this process: see [`InterruptHandle::raise`].
    pub interrupt: InterruptHandle,
    /// Stops the nodes of this process.
    pub stop: StopHandle,
    /// Budgets of the graph, for ends in other processes.
    pub budgets: Budgets,
    /// Clock of the session.
    pub clock: SessionClock,
}

/// Budgets of a graph whose ends may be in other processes.
pub struct Budgets(pub(crate) Vec<Arc<Meter>>);

impl Budgets {
    /// Registers what [`Border::passed`] told another process.
    pub fn pass(&self, budget: usize, starts: bool, trace: u64, real_ns: u64) {
        if let Some(meter) = self.0.get(budget) {
            meter.pass(starts, trace, real_ns);
        }
    }
}

/// Session clock of a run.
#[derive(Clone)]
pub struct SessionClock {
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    slew: Arc<dyn Fn(i64) + Send + Sync>,
}

impl SessionClock {
    pub(crate) fn new(
        now: impl Fn() -> Timestamp + Send + Sync + 'static,
        slew: impl Fn(i64) + Send + Sync + 'static,
    ) -> Self {
        Self { now: Arc::new(now), slew: Arc::new(slew) }
    }

    /// Session time.
    pub fn now(&self) -> Timestamp {
        (self.now)()
    }

    /// The clock runs `error_ns` late against that of another machine. It is slewed by at most 500 ppm until
    /// they agree, and never goes back. One thread at a time may call this.
    pub fn slew(&self, error_ns: i64) {
        (self.slew)(error_ns);
    }
}

/// Sending end of an edge to another process.
pub struct Outgoing {
    /// Index of the edge in the graph.
    pub edge: usize,
    pub(crate) queue: Arc<RemoteEdge>,
    pub(crate) clock: SessionClock,
    pub(crate) interrupt: InterruptHandle,
    pub(crate) ended: AtomicBool,
    /// Called once at the end of the edge, unless `ended` is true from the start.
    pub(crate) on_end: Box<dyn Fn() + Send + Sync>,
}

/// Next item of an [`Outgoing`] edge.
pub enum ToSend {
    /// A packet.
    Packet(Packet),
    /// No packet, but the sender will send none before this watermark.
    Watermark(SentWatermark),
    /// The stream has ended.
    End,
    /// Nothing.
    Nothing,
}

impl Outgoing {
    /// Takes the next packet out of the queue by the policy of the edge.
    pub fn next(&self) -> ToSend {
        let (now, epoch) = (self.clock.now(), self.interrupt.epoch());
        let mut packet = Packet::default();
        let (taken, bound) = self.queue.receive(|queue| {
            let taken = queue.take(now, epoch, &mut packet);
            (taken, queue.outlook())
        });
        match taken {
            Taken::Next(()) => {
                packet.credit = None;
                ToSend::Packet(packet)
            }
            Taken::Empty => match bound.filter(|bound| *bound != Watermark::MIN) {
                Some(bound) => ToSend::Watermark(SentWatermark(bound)),
                None => ToSend::Nothing,
            },
            Taken::Over => ToSend::End,
        }
    }

    /// The edge carries nothing more: its stream has ended, or its receiver is gone. Queued and
    /// later packets are dropped and counted. Repeated calls have no effect.
    pub fn close(&self) {
        self.queue.receive(|queue| queue.close());
        if !self.ended.swap(true, Ordering::AcqRel) {
            (self.on_end)();
        }
    }

    /// Counters of this end: `delivered` counts packets that [`Outgoing::next`] returned.
    pub fn counts(&self) -> EdgeCounts {
        self.queue.counts()
    }
}

/// Receiving end of an edge from another process.
pub struct Incoming {
    /// Index of the edge in the graph.
    pub edge: usize,
    pub(crate) queue: Arc<RemoteEdge>,
}

impl Incoming {
    /// Offers a packet to the queue of the receiver; false if it has no room, which happens only
    /// with [`OnFull::Block`](afferent_graph::OnFull::Block).
    #[must_use]
    pub fn offer(&self, mut packet: Packet) -> bool {
        self.queue.offer(&mut packet)
    }

    /// The sender will send nothing before `bound`.
    pub fn advance(&self, bound: SentWatermark) {
        self.queue.send(|queue| queue.advance(bound.0));
    }

    /// The stream has ended.
    pub fn end(&self) {
        self.queue.send(|queue| queue.end());
    }

    /// The receiver takes no more packets.
    pub fn close(&self) {
        self.queue.receive(|queue| queue.close());
    }

    /// True if the receiver takes no more packets.
    pub fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }

    /// Counters of this end: `sent` counts packets that were offered.
    pub fn counts(&self) -> EdgeCounts {
        self.queue.counts()
    }
}

/// Watermark of a stream, as it travels between processes: no packet with an earlier timestamp will
/// follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentWatermark(Watermark);

impl SentWatermark {
    /// The watermark as a header: timestamp, trace, epoch and restarts.
    pub fn header(&self) -> Header {
        self.0.header()
    }

    /// The watermark of a header.
    pub fn of(header: &Header) -> Self {
        Self(Watermark::of_header(header))
    }
}
