//! The part of a graph that runs in this process, and its connections to the others.

use std::{
    collections::{BTreeSet, VecDeque},
    io,
    os::fd::OwnedFd,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use afferent_core::ForeignBytes;
use afferent_engine::{
    Budgets, Failure, FailureKind, Handled, InterruptHandle, Report, SessionClock, StopHandle,
};
use afferent_graph::{Header, Timestamp, WireCodec};
use afferent_spec::{CheckedGraph, CheckedNode, Edge, OnLoss};

use crate::{
    control::{Control, PartitionReport},
    edges::{Receiver, Sender},
    frame::{self, Ack, Head},
    link::{Inbox, Link, LinkError},
    local::LocalLink,
    lock, shape,
};

mod border;
mod figures;

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

/// A message on its way between two other processes.
struct Relayed {
    head: Head,
    /// Without the bulk bytes of a packet.
    message: Vec<u8>,
    bulk: ForeignBytes,
}

/// State of the other processes, as far as they have reported it.
#[derive(Default)]
struct Progress {
    /// Partitions whose nodes are open.
    open: BTreeSet<usize>,
    /// Reason why the session cannot start.
    failed: Option<String>,
    /// Start of the session by the monotonic clock.
    start_ns: Option<i64>,
    epoch: u32,
    stops: bool,
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

    /// Link for messages of edges to the process of `partition`.
    fn link_to(&self, partition: usize) -> Option<Arc<dyn Link>> {
        self.connection_to(partition).filter(|found| found.has_joined).map(|found| found.link)
    }

    /// Starts the process of `partition`, and sends what waits for it.
    fn start(&self, partition: usize, start_ns: i64, epoch: u32) {
        self.send_control(partition, &Control::Go { start_ns, epoch });
        self.join(partition);
    }

    /// The process of `partition` takes messages of edges from now on.
    fn join(&self, partition: usize) {
        if let Some(connection) = &mut self.links()[partition] {
            connection.has_joined = true;
        }
        self.relay(partition);
        self.pump_all();
    }

    /// Partitions whose messages come through the main process of this machine: its own.
    fn own_partitions(&self) -> Vec<usize> {
        let here = self.main_of(self.here);
        (0..self.graph.partitions.len())
            .filter(|partition| *partition != self.here && self.main_of(*partition) == here)
            .collect()
    }

    /// Partitions that have to be open before this one may say so, or may start the session.
    fn awaited(&self) -> Vec<usize> {
        if self.here != self.main_of(self.here) {
            return Vec::new();
        }
        let mut awaited = self.own_partitions();
        if self.here == 0 {
            // The main processes of the other machines.
            let machines = self.graph.partitions.iter().map(|partition| partition.machine);
            awaited.extend(machines.collect::<BTreeSet<_>>().into_iter().filter(|main| *main != 0));
        }
        awaited
    }

    fn name(&self, partition: usize) -> String {
        self.graph.partition_name(partition)
    }

    pub(crate) fn send_control(&self, partition: usize, message: &Control) {
        if let Some(Connection { link, .. }) = self.connection_to(partition) {
            // Messages have no maps with keys that are not strings, which alone could fail.
            let text = serde_json::to_vec(message).unwrap_or_default();
            link.send(&Head::Control, &text);
        }
    }

    /// Tells every connected process but the one that the message came from.
    fn spread(&self, message: &Control, from: Option<usize>) {
        let is_from_machine =
            from.is_some_and(|from| self.main_of(from) != self.main_of(self.here));
        for partition in 0..self.graph.partitions.len() {
            let is_connected = self.links()[partition].is_some() && Some(partition) != from;
            let is_machine = self.main_of(partition) != self.main_of(self.here);
            // Machines are connected with each other.
            if is_connected && !(is_from_machine && is_machine) {
                self.send_control(partition, message);
            }
        }
    }

    fn pump(&self, sender: &Sender) {
        if let Some(link) = self.link_to(sender.to) {
            sender.pump(&link);
            self.changed.notify_all();
        }
    }

    fn pump_all(&self) {
        if let Some(edges) = self.edges.get() {
            edges.senders.iter().flatten().for_each(|sender| self.pump(sender));
        }
    }

    fn acknowledge(&self, receiver: &Receiver) {
        if let (Some(link), Some(ack)) = (self.link_to(receiver.from), receiver.acknowledge()) {
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
            Head::Packet(packet) | Head::End(packet) | Head::Watermark(packet) => {
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

    /// Passes a message on to the process of `to`.
    fn forward(
        &self,
        to: usize,
        head: &Head,
        message: &[u8],
        bulk: ForeignBytes,
    ) -> Result<(), String> {
        let meta = match head {
            Head::Packet(_) => {
                let parts = frame::parts(message).map_err(|error| error.to_string())?;
                frame::PACKET_HEAD + parts.meta.len()
            }
            _ => message.len(),
        };
        let relayed = Relayed { head: *head, message: message[..meta].to_vec(), bulk };
        self.relays()[to].push_back(relayed);
        self.relay(to);
        Ok(())
    }

    fn relays(&self) -> MutexGuard<'_, Vec<VecDeque<Relayed>>> {
        lock(&self.relays)
    }

    /// Passes on what the link to the process of `to` takes.
    fn relay(&self, to: usize) {
        let mut relays = self.relays();
        let link = match self.connection_to(to) {
            Some(Connection { link, has_joined: true }) => link,
            Some(_) => return,
            // Their senders count them as lost.
            None => return relays[to].clear(),
        };
        while let Some(Relayed { head, message, bulk }) = relays[to].front_mut() {
            if matches!(head, Head::Packet(_)) {
                match link.send_packet(message, bulk.as_slice()) {
                    Ok(()) => {}
                    Err(LinkError::Full) => return,
                    Err(error) => tracing::error!("a packet is lost: {error}"),
                }
            } else {
                link.send(head, &message[frame::HEAD..]);
            }
            relays[to].pop_front();
        }
    }

    fn edge(&self, index: u16) -> Result<&Edge, String> {
        let edge = self.graph.edges.get(usize::from(index));
        let edge = edge.filter(|edge| self.graph.crosses(edge));
        edge.ok_or_else(|| format!("it names edge {index}, which does not lead between processes"))
    }

    fn control(self: &Arc<Self>, from: usize, message: Control) -> Result<(), String> {
        match message {
            Control::Open { shape } => self.opened(from, &shape),
            Control::Go { start_ns, epoch } => {
                self.tell(|progress| {
                    (progress.start_ns, progress.epoch) = (Some(start_ns), epoch);
                });
                self.join(from);
                if self.here == self.main_of(self.here) {
                    for partition in self.own_partitions() {
                        self.start(partition, start_ns, epoch);
                    }
                }
            }
            Control::Epoch(epoch) => {
                if let Some(edges) = self.edges.get() {
                    edges.interrupt.raise(epoch);
                }
                self.tell(|progress| progress.epoch = progress.epoch.max(epoch));
                self.spread(&Control::Epoch(epoch), Some(from));
            }
            Control::Stop => {
                self.tell(|progress| progress.stops = true);
                if let Some(edges) = self.edges.get() {
                    edges.stop.stop();
                }
                self.spread(&Control::Stop, Some(from));
            }
            Control::Gone { partition, returns } => self.lost(partition, returns),
            Control::Passed { .. } | Control::Reached { .. } if self.here != 0 => {
                self.send_control(0, &message);
            }
            Control::Passed { budget, starts, trace, real_ns } => {
                self.edges.wait().budgets.pass(budget, starts, trace, real_ns);
            }
            Control::Reached { output, now, at, trace, model_ns } => {
                let header = Header { at: Timestamp(at), trace, model_ns, ..Header::default() };
                if let Some(reached) = self.reached.get() {
                    reached(output, Timestamp(now), &header);
                }
            }
            Control::Ask => self.answer(from),
            Control::Figures { text, ends } => self.collect(from, &text, ends)?,
        }
        Ok(())
    }

    /// The nodes of a process are open.
    fn opened(&self, partition: usize, found: &[String]) {
        let own = shape::of(&self.graph);
        let failed = shape::difference(&own, found).map(|difference| {
            let name = self.name(partition);
            format!("process {name} runs another graph: {difference}")
        });
        self.tell(|progress| {
            progress.open.insert(partition);
            progress.failed = progress.failed.take().or(failed);
        });
        // A process that was started again joins the session.
        let progress = self.progress();
        let (start_ns, epoch) = (progress.start_ns, progress.epoch);
        drop(progress);
        if let Some(start_ns) = start_ns {
            let epoch = self.edges.get().map_or(epoch, |edges| edges.interrupt.epoch());
            self.start(partition, start_ns, epoch);
        }
    }

    /// The process of `partition` has ended unexpectedly.
    fn lost(self: &Arc<Self>, partition: usize, returns: bool) {
        let Some(edges) = self.edges.get() else { return };
        for sender in edges.senders.iter().flatten().filter(|sender| sender.to == partition) {
            sender.lose();
            if !returns {
                sender.close();
            }
        }
        for receiver in edges.receivers.iter().flatten().filter(|one| one.from == partition) {
            let edge = &self.graph.edges[receiver.incoming.edge];
            match edge.on_loss {
                OnLoss::Wait => {
                    receiver.lose(returns);
                    if let Some(timeout) = edge.loss_timeout.filter(|_| returns) {
                        self.limit_loss(receiver.incoming.edge, timeout);
                    }
                }
                OnLoss::End => receiver.lose(false),
                OnLoss::Stop => {
                    receiver.lose(false);
                    edges.stop.stop();
                }
            }
        }
    }

    /// Ends the stream of an edge if its sender is not back after `timeout`.
    fn limit_loss(self: &Arc<Self>, edge: usize, timeout: Duration) {
        let transport = Arc::downgrade(self);
        let give_up = move || {
            thread::sleep(timeout);
            let Some(transport) = transport.upgrade() else { return };
            let receiver = transport.edges.get().and_then(|edges| edges.receivers[edge].as_ref());
            if let Some(name) = receiver.and_then(Receiver::give_up) {
                tracing::warn!("edge {name}: the sender is not back after {timeout:?}; it ends");
            }
        };
        drop(thread::Builder::new().name("loss".to_owned()).spawn(give_up));
    }

    /// The connection to the process of `partition` has ended.
    fn gone(self: &Arc<Self>, partition: usize, reason: &str) {
        self.links()[partition] = None;
        let has_ended = self.progress().ended.contains(&partition);
        if has_ended || self.is_over.load(Ordering::Acquire) {
            self.changed.notify_all();
            return;
        }
        let name = self.name(partition);
        let has_started = self.progress().start_ns.is_some();
        let gone = self.gone.get().filter(|_| has_started);
        let returns = gone.is_some_and(|gone| gone(partition));
        let message = format!("process {name} has ended: {reason}");
        let failures = self.failures_of(partition, &message);
        self.tell(|progress| {
            progress.open.remove(&partition);
            if !returns {
                progress.ended.insert(partition);
                progress.failures.extend(failures);
                progress.failed.get_or_insert(message);
            }
        });
        self.lost(partition, returns);
        if self.here == self.main_of(self.here) {
            self.spread(&Control::Gone { partition, returns }, Some(partition));
        } else if let Some(edges) = self.edges.get() {
            // Without the main process of its machine, nothing connects this one.
            tracing::error!("the main process has ended; this one stops");
            edges.stop.stop();
        }
    }

    /// A failure for each node of a lost process.
    fn failures_of(&self, partition: usize, message: &str) -> Vec<Failure> {
        let at = self.edges.get().map_or(0, |edges| edges.clock.now().0);
        let at_ns = u64::try_from(at).unwrap_or(0);
        let nodes = self.graph.nodes.iter().filter(|node| node.partition == partition);
        let failure = |node: &CheckedNode| Failure {
            node: node.name.clone(),
            kind: FailureKind::Lost,
            at_ns,
            message: message.to_owned(),
            handled: Handled::Stopped,
        };
        nodes.map(failure).collect()
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
            transport.relay(self.partition);
            transport.pump_all();
        }
    }

    fn gone(&self, reason: &str) {
        if let Some(transport) = self.transport.upgrade() {
            transport.gone(self.partition, reason);
        }
    }
}
