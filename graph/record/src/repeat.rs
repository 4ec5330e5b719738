//! Repeats the calls of a recorded run, node by node, and compares what the nodes send.
//!
//! A run on the real clock cannot be repeated as a whole: the times of calls, the order in which
//! packets of several inputs arrive, and interrupts differ each time. They were recorded with the
//! calls. So each node gets the recorded packets in the recorded order and at the recorded times,
//! and what it sends must equal what was recorded. Sources and nodes with effects are not executed.

use std::{
    collections::{HashMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering},
};

use afferent_engine::{Opener, RunError};
use afferent_graph::{
    CallInfo, Codec, Cx, DynNode, Header, InputInfo, Joined, NodeContext, OpenCx, Outbox, Packet,
    Pool, PortId, PortKind, Timestamp,
};
use afferent_spec::{CheckedGraph, CheckedNode, Degrade, Edge, OnError};

use crate::{
    Difference, Recording, ReplayError, Skipped, StreamVerdict,
    calls::{CallRecord, Cause, Recorded},
    compare::StreamHash,
};

/// Values that a pool of a repeated node keeps.
const POOL: usize = 8;

impl Recording {
    /// Repeats every recorded call on a new instance of its node, and compares the sent packets
    /// with the recording. Nodes find their services in `cx`.
    ///
    /// # Errors
    /// [`ReplayError::File`], and [`ReplayError::Open`] if a node cannot be opened.
    pub fn repeat(
        &self,
        graph: &CheckedGraph,
        cx: &OpenCx,
    ) -> Result<Vec<StreamVerdict>, ReplayError> {
        let mut nodes = Vec::new();
        for (node_index, node) in graph.nodes.iter().enumerate() {
            nodes.push(Repeated::new(self, graph, node_index, node, cx)?);
        }
        let mut repeat = Repeat { graph, nodes, waiting: HashMap::new() };
        self.for_each_message(|message| match message {
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
    /// Packets of each edge that its receiver has not taken, by the index of the edge.
    waiting: HashMap<usize, VecDeque<Waiting>>,
}

/// A recorded packet.
#[derive(Clone)]
struct Waiting {
    sequence: u32,
    at: Timestamp,
    codec: Codec,
    bytes: Arc<[u8]>,
}

impl Waiting {
    fn packet(&self, header: Header) -> Result<Packet, String> {
        let sequence = u64::from(self.sequence);
        self.codec.decode(&self.bytes, Header { at: self.at, sequence, ..header })
    }
}

impl Repeat<'_> {
    /// Keeps a recorded packet for its receivers and for the comparison.
    fn packet(&mut self, node: &str, output: &str, sequence: u32, at: Timestamp, bytes: &[u8]) {
        let Some(node_index) = self.graph.nodes.iter().position(|known| known.name == node) else {
            return;
        };
        let Some(port) = self.graph.nodes[node_index].def.output(output) else { return };
        let spec = &self.graph.nodes[node_index].def.outputs[port.index()];
        let Some(codec) = spec.codec else { return };
        let mut kept: Option<Arc<[u8]>> = None;
        for (index, edge) in self.graph.edges.iter().enumerate() {
            if edge.from == (node_index, port) && self.nodes[edge.to.0].run.is_some() {
                let bytes = kept.get_or_insert_with(|| bytes.into()).clone();
                let waiting = Waiting { sequence, at, codec, bytes };
                self.waiting.entry(index).or_default().push_back(waiting);
            }
        }
        self.nodes[node_index].expect(port, at, bytes);
    }

    fn call(&mut self, record: &CallRecord) {
        let node_index = record.node;
        let Some(repeated) = self.nodes.get_mut(node_index) else { return };
        if repeated.run.is_none() {
            return;
        }
        if record.number != repeated.calls {
            repeated.stop(Skipped::Incomplete);
            return;
        }
        repeated.calls += 1;
        let header = record.header();
        let packet = match record.cause {
            Cause::Packet { edge, sequence, restarts } => {
                match self.take(edge, sequence, Header { restarts, ..header }) {
                    Some(packet) => Some((edge, packet)),
                    None => {
                        self.nodes[node_index].stop(Skipped::Incomplete);
                        return;
                    }
                }
            }
            _ => None,
        };
        let Some(joined) = self.joined(node_index, record) else {
            self.nodes[node_index].stop(Skipped::Incomplete);
            return;
        };
        let input = packet.map(|(edge, packet)| {
            let edge = &self.graph.edges[edge];
            let port = edge.to.1;
            let name = self.input_name(node_index, port);
            (InputInfo { port, name, source: self.graph.nodes[edge.from.0].name.clone() }, packet)
        });
        self.nodes[node_index].repeat(record, input, joined);
    }

    fn input_name(&self, node_index: usize, port: PortId) -> Arc<str> {
        self.graph.nodes[node_index].def.port_name(PortKind::Input, port).into()
    }

    /// Takes the packet `sequence` from an edge; earlier ones were dropped by its queue.
    fn take(&mut self, edge: usize, sequence: u64, header: Header) -> Option<Packet> {
        let waiting = self.waiting.get_mut(&edge)?;
        while let Some(found) = waiting.pop_front() {
            if found.sequence == sequence as u32 {
                return found.packet(header).ok();
            }
        }
        None
    }

    /// Packets of the secondary inputs. They stay for later calls, which may use them again.
    fn joined(&mut self, node_index: usize, record: &CallRecord) -> Option<Vec<Joined>> {
        let mut all = Vec::new();
        for (port, wanted) in &record.joined {
            let port = PortId::at(*port);
            let leads = |edge: &&(usize, &Edge)| edge.1.to == (node_index, port);
            let edges: Vec<_> = self.graph.edges.iter().enumerate().collect();
            let edges: Vec<_> = edges.iter().filter(leads).map(|(index, _)| *index).collect();
            let mut packets = Vec::new();
            for (sequence, at) in wanted {
                let found = edges.iter().find_map(|edge| {
                    let is_wanted = |waiting: &&Waiting| {
                        waiting.sequence == *sequence as u32 && waiting.at.0 == *at
                    };
                    self.waiting.get(edge)?.iter().find(is_wanted)
                });
                packets.push(found?.packet(Header { at: Timestamp(*at), ..record.header() }).ok()?);
            }
            let first = wanted.first().map_or(0, |(sequence, _)| *sequence as u32);
            for edge in edges.iter().filter(|_| edges.len() == 1) {
                if let Some(waiting) = self.waiting.get_mut(edge) {
                    while waiting.front().is_some_and(|waiting| waiting.sequence < first) {
                        waiting.pop_front();
                    }
                }
            }
            all.push(Joined { port, name: self.input_name(node_index, port), packets });
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
    outputs: Vec<Output>,
}

struct Run {
    node: Box<dyn DynNode>,
    context: NodeContext,
    /// Restarts of the sender of the last packet of each edge, by input and sender.
    restarts: HashMap<(PortId, String), u32>,
}

/// Comparison of one output.
struct Output {
    name: Arc<str>,
    codec: Codec,
    is_recorded: bool,
    /// Recorded packets that the node has not sent yet.
    expected: VecDeque<[u8; 32]>,
    recorded: u64,
    sent: StreamHash,
    difference: Option<Difference>,
}

impl<'g> Repeated<'g> {
    fn new(
        recording: &Recording,
        graph: &CheckedGraph,
        node_index: usize,
        node: &'g CheckedNode,
        cx: &OpenCx,
    ) -> Result<Self, ReplayError> {
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
        let outputs = node.def.outputs.iter().filter_map(|port| {
            Some(Output {
                name: port.name.clone(),
                codec: port.codec?,
                is_recorded: recording.stream(&node.name, &port.name).is_some(),
                expected: VecDeque::new(),
                recorded: 0,
                sent: StreamHash::default(),
                difference: None,
            })
        });
        let opener = Opener::new(graph, node_index, cx);
        let outputs = outputs.collect();
        let mut repeated = Self { node, opener, run: None, skipped, calls: 0, outputs };
        if skipped.is_none() && !repeated.outputs.is_empty() {
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
        self.run = Some(Run { node, context, restarts: HashMap::new() });
        Ok(())
    }

    /// Repeats no further calls.
    fn stop(&mut self, reason: Skipped) {
        self.run = None;
        self.skipped = Some(reason);
    }

    /// Registers a recorded packet of an output.
    fn expect(&mut self, port: PortId, at: Timestamp, bytes: &[u8]) {
        let name = self.node.def.port_name(PortKind::Output, port);
        let Some(output) = self.outputs.iter_mut().find(|output| *output.name == *name) else {
            return;
        };
        output.recorded += 1;
        if self.run.is_some() {
            // The hash of a damaged message matches no value.
            let value = output.codec.uncompressed(bytes);
            output.expected.push_back(StreamHash::of(at, value.as_deref().unwrap_or(bytes)));
        }
    }

    /// Repeats one call.
    fn repeat(
        &mut self,
        record: &CallRecord,
        mut input: Option<(InputInfo, Packet)>,
        joined: Vec<Joined>,
    ) {
        let Some(run) = &mut self.run else { return };
        let mut restarted = false;
        if let Some((info, packet)) = &input {
            let key = (info.port, info.source.clone());
            let before = run.restarts.insert(key, packet.header.restarts).unwrap_or(0);
            restarted = before != packet.header.restarts;
        }
        run.context.origin = record.header();
        run.context.joined = joined;
        // A call that was canceled at any time sent nothing.
        run.context.cancel.store(record.canceled, Ordering::Relaxed);
        let (now, real_ns) = (Timestamp(record.now), record.real);
        let mut sent = Outbox::default();
        let ended = {
            let caller = CallInfo { now, real_ns, restarted, context: &run.context };
            let input = input.as_mut().map(|(info, packet)| (&*info, packet));
            let mut cx = Cx::new(caller, input, &mut sent);
            let node = &mut run.node;
            catch_unwind(AssertUnwindSafe(|| match record.cause {
                Cause::Due | Cause::Packet { .. } => node.process(&mut cx),
                Cause::Cancel => node.cancel(&mut cx),
                Cause::Finish => node.finish(&mut cx),
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

    fn compare(&mut self, port: usize, packet: &Packet) {
        let name = self.node.def.port_name(PortKind::Output, PortId::at(port));
        let Some(output) = self.outputs.iter_mut().find(|output| *output.name == *name) else {
            return;
        };
        let number = output.sent.packets();
        let own = output.sent.add(output.codec, packet);
        if output.expected.pop_front() != Some(own) && output.difference.is_none() {
            let at = Some(packet.header.at);
            output.difference = Some(Difference { packet: number, at });
        }
    }

    fn verdicts(self) -> Vec<StreamVerdict> {
        let Self { node, skipped, outputs, .. } = self;
        let verdict = |output: Output| {
            let packets = output.sent.packets();
            let is_missing = skipped.is_none() && packets < output.recorded;
            let missing = is_missing.then_some(Difference { packet: packets, at: None });
            StreamVerdict {
                output: format!("{}.{}", node.name, output.name),
                packets: if skipped.is_some() { output.recorded } else { packets },
                hash: output.sent.hex(),
                recorded: output.is_recorded.then_some(output.recorded),
                difference: output.difference.or(missing),
                skipped,
            }
        };
        outputs.into_iter().map(verdict).collect()
    }
}
