//! Opens the nodes of a plan and connects them.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak, atomic::AtomicU64},
    time::Instant,
};

use afferent_graph::{
    Credit, DynNode, Header, InputInfo, Joined, NodeContext, OnFull, OpenCx, Outbox, Pool, PortId,
    PortKind, PortSpec, Resume, Timestamp,
};

use crate::{
    Border, ClockKind, InterruptHandle, JoinCounts, Plan, RunError, RunOptions,
    clock::generation::Watermark,
    edge::{
        Inlet, Outlet, RemoteEdge,
        bell::Bell,
        port::{Input, Output},
        queue::Queue,
        timeline::Timeline,
    },
    metrics::{
        NodeStats,
        budget::{self, Meter},
        histogram::Times,
    },
    plan::pools,
    scheduler::{
        node::{Phase, Runner, SLOTS},
        opener::Opener,
    },
    supervision::Restarts,
    sync::{Secondary, Synchronizer},
    sys::wake::Waker,
};
use afferent_spec::{CheckedGraph, Edge, EdgePolicy, End, OnError};

/// An open node, and its opener for a restart.
pub(crate) type OpenNode = (Opener, Box<dyn DynNode>);

/// Opens every node that runs here; the others are `None`. If one fails, those already open are
/// closed.
///
/// # Errors
/// [`RunError::Open`] and [`RunError::OpenPanic`].
pub(crate) fn open(
    graph: &CheckedGraph,
    cx: &OpenCx,
    is_here: impl Fn(usize) -> bool,
) -> Result<Vec<Option<OpenNode>>, RunError> {
    let open = |node_index| {
        let opener = Opener::new(graph, node_index, cx);
        let start = Instant::now();
        let node = opener.open()?;
        let (name, took) = (&graph.nodes[node_index].name, start.elapsed());
        tracing::info!("opened node {name} in {:.1} ms", took.as_secs_f64() * 1e3);
        Ok((opener, node))
    };
    (0..graph.nodes.len())
        .map(|node_index| is_here(node_index).then(|| open(node_index)).transpose())
        .collect()
}

/// Finds an edge that names a port that its node does not have.
pub(crate) fn check_ports(graph: &CheckedGraph) -> Result<(), RunError> {
    let has = |(node_index, port): (usize, PortId), kind: PortKind| {
        let node = graph.nodes.get(node_index);
        node.is_some_and(|node| port.index() < node.def.ports(kind).len())
    };
    let (input, output) = (PortKind::Input, PortKind::Output);
    match graph.edges.iter().find(|edge| !has(edge.from, output) || !has(edge.to, input)) {
        Some(edge) => Err(RunError::Edge { edge: graph.edge_name(edge) }),
        None => Ok(()),
    }
}

/// Refuses a graph that is spread over several processes, unless a border connects them. On the
/// virtual clock, all of it runs in this one.
pub(crate) fn check_partitions(graph: &CheckedGraph, options: &RunOptions) -> Result<(), RunError> {
    let is_whole = options.clock == ClockKind::Virtual || graph.partitions.len() < 2;
    if is_whole || options.border.is_some() {
        return Ok(());
    }
    let names = (0..graph.partitions.len()).map(|partition| graph.partition_name(partition));
    Err(RunError::Spread { partitions: names.collect() })
}

/// Interrupt of the nodes of `graph`.
pub(crate) fn interrupt(
    graph: &CheckedGraph,
    plan: &Plan,
    options: &RunOptions,
    wakers: &[Arc<Waker>],
) -> InterruptHandle {
    let canceled: Vec<_> = graph.nodes.iter().map(|node| node.canceled).collect();
    let groups = plan.groups.iter().zip(wakers);
    let wakers =
        groups.filter(|(members, _)| members.iter().any(|node_index| canceled[*node_index]));
    let wakers = wakers.map(|(_, waker)| waker.clone()).collect();
    let border = options.border.as_ref().map(Arc::downgrade);
    let tell = move |epoch| {
        if let Some(border) = border.as_ref().and_then(Weak::upgrade) {
            border.interrupted(epoch);
        }
    };
    InterruptHandle::new(&canceled, wakers, options.clock == ClockKind::Virtual, tell)
}

