//! The part of a graph that runs in this process, and its connections to the others.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io,
    os::fd::OwnedFd,
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak, atomic::AtomicBool},
    time::Instant,
};

use afferent_core::ForeignBytes;
use afferent_engine::{Budgets, Failure, InterruptHandle, Report, SessionClock, StopHandle};
use afferent_graph::{Header, Timestamp, WireCodec};
use afferent_spec::{CheckedGraph, Edge};

use crate::{
    control::{Control, PartitionReport},
    edges::{Receiver, Sender},
    frame::{self, Ack, Head},
    link::{Inbox, Link},
    local::LocalLink,
    lock,
    remote::{ClockOffset, SessionInfo},
};

mod border;
mod figures;
mod loss;
mod machines;
mod messages;
mod relay;

use relay::Relayed;

/// A graph cannot run over several processes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// An edge between processes has a payload that cannot travel.
    #[error("edge {edge}: a value of {ty} cannot travel between processes")]
    NoCodec {
        /// Sender and receiver.
        edge: String,
        /// Payload type.
        ty: String,
    },
    /// The graph has more edges than a message can name.
    #[error("the graph has {0} edges; at most 65535 can be spread over processes")]
    TooManyEdges(usize),
    /// The other machines cannot be reached, or not in this way.
    #[error("{0}")]
    Machines(String),
    /// The system refuses a process or a connection.
    #[error("process {process}: {reason}")]
    Process {
        /// Name of the process.
        process: String,
        /// Error of the system.
        reason: String,
    },
}

/// Connections of this process to the others of its graph.
///
/// The main process of a machine is connected to the other processes of the machine and to the main
/// processes of the other machines; it passes on what is not for itself.
pub struct Transport {
    pub(crate) graph: Arc<CheckedGraph>,
    /// Index of the partition of this process.
    pub(crate) here: usize,
    /// Number of times this process was started again.
    incarnation: u32,
    codecs: Vec<Option<&'static dyn WireCodec>>,
    links: Mutex<Vec<Option<Connection>>>,
    /// Messages to pass on, by the partition of their receiver.
    relays: Mutex<Vec<VecDeque<Relayed>>>,
    /// Told of packets at outputs of the waterfall in other processes.
    reached: OnceLock<Box<Reached>>,
    /// Reads the figures of the session.
    figures: OnceLock<Box<dyn Fn() -> Report + Send + Sync>>,
    edges: OnceLock<Edges>,
    progress: Mutex<Progress>,
    changed: Condvar,
    /// Told of processes that end unexpectedly.
    gone: OnceLock<Box<Gone>>,
    is_over: AtomicBool,
}

/// Index of an output in [`CheckedGraph::waterfall`], time at which a packet left it, and its
/// header.
type Reached = dyn Fn(usize, Timestamp, &Header) + Send + Sync;

/// Index of the partition of a process that has ended; returns true if it is started again.
type Gone = dyn Fn(usize) -> bool + Send + Sync;

/// Ends of the edges to other processes, and handles of the run.
struct Edges {
    /// By index of the edge.
    senders: Vec<Option<Sender>>,
    receivers: Vec<Option<Receiver>>,
    interrupt: InterruptHandle,
    stop: StopHandle,
    budgets: Budgets,
    clock: SessionClock,
}

/// Connection to one process.
#[derive(Clone)]
struct Connection {
    link: Arc<dyn Link>,
    /// True if the process was told to start, so that it takes packets.
    has_joined: bool,
}

