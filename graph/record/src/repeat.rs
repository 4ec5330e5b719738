//! Repeats the calls of a recorded run, node by node, and compares what the nodes send.
//!
//! A run on the real clock cannot be repeated as a whole: the times of calls, the order in which
//! packets of several inputs arrive, and interrupts differ each time. They were recorded with the
//! calls. So each node gets the recorded packets in the recorded order and at the recorded times,
//! and what it sends must equal what was recorded. Sources and nodes with effects are not executed.

use std::{
    collections::VecDeque,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering},
};

use afferent_engine::{CallCause, Opener, RunError};
use afferent_graph::{
    CallInfo, Codec, Cx, DynNode, Header, InputInfo, Joined, NodeContext, OpenCx, Outbox, Packet,
    Pool, PortKind, PortSpec, Timestamp,
};
use afferent_spec::{CheckedGraph, CheckedNode, Degrade, Edge, OnError};

use crate::{
    Difference, Recording, ReplayError, Skipped, StreamVerdict,
    calls::{CallRecord, Recorded},
    compare::StreamHash,
};

/// Values that a pool of a repeated node keeps.
const POOL: usize = 8;

impl Recording {
    /// Repeats every recorded call on a new instance of its node, and compares the sent packets
    /// with the recording. Nodes find their services in `cx`.
    ///
    /// # Errors
    /// [`ReplayError::File`], [`ReplayError::OtherGraph`], and [`ReplayError::Open`] if a node
    /// cannot be opened.
    pub fn repeat(
        &self,
        graph: &CheckedGraph,
        cx: &OpenCx,
    ) -> Result<Vec<StreamVerdict>, ReplayError> {
        self.check_graph(graph)?;
        let nodes = (0..graph.nodes.len()).map(|index| Repeated::new(self, graph, index, cx));
        let nodes = nodes.collect::<Result<_, _>>()?;
        let edges = graph.edges.iter().map(|edge| RecordedEdge {
            edge,
            source: &graph.nodes[edge.from.0].name,
            waiting: VecDeque::new(),
            restarts: 0,
        });
        let mut repeat = Repeat { graph, nodes, edges: edges.collect() };
        self.for_each(|message| match message {
            Recorded::Packet { node, output, sequence, at, bytes } => {
                repeat.packet(node, output, sequence, at, bytes);
            }
            Recorded::Call(record) => repeat.call(&record),
        })?;
        Ok(repeat.nodes.into_iter().flat_map(Repeated::verdicts).collect())
    }
}

struct Repeat<'g> {
    graph: &'g CheckedGraph,
    nodes: Vec<Repeated<'g>>,
    /// By index in the graph.
    edges: Vec<RecordedEdge<'g>>,
}

/// An edge whose receiver is called with recorded packets.
struct RecordedEdge<'g> {
    edge: &'g Edge,
    /// Name of the sender.
    source: &'g str,
    /// Packets that the receiver has not taken.
    waiting: VecDeque<Waiting>,
    /// Restarts of the sender of the last packet.
    restarts: u32,
}

/// A recorded packet.
struct Waiting {
    sequence: u32,
    at: Timestamp,
    codec: Codec,
    bytes: Arc<[u8]>,
}

impl Waiting {
    fn packet(&self, header: Header) -> Option<Packet> {
        let sequence = u64::from(self.sequence);
        self.codec.decode(&self.bytes, Header { at: self.at, sequence, ..header }).ok()
    }
}

impl RecordedEdge<'_> {
    /// Takes the packet `sequence`; earlier ones were dropped by the queue.
    fn take(&mut self, sequence: u64, header: Header) -> Option<Packet> {
        while let Some(found) = self.waiting.pop_front() {
            if found.sequence == sequence as u32 {
                return found.packet(header);
            }
        }
        None
    }
}

/// Packet of a call.
struct Input {
    info: InputInfo,
    packet: Packet,
    /// True if the sender was restarted since its previous packet.
    restarted: bool,
}

impl<'g> Repeat<'g> {
    /// Keeps a recorded packet for its receivers and for the comparison.
    fn packet(&mut self, node: &str, output: &str, sequence: u32, at: Timestamp, bytes: &[u8]) {
        let Some(node_index) = self.graph.nodes.iter().position(|known| known.name == node) else {
            return;
        };
        let Some(port) = self.graph.nodes[node_index].def.output(output) else { return };
        let Repeated { outputs, run, .. } = &mut self.nodes[node_index];
        let Some(sent) = &mut outputs[port.index()] else { return };
        let codec = sent.codec;
        sent.recorded += 1;
        if run.is_some() {
            // The hash of a damaged message matches no value.
            let value = codec.uncompressed(bytes);
            sent.expected.push_back(StreamHash::of(at, value.as_deref().unwrap_or(bytes)));
        }
        let mut kept: Option<Arc<[u8]>> = None;
        for RecordedEdge { edge, waiting, .. } in &mut self.edges {
            if edge.from == (node_index, port) && self.nodes[edge.to.0].run.is_some() {
                let bytes = kept.get_or_insert_with(|| bytes.into()).clone();
                waiting.push_back(Waiting { sequence, at, codec, bytes });
            }
        }
    }

