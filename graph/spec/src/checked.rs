//! A checked graph: every name resolved, ready to run.

use std::{collections::BTreeSet, time::Duration};

use afferent_graph::{NodeDef, OnFull, ParamValues, PortId, PortKind, Weight};

use crate::{
    Machine, OnError, OnLoss, OnTimeFault, Partition, Schedule, SyncPolicy, files::files_of,
    placement::partition_name,
};

/// A checked graph.
#[derive(Debug, Clone)]
pub struct CheckedGraph {
    /// Name of the graph.
    pub name: String,
    /// Machines; empty for a graph without the key `machines`.
    pub machines: Vec<Machine>,
    /// Machine that this program runs on, if given: index in `machines`.
    pub machine: Option<usize>,
    /// Processes, at least one: the main process of each machine in the order of `machines`, then
    /// the named processes in the order of their first use. The first one is the main process of
    /// the first machine.
    pub partitions: Vec<Partition>,
    /// Nodes, in the order of the file.
    pub nodes: Vec<CheckedNode>,
    /// Edges.
    pub edges: Vec<Edge>,
    /// Output whose packets interrupt the nodes marked [`CheckedNode::canceled`]: index in `nodes`,
    /// and port.
    pub interrupt: Option<(usize, PortId)>,
    /// Latency budgets.
    pub budgets: Vec<CheckedBudget>,
    /// Outputs of the latency waterfall, in the order of the work: index in `nodes`, and port.
    pub waterfall: Vec<(usize, PortId)>,
}

impl Default for CheckedGraph {
    /// A graph without nodes, in one partition.
    fn default() -> Self {
        Self {
            name: String::new(),
            machines: Vec::new(),
            machine: None,
            partitions: vec![Partition::default()],
            nodes: Vec::new(),
            edges: Vec::new(),
            interrupt: None,
            budgets: Vec::new(),
            waterfall: Vec::new(),
        }
    }
}

/// Latency budget from one port to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckedBudget {
    /// Start of the measurement.
    pub from: End,
    /// End of the measurement.
    pub to: End,
    /// Limits of the median, the 95th and 99th percentile, and the maximum.
    pub limits: [Option<Duration>; 4],
}

/// A port of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// Index in [`CheckedGraph::nodes`].
    pub node: usize,
    /// Index of the port.
    pub port: PortId,
    /// Direction of the port.
    pub kind: PortKind,
}

impl CheckedGraph {
    /// `node.port` of a port.
    pub fn port_name(&self, (node, port): (usize, PortId), kind: PortKind) -> String {
        match self.nodes.get(node) {
            Some(known) => format!("{}.{}", known.name, known.def.port_name(kind, port)),
            None => format!("node {node}.{}", port.index()),
        }
    }

    /// `node.output -> node.input` of an edge.
    pub fn edge_name(&self, edge: &Edge) -> String {
        let from = self.port_name(edge.from, PortKind::Output);
        format!("{from} -> {}", self.port_name(edge.to, PortKind::Input))
    }

    /// True if the sender and the receiver of `edge` run in different processes.
    pub fn crosses(&self, edge: &Edge) -> bool {
        self.partition_of(edge.from.0) != self.partition_of(edge.to.0)
    }

    /// True if the sender and the receiver of `edge` run on different machines.
    pub fn crosses_machines(&self, edge: &Edge) -> bool {
        self.machine_of(edge.from.0) != self.machine_of(edge.to.0)
    }

    /// Index in [`CheckedGraph::partitions`] of the partition of a node.
    pub fn partition_of(&self, node: usize) -> usize {
        self.nodes.get(node).map_or(0, |node| node.partition)
    }

    /// Index in [`CheckedGraph::machines`] of the machine of a node; 0 for a graph without
    /// machines.
    pub fn machine_of(&self, node: usize) -> usize {
        self.partitions.get(self.partition_of(node)).map_or(0, |partition| partition.machine)
    }

    /// Pairs of machines that need a connection, each with its lower index first: those with common
    /// edges, those whose nodes an interrupt cancels, and the first one with every other machine
    /// that runs nodes, because it starts the session.
    pub fn linked_machines(&self) -> BTreeSet<[usize; 2]> {
        let edges = self.edges.iter().map(|edge| [edge.from.0, edge.to.0]);
        let canceled = self.nodes.iter().enumerate().filter(|(_, node)| node.canceled);
        let interrupts = self.interrupt.into_iter().flat_map(|(on, _)| {
            let canceled = canceled.clone();
            canceled.map(move |(index, _)| [on, index])
        });
        let pairs = edges.chain(interrupts).map(|pair| pair.map(|node| self.machine_of(node)));
        let firsts = (0..self.nodes.len()).map(|node| [0, self.machine_of(node)]);
        let pairs = pairs.chain(firsts).filter(|[one, other]| one != other);
        pairs.map(|[one, other]| [one.min(other), one.max(other)]).collect()
    }