/// Connected nodes of a graph.
pub(crate) struct Connected {
    /// Nodes of each thread.
    pub(crate) groups: Vec<Vec<Runner>>,
    /// Edges to other processes, by their index.
    pub(crate) outgoing: Vec<(usize, Arc<RemoteEdge>)>,
    /// Edges from other processes, by their index.
    pub(crate) incoming: Vec<(usize, Arc<RemoteEdge>)>,
}

/// Inputs of the wiring of a graph.
pub(crate) struct Wiring<'w> {
    pub(crate) graph: &'w CheckedGraph,
    pub(crate) plan: &'w Plan,
    pub(crate) options: &'w RunOptions,
    pub(crate) interrupt: InterruptHandle,
    pub(crate) meters: Vec<Arc<Meter>>,
    /// For each node: true if it uses the watermark of its senders.
    pub(crate) needs_watermark_of: Vec<bool>,
}

/// For each node: true if it joins streams, or forwards its watermark to a node that does.
pub(crate) fn needs_watermark_of(graph: &CheckedGraph, plan: &Plan) -> Vec<bool> {
    let mut needs_watermark_of = vec![false; graph.nodes.len()];
    for node_index in plan.order.iter().rev() {
        let def = &graph.nodes[*node_index].def;
        let in_step = |port: PortId| def.outputs.get(port.index()).is_some_and(|port| port.in_step);
        let mut inputs = graph.edges.iter().filter(|edge| edge.to.0 == *node_index);
        let joins = inputs.clone().any(|edge| edge.sync.is_some());
        let mut outputs = graph.edges.iter().filter(|edge| edge.from.0 == *node_index);
        let passes = inputs.nth(1).is_none()
            && outputs.any(|edge| in_step(edge.from.1) && needs_watermark_of[edge.to.0]);
        needs_watermark_of[*node_index] = joins || passes;
    }
    needs_watermark_of
}