    /// Repeats a recorded call, unless its node is not repeated.
    fn call(&mut self, record: &CallRecord) {
        let Some(repeated) = self.nodes.get_mut(record.node) else { return };
        if repeated.run.is_none() {
            return;
        }
        let is_next = record.number == repeated.calls;
        repeated.calls += 1;
        for output in repeated.outputs.iter_mut().flatten() {
            output.recorded_at_call = output.recorded;
        }
        let inputs = is_next.then(|| self.inputs(record)).flatten();
        match inputs {
            Some((input, joined)) => self.nodes[record.node].repeat(record, input, joined),
            None => self.nodes[record.node].stop(Skipped::Incomplete),
        }
    }

    /// Packets of a call: that of the primary input, if any, and those of the secondary inputs.
    /// `None` if they are not in the recording.
    fn inputs(&mut self, record: &CallRecord) -> Option<(Option<Input>, Vec<Joined>)> {
        let joined = self.joined(record)?;
        let CallCause::Packet { edge, sequence, restarts } = record.cause else {
            return Some((None, joined));
        };
        let edge = self.edges.get_mut(edge).filter(|edge| edge.edge.to.0 == record.node)?;
        let packet = edge.take(sequence, Header { restarts, ..record.header() })?;
        let restarted = mem::replace(&mut edge.restarts, restarts) != restarts;
        let (port, source) = (edge.edge.to.1, edge.source.to_owned());
        let name = self.input(record, port.index())?.name.clone();
        let info = InputInfo { port, name, source };
        Some((Some(Input { info, packet, restarted }), joined))
    }

    fn input(&self, record: &CallRecord, index: usize) -> Option<&'g PortSpec> {
        let graph = self.graph;
        graph.nodes[record.node].def.ports(PortKind::Input).get(index)
    }

    /// Packets of the secondary inputs. They stay for later calls, which may use them again.
    fn joined(&mut self, record: &CallRecord) -> Option<Vec<Joined>> {
        let mut all = Vec::new();
        for (index, wanted) in &record.joined {
            let port = self.input(record, *index)?;
            let is_leading = |edge: &&mut RecordedEdge<'_>| edge.edge.to == (record.node, port.id);
            let mut edges: Vec<_> = self.edges.iter_mut().filter(is_leading).collect();
            let mut packets = Vec::new();
            for (sequence, at) in wanted {
                let mut waiting = edges.iter().flat_map(|edge| &edge.waiting);
                let found = waiting
                    .find(|waiting| waiting.sequence == *sequence as u32 && waiting.at.0 == *at);
                packets.push(found?.packet(record.header())?);
            }
            // Sequence numbers of several senders say nothing about each other.
            if let ([edge], Some((first, _))) = (&mut *edges, wanted.first()) {
                while edge.waiting.front().is_some_and(|old| old.sequence < *first as u32) {
                    edge.waiting.pop_front();
                }
            }
            all.push(Joined { port: port.id, name: port.name.clone(), packets });
        }
        Some(all)
    }
}

/// A node whose calls are repeated, or the reason why they are not.
struct Repeated<'g> {
    node: &'g CheckedNode,
    opener: Opener,
    /// `None` if its calls are not, or no longer, repeated.
    run: Option<Run>,
    skipped: Option<Skipped>,
    /// Number of repeated calls.
    calls: u64,
    /// By index of the port; `None` if its type has no codec.
    outputs: Vec<Option<Output>>,
}

struct Run {
    node: Box<dyn DynNode>,
    context: NodeContext,
}

/// Comparison of one output.
struct Output {
    codec: Codec,
    is_recorded: bool,
    /// Recorded packets that the node has not sent yet.
    expected: VecDeque<[u8; 32]>,
    recorded: u64,
    /// Those before the last recorded call.
    recorded_at_call: u64,
    sent: StreamHash,
    difference: Option<Difference>,
}