/// State of the other processes, as far as they have reported it.
#[derive(Default)]
struct Progress {
    /// Partitions whose nodes are open.
    open: BTreeSet<usize>,
    /// True if those of this process are open.
    is_open: bool,
    /// Reason why the session cannot start.
    failed: Option<String>,
    /// Another process has started the session: its partition, and the start by its clock.
    go: Option<(usize, i64)>,
    /// Start of the session by the monotonic clock.
    start_ns: Option<i64>,
    epoch: u32,
    /// True if the whole run stops.
    stops: bool,
    /// Main processes of other machines that have told their session, if they know it.
    greeted: BTreeMap<usize, Option<SessionInfo>>,
    /// Session of this machine.
    session: Option<SessionInfo>,
    /// Main processes of other machines that cannot be reached at present.
    away: BTreeSet<usize>,
    /// Clocks of other machines, by the main process.
    clocks: BTreeMap<usize, ClockOffset>,
    /// Difference of the session clock of this machine from that of the first one, by the last
    /// reading.
    clock_lag_ns: u64,
    /// Partitions that have ended, or are lost for good.
    ended: BTreeSet<usize>,
    /// Failures of the nodes of lost processes.
    failures: Vec<Failure>,
    /// Parts of the report that each partition is sending.
    parts: Vec<String>,
    /// Last report of each partition.
    reports: Vec<Option<PartitionReport>>,
    /// Answers that are missing.
    asked: BTreeSet<usize>,
}

impl Transport {
    /// Prepares the partition with index `here` of `graph`, in its `incarnation`.
    ///
    /// # Errors
    /// [`TransportError::NoCodec`] and [`TransportError::TooManyEdges`].
    pub fn new(
        graph: &CheckedGraph,
        here: usize,
        incarnation: u32,
    ) -> Result<Arc<Self>, TransportError> {
        if graph.edges.len() > usize::from(u16::MAX) {
            return Err(TransportError::TooManyEdges(graph.edges.len()));
        }
        let codec = |edge: &Edge| {
            if !graph.crosses(edge) {
                return Ok(None);
            }
            let (node, port) = edge.from;
            let output = graph.nodes.get(node).and_then(|node| node.def.outputs.get(port.index()));
            match output.and_then(|output| output.wire) {
                Some(codec) => Ok(Some(codec)),
                None => Err(TransportError::NoCodec {
                    edge: graph.edge_name(edge),
                    ty: output.map_or_else(String::new, |output| output.ty.to_string()),
                }),
            }
        };
        let codecs = graph.edges.iter().map(codec).collect::<Result<_, _>>()?;
        let partitions = graph.partitions.len().max(1);
        let progress = Progress {
            parts: vec![String::new(); partitions],
            reports: vec![None; partitions],
            ..Progress::default()
        };
        Ok(Arc::new(Self {
            graph: Arc::new(graph.clone()),
            here,
            incarnation,
            codecs,
            links: Mutex::new(vec![None; partitions]),
            relays: Mutex::new((0..partitions).map(|_| VecDeque::new()).collect()),
            reached: OnceLock::new(),
            figures: OnceLock::new(),
            edges: OnceLock::new(),
            progress: Mutex::new(progress),
            changed: Condvar::new(),
            gone: OnceLock::new(),
            is_over: AtomicBool::new(false),
        }))
    }

    /// Sets a function that is called with the partition of each process that ends unexpectedly. It
    /// returns true if the process is started again; without it, none is.
    pub fn gone_by(&self, gone: impl Fn(usize) -> bool + Send + Sync + 'static) {
        drop(self.gone.set(Box::new(gone)));
    }

    /// Sets a function that is called for packets that leave outputs of the waterfall in other
    /// processes.
    pub fn reached_by(&self, reached: impl Fn(usize, Timestamp, &Header) + Send + Sync + 'static) {
        drop(self.reached.set(Box::new(reached)));
    }

    /// Receiver of the messages of the process of `partition`.
    pub fn inbox(self: &Arc<Self>, partition: usize) -> Arc<dyn Inbox> {
        Arc::new(Peer { transport: Arc::downgrade(self), partition })
    }

    /// Starts a local link to the process of `partition` over one end of a
    /// [`pair`](crate::local::pair), and adds it.
    ///
    /// # Errors
    /// The error of the system.
    pub fn connect_local(self: &Arc<Self>, partition: usize, socket: OwnedFd) -> io::Result<()> {
        let link = LocalLink::start(socket, &self.name(partition), self.inbox(partition))?;
        self.connect_link(partition, link);
        Ok(())
    }

    /// Adds the link to the process of `partition`.
    pub fn connect_link(&self, partition: usize, link: Arc<dyn Link>) {
        self.links()[partition] = Some(Connection { link, has_joined: false });
    }