impl Wiring<'_> {
    /// Input port that `edge` leads to; [`check_ports`] has found that it exists.
    fn input_port(&self, edge: &Edge) -> &PortSpec {
        let (node_index, port) = edge.to;
        &self.graph.nodes[node_index].def.inputs[port.index()]
    }

    /// Synchronizer of the node, whose inputs are in the order of the edges.
    fn join(&self, node_index: usize) -> Option<Synchronizer> {
        let graph = self.graph;
        let inputs = graph.edges.iter().filter(|edge| edge.to.0 == node_index);
        let inputs: Vec<_> = inputs.collect();
        let lead = inputs.iter().position(|edge| edge.sync.is_none())?;
        let companions = inputs.iter().enumerate().filter_map(|(input, edge)| {
            let optional = self.input_port(edge).optional;
            let limit = match self.options.clock {
                ClockKind::Real => edge.kept(),
                // No time passes while packets gather.
                ClockKind::Virtual => usize::MAX,
            };
            Some(Secondary::new(input, edge.sync?, optional, edge.timeout, limit))
        });
        let companions: Vec<_> = companions.collect();
        let joined: Vec<_> = companions
            .iter()
            .map(|companion| {
                let port = self.input_port(inputs[companion.input]);
                Joined { port: port.id, name: port.name.clone(), packets: Vec::with_capacity(4) }
            })
            .collect();
        // One more than this goes on without a match.
        let room = inputs[lead].kept() + 1;
        (!companions.is_empty()).then(|| Synchronizer {
            lead,
            joined,
            companions,
            waiting: VecDeque::with_capacity(room),
            room,
            due: None,
            stuck: false,
            restarts: 0,
            counts: JoinCounts::default(),
        })
    }

    /// Connects the nodes of every worker.
    pub(crate) fn connect(
        &self,
        mut nodes: Vec<Option<OpenNode>>,
        wakers: &[Arc<Waker>],
    ) -> Connected {
        let graph = self.graph;
        let mut index_of = vec![None; graph.nodes.len()];
        let mut groups = Vec::new();
        for (group, members) in self.plan.groups.iter().enumerate() {
            let mut runners = Vec::new();
            for node_index in members {
                let Some(node) = nodes[*node_index].take() else { continue };
                index_of[*node_index] = Some((group, runners.len()));
                runners.push(self.runner(*node_index, node));
            }
            groups.push(runners);
        }
        // Edges that can block their sender come last, so the others are served first.
        let mut edges: Vec<usize> = (0..graph.edges.len()).collect();
        edges.sort_by_key(|edge| graph.edges[*edge].policy.on_full == OnFull::Block);
        let (mut inlets, mut outlets) = (Vec::new(), Vec::new());
        let (mut outgoing, mut incoming) = (Vec::new(), Vec::new());
        for index in edges {
            let edge = &graph.edges[index];
            match (index_of[edge.from.0], index_of[edge.to.0]) {
                (Some(from), Some(to)) => {
                    let (inlet, outlet) = self.edge(index, from, to, wakers);
                    inlets.push((index, to, self.input(index, inlet)));
                    outlets.push((from, edge.from.1, outlet));
                }
                (Some(from), None) => {
                    let queue = self.outgoing(index, &wakers[from.0]);
                    outlets.push((from, edge.from.1, Outlet::Remote(queue.clone())));
                    outgoing.push((index, queue));
                }
                (None, Some(to)) => {
                    let queue = self.incoming(index, &wakers[to.0]);
                    let input = self.input(index, Inlet::Remote(queue.clone()));
                    inlets.push((index, to, input));
                    incoming.push((index, queue));
                }
                (None, None) => {}
            }
        }
        // Inputs are in the order of the graph, which decides between equal timestamps.
        inlets.sort_by_key(|(index, ..)| *index);
        for (_, (group, runner), input) in inlets {
            groups[group][runner].inputs.push(input);
        }
        for ((group, runner), port, outlet) in outlets {
            let outputs = &mut groups[group][runner].outputs;
            if let Some(output) = outputs.get_mut(port.index()) {
                output.outlets.push(outlet);
            }
        }
        outgoing.sort_by_key(|(index, _)| *index);
        incoming.sort_by_key(|(index, _)| *index);
        Connected { groups, outgoing, incoming }
    }

    /// Queue of an edge to another process. Sync policies and in-flight limits concern its receiver.
    fn outgoing(&self, index: usize, sender: &Arc<Waker>) -> Arc<RemoteEdge> {
        let edge = &self.graph.edges[index];
        let queue =
            Queue::new(edge.policy, self.interrupt_of(edge.to.0)).with_feedback(edge.feedback);
        RemoteEdge::new(queue, sender.clone(), self.bell(move |border| border.send(index)))
    }

    /// Queue of an edge from another process.
    fn incoming(&self, index: usize, receiver: &Arc<Waker>) -> Arc<RemoteEdge> {
        let edge = &self.graph.edges[index];
        let queue = Queue::new(edge.policy, self.interrupt_of(edge.to.0))
            .with_acknowledgments(true)
            .with_credits(self.credits(index, receiver))
            .with_feedback(edge.feedback);
        RemoteEdge::new(queue, self.bell(move |border| border.taken(index)), receiver.clone())
    }

    fn bell(&self, tell: impl Fn(&dyn Border) + Send + Sync + 'static) -> Bell {
        // Without a border, every node is here. The border may own this session.
        let border = self.options.border.as_ref().map(Arc::downgrade);
        Bell::Border(Box::new(move || {
            if let Some(border) = border.as_ref().and_then(Weak::upgrade) {
                tell(&*border);
            }
        }))
    }

    /// Interrupt of the node, if it can be canceled.
    fn interrupt_of(&self, node_index: usize) -> Option<InterruptHandle> {
        self.graph.nodes[node_index].canceled.then(|| self.interrupt.clone())
    }

    /// Ends of an edge between two nodes: thread, and index in it.
    fn edge(
        &self,
        index: usize,
        from: (usize, usize),
        to: (usize, usize),
        wakers: &[Arc<Waker>],
    ) -> (Inlet, Outlet) {
        let edges = &self.graph.edges;
        let receiver = edges[index].to.0;
        let policy = effective(&edges[index], self.options.clock);
        let queue = Queue::new(policy, self.interrupt_of(receiver))
            .with_credits(self.credits(index, &wakers[to.0]))
            .with_feedback(edges[index].feedback);
        if from.0 == to.0 {
            let input = edges[..index].iter().filter(|other| other.to.0 == receiver).count();
            (Inlet::Local { queue, sender: from.1 }, Outlet::Local { receiver: to.1, input })
        } else {
            let far = RemoteEdge::new(queue, wakers[from.0].clone(), wakers[to.0].clone());
            (Inlet::Remote(far.clone()), Outlet::Remote(far))
        }
    }

    /// Credits of the edge, if it has an in-flight limit.
    fn credits(&self, index: usize, receiver: &Arc<Waker>) -> Box<[Credit]> {
        let limit = self.graph.edges[index].in_flight.unwrap_or(0);
        let is_real = self.options.clock == ClockKind::Real;
        let credit = |_| {
            let receiver = receiver.clone();
            Credit::new(move || receiver.ring())
        };
        (0..limit).filter(|_| is_real).map(credit).collect()
    }

    fn input(&self, index: usize, inlet: Inlet) -> Input {
        let edge = &self.graph.edges[index];
        let end = End { node: edge.to.0, port: edge.to.1, kind: PortKind::Input };
        Input {
            inbound: InputInfo {
                port: edge.to.1,
                name: self.input_port(edge).name.clone(),
                source: self.graph.nodes[edge.from.0].name.clone(),
            },
            edge: index,
            inlet,
            feedback: edge.feedback,
            limited: edge.in_flight.is_some(),
            last_at: Timestamp(i64::MIN),
            restarts: 0,
            marks: budget::marks(&self.meters, end),
            ages: Times::new(),
        }
    }

    fn runner(&self, node_index: usize, (opener, node): OpenNode) -> Runner {
        let graph = self.graph;
        let checked = &graph.nodes[node_index];
        let def = &checked.def;
        let needs_watermark = |port: &PortSpec| {
            let mut edges = graph.edges.iter().filter(|edge| edge.from == (node_index, port.id));
            port.in_step && edges.any(|edge| self.needs_watermark_of[edge.to.0])
        };
        let output = |port: &PortSpec| Output {
            port: port.name.clone(),
            outlets: Vec::new(),
            timeline: Timeline::new(),
            interrupts: graph.interrupt == Some((node_index, port.id)),
            needs_watermark: needs_watermark(port),
            last: None,
            marks: budget::marks(
                &self.meters,
                End { node: node_index, port: port.id, kind: PortKind::Output },
            ),
        };
        let pool = |port: &PortSpec| {
            let output = (node_index, port.id);
            (port.name.clone(), Pool::new(pools::values(graph, output, &self.options.observers)))
        };
        let is_real = self.options.clock == ClockKind::Real;
        let tells_any = def.outputs.iter().any(needs_watermark);
        let is_watched = checked.canceled
            || tells_any
            || graph.interrupt.is_some_and(|(node, _)| node == node_index)
            || matches!(checked.on_error, OnError::Degrade(_))
            || !self.options.observers.is_empty()
            || !self.meters.is_empty();
        Runner {
            node_index,
            name: checked.name.clone(),
            node: Some(node),
            opener,
            on_error: checked.on_error,
            deadline_ns: checked.deadline.filter(|_| is_real).map_or(u64::MAX, |deadline| {
                u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX)
            }),
            restarts: Restarts::default(),
            down: None,
            epoch: u32::from(checked.canceled),
            is_source: def.is_source(),
            is_timed: def.is_source() || def.timed,
            is_sink: !graph.edges.iter().any(|edge| edge.from.0 == node_index && !edge.feedback),
            inputs: Vec::new(),
            join: self.join(node_index).map(Box::new),
            on_time_fault: checked.on_time_fault,
            rewinds: 0,
            is_watched,
            needs_watermark: tells_any,
            sends_remote: false,
            watermark_changed: false,
            was_canceled: false,
            bound: Watermark::MIN,
            outputs: def.outputs.iter().map(output).collect(),
            outbox: Outbox::new(SLOTS),
            taken_by: 0,
            chain_next: None,
            phase: Phase::Running,
            resume: if def.is_source() { Resume::Now } else { Resume::Done },
            wake: None,
            turn: 0,
            held: None,
            granted: false,
            context: NodeContext {
                origin: Header::default(),
                outputs: def.outputs.iter().map(pool).collect(),
                joined: Vec::new(),
                cancel: self.interrupt.flag(node_index).clone(),
                undeclared: AtomicU64::new(0),
            },
            stats: NodeStats::new(),
        }
    }
}

/// On the virtual clock no time passes while a sender waits, so no packet is dropped for lack of
/// space.
fn effective(edge: &Edge, clock: ClockKind) -> EdgePolicy {
    let policy = edge.policy;
    let queue = if policy.on_full == OnFull::Latest { 1 } else { policy.queue };
    match clock {
        ClockKind::Real => policy,
        // The sender of a feedback edge must not wait for nodes that wait for it.
        ClockKind::Virtual if edge.feedback => policy,
        ClockKind::Virtual => EdgePolicy { on_full: OnFull::Block, queue, ..policy },
    }
}