impl<'g> Repeated<'g> {
    fn new(
        recording: &Recording,
        graph: &'g CheckedGraph,
        node_index: usize,
        cx: &OpenCx,
    ) -> Result<Self, ReplayError> {
        let node = &graph.nodes[node_index];
        let is_recorded = |edge: &Edge| {
            let sender = &graph.nodes[edge.from.0];
            let port = sender.def.port_name(PortKind::Output, edge.from.1);
            recording.stream(&sender.name, &port).is_some()
        };
        let mut inputs = graph.edges.iter().filter(|edge| edge.to.0 == node_index);
        let skipped = if node.def.is_source() {
            Some(Skipped::Source)
        } else if node.has_effects() {
            Some(Skipped::Effects)
        } else if !inputs.all(is_recorded) {
            Some(Skipped::InputNotRecorded)
        } else {
            None
        };
        let output = |port: &PortSpec| {
            Some(Output {
                codec: port.codec?,
                is_recorded: recording.stream(&node.name, &port.name).is_some(),
                expected: VecDeque::new(),
                recorded: 0,
                recorded_at_call: 0,
                sent: StreamHash::default(),
                difference: None,
            })
        };
        let outputs: Vec<_> = node.def.outputs.iter().map(output).collect();
        let is_compared = skipped.is_none() && outputs.iter().any(Option::is_some);
        let opener = Opener::new(graph, node_index, cx);
        let mut repeated = Self { node, opener, run: None, skipped, calls: 0, outputs };
        if is_compared {
            repeated.open()?;
        }
        Ok(repeated)
    }

    /// Opens a new instance of the node.
    fn open(&mut self) -> Result<(), RunError> {
        let node = self.opener.open()?;
        let outputs = self.node.def.outputs.iter();
        let outputs = outputs.map(|port| (port.name.clone(), Pool::new(POOL))).collect();
        let context = NodeContext { outputs, ..NodeContext::default() };
        self.run = Some(Run { node, context });
        Ok(())
    }

    /// Repeats no further calls.
    fn stop(&mut self, reason: Skipped) {
        self.run = None;
        self.skipped = Some(reason);
    }

    /// Repeats one call.
    fn repeat(&mut self, record: &CallRecord, mut input: Option<Input>, joined: Vec<Joined>) {
        let Some(Run { node, context }) = &mut self.run else { return };
        context.origin = record.header();
        context.joined = joined;
        // A call that was canceled at any time sent nothing.
        context.cancel.store(record.canceled, Ordering::Relaxed);
        let mut sent = Outbox::default();
        let ended = {
            let restarted = input.as_ref().is_some_and(|input| input.restarted);
            let (now, real_ns) = (Timestamp(record.now), record.real);
            let caller = CallInfo { now, real_ns, restarted, context };
            let input = input.as_mut().map(|input| (&input.info, &mut input.packet));
            let mut cx = Cx::new(caller, input, &mut sent);
            catch_unwind(AssertUnwindSafe(|| match record.cause {
                CallCause::Due | CallCause::Packet { .. } => node.process(&mut cx),
                CallCause::Cancel => node.cancel(&mut cx),
                CallCause::Finish => node.finish(&mut cx),
            }))
        };
        let failed = match ended {
            Ok(Ok(())) => false,
            Ok(Err(error)) => !(record.canceled && error.is_canceled()),
            Err(_) => true,
        };
        let degrades = failed && matches!(self.node.on_error, OnError::Degrade(_));
        if !record.canceled && !degrades {
            while let Some((port, packet)) = sent.pop() {
                self.compare(port, &packet);
            }
        }
        if failed {
            self.recover();
        }
    }

    /// Reaction to a failed call, as in the recorded run.
    fn recover(&mut self) {
        match self.node.on_error {
            OnError::Stop => self.run = None,
            OnError::Degrade(Degrade::Last) => self.stop(Skipped::DegradesToLast),
            OnError::Degrade(_) => {}
            OnError::Restart(_) => {
                if self.open().is_err() {
                    self.run = None;
                }
            }
        }
    }

    /// Compares a sent packet with the next recorded one.
    fn compare(&mut self, port: usize, packet: &Packet) {
        let Some(Some(output)) = self.outputs.get_mut(port) else { return };
        let number = output.sent.packets();
        let own = output.sent.add(output.codec, packet);
        if output.expected.pop_front() != Some(own) && output.difference.is_none() {
            let at = Some(packet.header.at);
            output.difference = Some(Difference { packet: number, at });
        }
    }

    fn verdicts(self) -> Vec<StreamVerdict> {
        let Self { node, skipped, outputs, .. } = self;
        let verdict = |(port, output): (&PortSpec, Option<Output>)| {
            let output = output?;
            let packets = output.sent.packets();
            let is_missing = skipped.is_none() && packets < output.recorded_at_call;
            let missing = is_missing.then_some(Difference { packet: packets, at: None });
            // A file that is full may lack the call that sent the last packets.
            let is_cut = output.recorded_at_call < output.recorded;
            let skipped = skipped.or(is_cut.then_some(Skipped::Incomplete));
            Some(StreamVerdict {
                output: format!("{}.{}", node.name, port.name),
                packets: if skipped.is_some() { output.recorded } else { packets },
                hash: output.sent.hex(),
                recorded: output.is_recorded.then_some(output.recorded),
                difference: output.difference.or(missing),
                skipped,
            })
        };
        node.def.outputs.iter().zip(outputs).filter_map(verdict).collect()
    }
}