    fn links(&self) -> MutexGuard<'_, Vec<Option<Connection>>> {
        lock(&self.links)
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        lock(&self.progress)
    }

    /// Changes the state of the other processes, and wakes the threads that wait for it.
    fn tell(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.progress());
        self.changed.notify_all();
    }

    /// Waits until `done`, at most until `end`.
    fn wait(&self, end: Instant, done: impl Fn(&Progress) -> bool) -> MutexGuard<'_, Progress> {
        let mut progress = self.progress();
        while !done(&progress) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.changed.wait_timeout(progress, left);
            progress = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        progress
    }

    /// Main process of the machine of a partition.
    fn main_of(&self, partition: usize) -> usize {
        self.graph.partitions.get(partition).map_or(0, |partition| partition.machine)
    }

    /// Process through which this one reaches that of `partition`.
    fn next_hop(&self, partition: usize) -> usize {
        let (here, there) = (self.main_of(self.here), self.main_of(partition));
        match self.here == here {
            false => here,
            true if here == there => partition,
            true => there,
        }
    }

    fn connection_to(&self, partition: usize) -> Option<Connection> {
        self.links().get(self.next_hop(partition))?.clone()
    }

    /// Link for messages of edges to the process of `partition`, if it takes some now.
    fn link_to(&self, partition: usize) -> Option<Arc<dyn Link>> {
        let found = self.connection_to(partition)?;
        (found.has_joined && found.link.is_up()).then_some(found.link)
    }

    /// Starts the process of `partition` of this machine, and sends what waits for it.
    fn start(&self, partition: usize, start_ns: i64, epoch: u32) {
        self.send_control(partition, &Control::Go { start_ns, epoch });
        self.join(partition);
    }

    /// The process of `partition` takes messages of edges from now on.
    fn join(&self, partition: usize) {
        if let Some(connection) = &mut self.links()[partition] {
            connection.has_joined = true;
        }
        self.resume(partition);
    }

    /// Sends what waits for the process of `partition` and those reached through it.
    fn resume(&self, partition: usize) {
        let reached = (0..self.graph.partitions.len()).filter(|to| self.next_hop(*to) == partition);
        reached.for_each(|to| self.relay(to));
        self.pump_all();
        // Those that became due without a link.
        if let Some(edges) = self.edges.get() {
            edges.receivers.iter().flatten().for_each(|receiver| self.acknowledge(receiver));
        }
    }

    /// True for the main process of the first machine, which reports for all.
    pub fn is_first(&self) -> bool {
        self.here == 0
    }

    fn is_main(&self) -> bool {
        self.here == self.main_of(self.here)
    }

    /// Partitions of the machine whose main process is `main`.
    fn partitions_of(&self, main: usize) -> Vec<usize> {
        let partitions = 0..self.graph.partitions.len();
        partitions.filter(|one| self.main_of(*one) == main).collect()
    }

    /// Partitions of other processes of this machine that are connected to this one.
    fn own_partitions(&self) -> Vec<usize> {
        let main = self.main_of(self.here);
        match self.is_main() {
            true => self.partitions_of(main).into_iter().filter(|one| *one != main).collect(),
            false => vec![main],
        }
    }

    /// Main processes of the other machines that this process has links to.
    fn machines(&self) -> Vec<usize> {
        let here = self.main_of(self.here);
        let links = self.links();
        let mains = (0..links.len()).filter(|one| self.main_of(*one) == *one && *one != here);
        mains.filter(|main| links[*main].is_some()).collect()
    }

    fn name(&self, partition: usize) -> String {
        self.graph.partition_name(partition)
    }

    fn pump(&self, sender: &Sender) {
        if let Some(link) = self.link_to(sender.to) {
            let is_machine = self.main_of(sender.to) != self.main_of(self.here);
            sender.pump(&link, !(is_machine && self.leaves()));
            self.changed.notify_all();
        }
    }

    fn pump_all(&self) {
        if let Some(edges) = self.edges.get() {
            edges.senders.iter().flatten().for_each(|sender| self.pump(sender));
        }
    }

    fn acknowledge(&self, receiver: &Receiver) {
        // Without a link, the acknowledgment stays due.
        if let Some(link) = self.link_to(receiver.from)
            && let Some(ack) = receiver.acknowledge()
        {
            link.send(&Head::Ack(ack), &[]);
        }
    }

    /// Handles a message of the process of `from`.
    fn receive(
        self: &Arc<Self>,
        from: usize,
        message: &[u8],
        bulk: ForeignBytes,
    ) -> Result<(), String> {
        let head = Head::read(message).map_err(|error| error.to_string())?;
        match &head {
            Head::Packet(packet)
            | Head::End(packet)
            | Head::Watermark(packet)
            | Head::Skip(packet) => {
                let edge = self.edge(packet.edge)?;
                let to = self.graph.partition_of(edge.to.0);
                if self.next_hop(self.graph.partition_of(edge.from.0)) != from {
                    return Err(format!("it sends to edge {}, which is not its own", packet.edge));
                }
                if to != self.here {
                    return self.forward(to, &head, message, bulk);
                }
                // The others may have started while this process connects its nodes.
                let edges = self.edges.wait();
                if let Some(receiver) = &edges.receivers[usize::from(packet.edge)] {
                    receiver.receive(&head, message, bulk, &edges.interrupt)?;
                    self.acknowledge(receiver);
                }
                Ok(())
            }
            Head::Ack(ack) => {
                let edge = self.edge(ack.edge)?;
                let to = self.graph.partition_of(edge.from.0);
                if self.next_hop(self.graph.partition_of(edge.to.0)) != from {
                    return Err(format!("it acknowledges edge {}, which is not its own", ack.edge));
                }
                if to != self.here {
                    return self.forward(to, &head, message, bulk);
                }
                self.acknowledged(ack)
            }
            Head::Control => {
                let text = &message[frame::HEAD..];
                let control = serde_json::from_slice(text)
                    .map_err(|error| format!("a control message is damaged: {error}"))?;
                self.control(from, control)
            }
            Head::Release(_) => Ok(()),
        }
    }

    fn acknowledged(&self, ack: &Ack) -> Result<(), String> {
        let sender =
            self.edges.get().and_then(|edges| edges.senders[usize::from(ack.edge)].as_ref());
        // One for an earlier incarnation of this process has no effect.
        let Some(sender) = sender.filter(|_| ack.incarnation == self.incarnation) else {
            return Ok(());
        };
        sender.acknowledge(ack)?;
        self.pump(sender);
        Ok(())
    }

    fn edge(&self, index: u16) -> Result<&Edge, String> {
        let edge = self.graph.edges.get(usize::from(index));
        let edge = edge.filter(|edge| self.graph.crosses(edge));
        edge.ok_or_else(|| format!("it names edge {index}, which does not lead between processes"))
    }
}