    /// Name of a partition: `machine`, `machine/process`, or `process`; `main` for the main process
    /// of a graph without machines.
    pub fn partition_name(&self, partition: usize) -> String {
        let partition = self.partitions.get(partition);
        let machine = partition.and_then(|partition| self.machines.get(partition.machine));
        let process = partition.and_then(|partition| partition.process.as_deref());
        partition_name(machine.map(|machine| machine.name.as_str()), process)
    }
}

/// One node of a [`CheckedGraph`].
#[derive(Debug, Clone)]
pub struct CheckedNode {
    /// Unique within the graph.
    pub name: String,
    /// Contract and factory.
    pub def: NodeDef,
    /// Weight of the contract, or as measured.
    pub weight: Weight,
    /// Parameters, with resolved paths.
    pub params: ParamValues,
    /// Thread and scheduling.
    pub schedule: Schedule,
    /// Index in [`CheckedGraph::partitions`].
    pub partition: usize,
    /// True if an interrupt makes its work obsolete.
    pub canceled: bool,
    /// Policy for failed calls.
    pub on_error: OnError,
    /// Longest duration of a call; not applied on the virtual clock.
    pub deadline: Option<Duration>,
    /// Policy for packets with wrong timestamps.
    pub on_time_fault: OnTimeFault,
}

impl CheckedNode {
    /// True if a call acts on the world beyond the graph: the node type does, or it writes a file.
    pub fn has_effects(&self) -> bool {
        let mut files = files_of(&self.name, &self.def, &self.params).into_iter();
        self.def.has_effects || files.any(|(_, file)| file.is_written)
    }

    /// Node with default settings.
    pub fn new(name: impl Into<String>, def: NodeDef) -> Self {
        let (name, params) = (name.into(), ParamValues::new());
        let (on_error, deadline) = (OnError::default(), None);
        let schedule = Schedule::default();
        let (canceled, on_time_fault) = (false, OnTimeFault::default());
        Self {
            name,
            weight: def.weight,
            def,
            params,
            schedule,
            partition: 0,
            canceled,
            on_error,
            deadline,
            on_time_fault,
        }
    }
}

/// Connection from an output to an input.
#[derive(Debug, Clone, PartialEq)]
pub struct Edge {
    /// Sender: index in [`CheckedGraph::nodes`], and output.
    pub from: (usize, PortId),
    /// Receiver: index in [`CheckedGraph::nodes`], and input.
    pub to: (usize, PortId),
    /// Queue and queue policy.
    pub policy: EdgePolicy,
    /// Sync policy of a secondary input; `None` for the primary one.
    pub sync: Option<SyncPolicy>,
    /// Longest wait of a primary packet for this stream.
    pub timeout: Option<Duration>,
    /// In-flight limit, on the real clock: number of its packets downstream, up to the next edge
    /// with such a limit or a synchronizer. Further packets wait in the queue.
    pub in_flight: Option<usize>,
    /// True for a feedback edge, which leads to an ancestor of its sender: it never blocks the
    /// sender, and no node waits for its end.
    pub feedback: bool,
    /// Reaction to the loss of the sender, if the edge crosses partitions.
    pub on_loss: OnLoss,
    /// Time after which the stream of a lost sender ends, with [`OnLoss::Wait`]; none by default.
    pub loss_timeout: Option<Duration>,
}

impl Edge {
    /// Default in-flight limit of an edge that keeps the latest packet of a source: one node can
    /// compute while the next one does.
    pub const IN_FLIGHT: usize = 2;

    /// Edge without sync policy and limits.
    pub fn new(from: (usize, PortId), to: (usize, PortId), policy: EdgePolicy) -> Self {
        let (sync, timeout, in_flight) = (None, None, None);
        let (on_loss, loss_timeout) = (OnLoss::default(), None);
        let feedback = false;
        Self { from, to, policy, sync, timeout, in_flight, feedback, on_loss, loss_timeout }
    }

    /// Packets that a synchronizer keeps on the real clock: the queue length. For a queue of one,
    /// the default length, because matching packets seldom arrive at once; at least two for
    /// interpolation.
    pub fn kept(&self) -> usize {
        match (self.policy.on_full, self.sync) {
            (OnFull::Latest, _) => EdgePolicy::QUEUE,
            (_, Some(SyncPolicy::Interpolate)) => self.policy.queue.max(2),
            _ => self.policy.queue,
        }
    }
}

/// Queue and queue policy of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EdgePolicy {
    /// Policy of a full queue.
    pub on_full: OnFull,
    /// Length of the queue, at least one packet.
    pub queue: usize,
    /// Packets older than this are dropped at delivery.
    pub max_age: Option<Duration>,
}

impl EdgePolicy {
    /// Default length of a queue.
    pub const QUEUE: usize = 16;

    /// Default length of the queue of a feedback edge, which drops packets when full.
    pub const FEEDBACK_QUEUE: usize = 256;
}
