//! A graph without faults: every name resolved, ready to run.

use std::time::Duration;

use afferent_graph::{NodeDef, OnFull, ParamValues, PortId, PortKind, Weight};

use crate::{OnError, OnTimeFault, Schedule, SyncPolicy};

/// A checked graph.
#[derive(Debug, Clone, Default)]
pub struct CheckedGraph {
    /// Its name.
    pub name: String,
    /// Its nodes.
    pub nodes: Vec<CheckedNode>,
    /// Its edges.
    pub edges: Vec<Edge>,
    /// The output whose packets interrupt the nodes that are [`CheckedNode::cancelled`]: place in
    /// `nodes`, and output name.
    pub interrupt: Option<(usize, PortId)>,
    /// How long it may take from one port to another.
    pub budgets: Vec<CheckedBudget>,
    /// Outputs that work goes through one after the other, whose times are of interest: place in
    /// `nodes`, and output name.
    pub waterfall: Vec<(usize, PortId)>,
}

/// How long it may take from one port to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckedBudget {
    /// Where the time starts.
    pub from: End,
    /// Where it ends.
    pub to: End,
    /// Limits of the median, of 95 %, of 99 % and of all times.
    pub limits: [Option<Duration>; 4],
}

/// A port of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// Place in [`CheckedGraph::nodes`].
    pub node: usize,
    /// The port.
    pub port: PortId,
    /// Its direction.
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
}

/// One node of a [`CheckedGraph`].
#[derive(Debug, Clone)]
pub struct CheckedNode {
    /// Unique within the graph.
    pub name: String,
    /// Its contract.
    pub def: NodeDef,
    /// Cost of a call: that of the contract, or as measured.
    pub weight: Weight,
    /// Its settings; paths are resolved.
    pub params: ParamValues,
    /// Where it runs.
    pub schedule: Schedule,
    /// Whether an interrupt makes its work obsolete.
    pub cancelled: bool,
    /// What happens when a call fails.
    pub on_error: OnError,
    /// How long a call may take; not looked at on the virtual clock, where it takes no time.
    pub deadline: Option<Duration>,
    /// What becomes of packets that it sends with a time earlier than the one before.
    pub on_time_fault: OnTimeFault,
}

impl CheckedNode {
    /// A node with default settings.
    pub fn new(name: impl Into<String>, def: NodeDef) -> Self {
        let (name, params) = (name.into(), ParamValues::new());
        let (on_error, deadline) = (OnError::default(), None);
        let schedule = Schedule::default();
        let (cancelled, on_time_fault) = (false, OnTimeFault::default());
        Self {
            name,
            weight: def.weight,
            def,
            params,
            schedule,
            cancelled,
            on_error,
            deadline,
            on_time_fault,
        }
    }
}

/// A stream from an output to an input.
#[derive(Debug, Clone, PartialEq)]
pub struct Edge {
    /// Sender: place in [`CheckedGraph::nodes`], and output name.
    pub from: (usize, PortId),
    /// Receiver: place in [`CheckedGraph::nodes`], and input name.
    pub to: (usize, PortId),
    /// What it does under load.
    pub policy: EdgePolicy,
    /// How it accompanies the only stream into the receiver that has none of these.
    pub sync: Option<SyncPolicy>,
    /// How long a packet of that stream waits for this one.
    pub timeout: Option<Duration>,
    /// On the real clock: how many of its packets may be under way behind it, up to the next edge
    /// with such a limit, or a join. The next one waits in the queue until another is done with.
    pub in_flight: Option<usize>,
    /// Whether it leads back to a node that its sender descends from: it never makes its sender
    /// wait, and keeps nobody from ending.
    pub feedback: bool,
}

impl Edge {
    /// How many packets of an edge that keeps the latest of a source are under way behind it when
    /// the graph does not say: one node can compute while the one behind it does.
    pub const IN_FLIGHT: usize = 2;

    /// An edge that accompanies no other, without limits.
    pub fn new(from: (usize, PortId), to: (usize, PortId), policy: EdgePolicy) -> Self {
        let (sync, timeout, in_flight) = (None, None, None);
        Self { from, to, policy, sync, timeout, in_flight, feedback: false }
    }

    /// How many of its packets a receiver that joins them keeps on the real clock: as many as its
    /// queue holds. Where that is the newest alone, as many as other queues hold, because what
    /// belongs to one time seldom comes at once; and two to make a value between them.
    pub fn kept(&self) -> usize {
        match (self.policy.on_full, self.sync) {
            (OnFull::Latest, _) => EdgePolicy::QUEUE,
            (_, Some(SyncPolicy::Interpolate)) => self.policy.queue.max(2),
            _ => self.policy.queue,
        }
    }
}

/// What an edge does under load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EdgePolicy {
    /// When the queue is full.
    pub on_full: OnFull,
    /// How many packets may wait, at least one.
    pub queue: usize,
    /// Packets older than this are dropped when their turn comes.
    pub max_age: Option<Duration>,
}

impl EdgePolicy {
    /// How many packets may wait when the graph does not say.
    pub const QUEUE: usize = 16;

    /// The same on an edge that leads back, which drops what it has no room for.
    pub const FEEDBACK_QUEUE: usize = 256;
}