/// Inbox of the link to one process.
struct Peer {
    transport: Weak<Transport>,
    partition: usize,
}

impl Inbox for Peer {
    fn receive(&self, message: &[u8], bulk: ForeignBytes) -> Result<(), String> {
        let Some(transport) = self.transport.upgrade() else { return Ok(()) };
        transport.receive(self.partition, message, bulk)
    }

    fn has_memory(&self) {
        if let Some(transport) = self.transport.upgrade() {
            transport.resume(self.partition);
        }
    }

    fn gone(&self, reason: &str) {
        if let Some(transport) = self.transport.upgrade() {
            transport.gone(self.partition, reason);
        }
    }

    fn paused(&self, reason: &str) {
        if let Some(transport) = self.transport.upgrade() {
            transport.paused(self.partition, reason);
        }
    }

    fn resumed(&self) {
        if let Some(transport) = self.transport.upgrade() {
            transport.resumed(self.partition);
        }
    }

    fn restarted(&self) {
        if let Some(transport) = self.transport.upgrade() {
            transport.restarted(self.partition);
        }
    }

    fn greeted(&self, session: Option<SessionInfo>) {
        if let Some(transport) = self.transport.upgrade() {
            transport.tell(|progress| {
                progress.greeted.insert(self.partition, session);
            });
        }
    }

    fn clock_read(&self, offset: ClockOffset, start_ns: Option<i64>) {
        if let Some(transport) = self.transport.upgrade() {
            transport.clock_read(self.partition, offset, start_ns);
        }
    }

    fn session_start(&self) -> Option<i64> {
        self.transport.upgrade()?.session_start()
    }
}
