//! Turns a case into a runnable graph: resolves names, creates sounds, and replaces sources.

use std::{collections::HashMap, sync::Arc, time::Duration};

use afferent_graph::{
    Catalog, Cx, DynNode, NodeError, OnFull, OpenCx, Payload, PortId, PortKind, PortSpec, Timestamp,
};
use afferent_messages::{AudioBlock, Features, Image, SampleRate};
use afferent_spec::{
    CheckedGraph, CheckedNode, Diagnostic, Edge, EdgePolicy, LoadOptions, Location,
    PlacementOptions, Reader, load_and_check,
};

use crate::{
    payload::{Fields, PACKETS, Sendable, TYPES},
    sound::{SoundNodes, Sounds},
    source::{Interrupts, Sender, Sent, UserSource},
    spec::{Act, Case, Output, Send, Turn},
    stage::Stage,
    state::{Action, Planned, Resolved, Script, Stream},
    witness::Witness,
};

/// A case that can run repeatedly.
pub(crate) struct Prepared {
    graph: CheckedGraph,
    /// All streams in graph order, then the output streams of each node.
    pub(crate) streams: Vec<Stream>,
    outputs: HashMap<String, Vec<(Arc<str>, usize)>>,
    /// Stream of the output that interrupts the graph, and stream of all interrupts.
    interrupting: Option<usize>,
    interrupts: usize,
    patterns: Vec<usize>,
    echo: Option<usize>,
    actions: Vec<(Action, Duration)>,
    /// Source that receives the sound of the simulated user, and its output.
    hearing: Option<(usize, PortId)>,
    /// Sources that send packets of the scenario, with their packets.
    senders: Vec<(usize, Vec<Sent>)>,
    sounds: SoundNodes,
}

/// Name of the stream of all interrupts, from any cause.
const INTERRUPT: &str = "interrupt";

impl Prepared {
    /// Loads the graph of `case` and prepares it.
    ///
    /// # Errors
    /// Every error in the graph, and in the parts of the case that refer to it.
    pub(crate) fn new(
        case: &Case,
        catalog: &Catalog,
        services: &OpenCx,
        sounds: &mut Sounds,
    ) -> Result<Self, Vec<Diagnostic>> {
        let options = LoadOptions {
            profile: case.profile.as_ref().map(|(name, _)| name.clone()),
            nodes: case.nodes.clone(),
            without_sources: !case.turns.is_empty(),
            // Scenarios run on the virtual clock, which is that of one process.
            placement: PlacementOptions { here: true, ..PlacementOptions::default() },
            ..LoadOptions::default()
        };
        let graph = match load_and_check(&case.graph, &options, catalog, services) {
            Ok(checked) => checked.graph,
            Err(faults) => return Err(faults.iter().map(|fault| located(fault, case)).collect()),
        };
        let mut prepared = Self {
            streams: Vec::new(),
            outputs: HashMap::new(),
            interrupting: None,
            interrupts: 0,
            patterns: Vec::new(),
            echo: None,
            actions: Vec::new(),
            hearing: None,
            senders: Vec::new(),
            sounds: sounds.nodes().clone(),
            graph,
        };
        let mut reader = Reader::default();
        prepared.list_streams();
        prepared.resolve(case, &mut reader);
        prepared.hear(case, &mut reader);
        for (number, turn) in case.turns.iter().enumerate() {
            let action = prepared.action(case, number, turn, sounds, &mut reader);
            prepared.actions.extend(action);
        }
        let is_interrupt = |turn: &&Turn| matches!(turn.act, Act::Interrupt);
        if let Some(turn) = case.turns.iter().find(is_interrupt) {
            if prepared.graph.interrupt.is_none() {
                reader.error(&turn.location, "the graph has no \"interrupt\"");
            } else if prepared.hearing.is_none() && prepared.senders.is_empty() {
                let message = "the graph has no audio source to time this interrupt";
                reader.error(&turn.location, message);
            }
        }
        prepared.disable_logs();
        if reader.faults.is_empty() { Ok(prepared) } else { Err(reader.faults) }
    }

    fn list_streams(&mut self) {
        for (node_index, node) in self.graph.nodes.iter().enumerate() {
            for port in &node.def.outputs {
                let stream = self.streams.len();
                let is_bulk = [AudioBlock::TYPE, Features::TYPE, Image::TYPE].contains(&&*port.ty);
                let name = format!("{}.{}", node.name, port.name);
                let codec = port.codec;
                self.streams.push(Stream { name, codec, is_bulk, is_looked_for: false });
                self.outputs
                    .entry(node.name.clone())
                    .or_default()
                    .push((port.name.clone(), stream));
                if self.graph.interrupt == Some((node_index, port.id)) {
                    self.interrupting = Some(stream);
                }
            }
        }
        self.interrupts = self.streams.len();
        let name = INTERRUPT.to_owned();
        self.streams.push(Stream { name, codec: None, is_bulk: false, is_looked_for: false });
    }

    /// Resolves the outputs of patterns and of the echo.
    fn resolve(&mut self, case: &Case, reader: &mut Reader) {
        for pattern in &case.patterns {
            let stream = self.stream(&pattern.output, reader);
            if let Some(stream) = stream {
                self.streams[stream].is_looked_for = true;
            }
            self.patterns.push(stream.unwrap_or(0));
        }
        if let Some(echo) = &case.source.echo {
            self.echo = self.stream(&echo.of, reader);
            if let Some((node_index, port)) = self.port(&echo.of, reader, true)
                && *port.ty != *AudioBlock::TYPE
            {
                let node = &self.graph.nodes[node_index].name;
                let message = format!("{node}.{} must be audio, not {}", port.name, port.ty);
                reader.error(&echo.of.location, message);
            }
        }
    }

    fn stream(&self, output: &Output, reader: &mut Reader) -> Option<usize> {
        if output.name == INTERRUPT {
            return Some(self.interrupts);
        }
        let (node_index, port) = self.port(output, reader, true)?;
        let node = &self.graph.nodes[node_index].name;
        let mut outputs = self.outputs.get(node).into_iter().flatten();
        outputs.find(|(name, _)| *name == port.name).map(|(_, stream)| *stream)
    }

    /// The port named by `output`: an output, or also an input unless `only_outputs` is set.
    fn port(
        &self,
        output: &Output,
        reader: &mut Reader,
        only_outputs: bool,
    ) -> Option<(usize, PortSpec)> {
        let (name, port) = output.name.split_once('.').unwrap_or((&output.name, ""));
        let Some(node_index) = self.graph.nodes.iter().position(|node| node.name == name) else {
            let names = self.graph.nodes.iter().map(|node| node.name.as_str());
            let message = format!("the graph has no node \"{name}\"");
            reader.unknown(&output.location, message, name, names, "the nodes");
            return None;
        };
        let def = &self.graph.nodes[node_index].def;
        let known = || def.outputs.iter().chain(def.inputs.iter().filter(|_| !only_outputs));
        if port.is_empty() {
            if let [port] = def.outputs.as_slice() {
                return Some((node_index, port.clone()));
            }
            let names: Vec<_> = known().map(|port| format!("{name}.{}", port.name)).collect();
            let message = format!("node \"{name}\" has several ports");
            let fault = Diagnostic::error(Some(&output.location), message);
            reader.faults.push(fault.help(Some(format!("write one of {}", names.join(", ")))));
            return None;
        }
        let found =
            known().find(|known| *known.name == *port).map(|port| (node_index, port.clone()));
        if found.is_none() {
            let kind = if only_outputs { "output" } else { "port" };
            let message = format!("node \"{name}\" has no {kind} \"{port}\"");
            let names = known().map(|port| &*port.name).collect::<Vec<_>>();
            let what = format!("the {kind}s of \"{name}\"");
            reader.unknown(&output.location, message, port, names.iter().copied(), &what);
        }
        found
    }

    /// Finds the source that receives the sound of the simulated user: the named source, the one
    /// called "sound", or the only audio source.
    fn hear(&mut self, case: &Case, reader: &mut Reader) {
        let sound = |node_index: usize| {
            let def = &self.graph.nodes[node_index].def;
            let port = def.outputs.iter().find(|port| *port.ty == *AudioBlock::TYPE)?;
            def.is_source().then_some((node_index, port.id))
        };
        let node_indices = 0..self.graph.nodes.len();
        if let Some((name, location)) = &case.source.node {
            let found = self.graph.nodes.iter().position(|node| node.name == *name);
            self.hearing = found.and_then(sound);
            if self.hearing.is_none() {
                let names = node_indices.filter(|node_index| sound(*node_index).is_some());
                let names: Vec<_> =
                    names.map(|node_index| self.graph.nodes[node_index].name.clone()).collect();
                let message = match found {
                    Some(_) => format!("node \"{name}\" is not an audio source"),
                    None => format!("the graph has no node \"{name}\""),
                };
                let names = names.iter().map(String::as_str);
                reader.unknown(location, message, name, names, "the audio sources");
            }
            return;
        }
        if case.turns.is_empty() {
            return;
        }
        let sources: Vec<_> = node_indices.filter_map(sound).collect();
        let called =
            sources.iter().find(|(node_index, _)| self.graph.nodes[*node_index].name == "sound");
        self.hearing = called
            .or(match sources.as_slice() {
                [only] => Some(only),
                _ => None,
            })
            .copied();
        let is_sound = |turn: &&Turn| matches!(turn.act, Act::Say(..) | Act::Play(..));
        let turn = case.turns.iter().find(is_sound).filter(|_| self.hearing.is_none());
        if let Some(turn) = turn {
            let names: Vec<_> = sources
                .iter()
                .map(|(node_index, _)| self.graph.nodes[*node_index].name.as_str())
                .collect();
            let (message, help) = match names.as_slice() {
                [] => ("the graph has no audio source that could send this sound", None),
                names => (
                    "the graph has several audio sources",
                    Some(format!("write \"source:\" and one of {}", names.join(", "))),
                ),
            };
            reader.faults.push(Diagnostic::error(Some(&turn.location), message).help(help));
        }
    }

    /// Action and duration of a turn.
    fn action(
        &mut self,
        case: &Case,
        number: usize,
        turn: &Turn,
        sounds: &mut Sounds,
        reader: &mut Reader,
    ) -> Option<(Action, Duration)> {
        let rate = SampleRate(case.source.rate);
        let sound = match &turn.act {
            Act::Say(speech, shape) => sounds.say(speech, shape, rate),
            Act::Play(path, shape) => sounds.play(path, shape, rate),
            Act::Silence(length) => return Some((Action::Silence, *length)),
            Act::Interrupt => return Some((Action::Interrupt, Duration::ZERO)),
            Act::Send(send) => {
                self.send(number, send, reader)?;
                return Some((Action::Send, Duration::ZERO));
            }
        };
        match sound {
            Ok(sound) => {
                let length = rate.duration(sound.len());
                Some((Action::Sound(sound), length))
            }
            Err(reason) => {
                reader.error(&turn.location, reason);
                None
            }
        }
    }

    /// Adds a packet to the source that sends it, and creates the source if necessary.
    fn send(&mut self, turn: usize, send: &Send, reader: &mut Reader) -> Option<()> {
        let (node, port) = self.port(&send.to, reader, false)?;
        let name = format!("{}.{}", self.graph.nodes[node].name, port.name);
        let payload = sendable(send, &port, &name, reader)?;
        let fields = send.fields.iter().map(|(name, text, _)| (name.clone(), text.clone()));
        let fields: Vec<_> = fields.collect();
        if let Err(reason) = (payload.make)(&Fields(&fields), Timestamp::ZERO) {
            reader.error(&send.to.location, format!("a {} for {name}: {reason}", port.ty));
            return None;
        }
        let is_output = port.kind == PortKind::Output;
        let interrupts = is_output && self.graph.interrupt == Some((node, port.id));
        let is_source = self.graph.nodes[node].def.is_source();
        if is_source && self.hearing.is_some_and(|(hearing, _)| hearing == node) {
            let message = format!("\"{name}\" belongs to the source of the simulated user");
            reader.error(&send.to.location, message);
            return None;
        }
        let (sender, out) = match is_source {
            true => (node, port.id),
            false => (self.sender(node, &port, is_output, payload, &name, send, reader)?, PACKETS),
        };
        let sent = Sent { turn, port: out, payload, fields, interrupts };
        match self.senders.iter_mut().find(|(known, _)| *known == sender) {
            Some((_, packets)) => packets.push(sent),
            None => self.senders.push((sender, vec![sent])),
        }
        Some(())
    }

    /// Creates or finds the source that injects packets into an input, or into all consumers of an
    /// output.
    #[expect(clippy::too_many_arguments, reason = "what is known of the port of one packet")]
    fn sender(
        &mut self,
        node: usize,
        port: &PortSpec,
        is_output: bool,
        payload: &'static Sendable,
        name: &str,
        send: &Send,
        reader: &mut Reader,
    ) -> Option<usize> {
        let source = format!("scenario:{name}");
        if let Some(known) = self.graph.nodes.iter().position(|node| node.name == source) {
            return Some(known);
        }
        let node_index = self.graph.nodes.len();
        let policy = EdgePolicy { on_full: OnFull::Block, queue: EdgePolicy::QUEUE, max_age: None };
        let ends: Vec<_> = match is_output {
            true => {
                let edges = self.graph.edges.iter().filter(|edge| edge.from == (node, port.id));
                edges.map(|edge| edge.to).collect()
            }
            false => vec![(node, port.id)],
        };
        if ends.is_empty() {
            reader.error(&send.to.location, format!("{name} is not connected"));
            return None;
        }
        for end in ends {
            if self.graph.edges.iter().any(|edge| edge.to.0 == end.0 && edge.sync.is_some()) {
                let node = &self.graph.nodes[end.0].name;
                let message = format!(
                    "node \"{node}\" synchronizes its inputs: a scenario cannot send to it"
                );
                reader.error(&send.to.location, message);
                return None;
            }
            self.graph.edges.push(Edge::new((node_index, PACKETS), end, policy));
        }
        let stream = if is_output {
            let mut outputs = self.outputs.get(&self.graph.nodes[node].name).into_iter().flatten();
            outputs.find(|(known, _)| *known == port.name).map(|(_, stream)| *stream)
        } else {
            let (name, codec) = (name.to_owned(), port.codec);
            self.streams.push(Stream { name, codec, is_bulk: false, is_looked_for: false });
            Some(self.streams.len() - 1)
        };
        self.graph.nodes.push(CheckedNode::new(source.clone(), (payload.source)()));
        self.outputs.insert(
            source,
            stream.map(|stream| (Arc::from("packets"), stream)).into_iter().collect(),
        );
        Some(node_index)
    }

    /// Disables logs that would be printed.
    fn disable_logs(&mut self) {
        let is_printed = |node: &&mut CheckedNode| {
            *node.def.name == *"event_log" && !node.params.contains_key("path")
        };
        for node in self.graph.nodes.iter_mut().filter(is_printed) {
            node.def = node.def.with_open(|_| Ok(Box::new(DisabledLog)));
        }
    }

    /// Stream index of a pattern.
    pub(crate) fn stream_of(&self, pattern: usize) -> usize {
        self.patterns[pattern]
    }

    /// Graph, observer, and shared state of one run.
    pub(crate) fn run(&self, case: &Case) -> (CheckedGraph, Arc<Witness>, Arc<Stage>) {
        let rate = SampleRate(case.source.rate);
        let planned = case.turns.iter().zip(&self.actions);
        let pattern = |(stream, pattern): (&usize, &crate::spec::Pattern)| Resolved {
            stream: *stream,
            own_time: pattern.own_time,
            conditions: pattern.conditions.clone(),
        };
        let stage = Stage::new(Script {
            turns: planned
                .map(|(turn, (action, length))| Planned {
                    when: turn.when,
                    length: *length,
                    action: action.clone(),
                })
                .collect(),
            checks: case.checks.clone(),
            patterns: self.patterns.iter().zip(&case.patterns).map(pattern).collect(),
            streams: self.streams.clone(),
            interrupts: self.interrupts,
            echo: self.echo,
            duration: case.duration,
            tail: case.tail,
            rate,
            block: rate.samples(case.source.block).max(1),
        });
        let mut graph = self.graph.clone();
        let turns = 0..self.actions.len();
        let turns = turns.filter(|turn| matches!(self.actions[*turn].0, Action::Interrupt));
        // Exactly one source triggers interrupts.
        let mut interrupts = Some(Interrupts { turns: turns.collect() });
        if let Some((node_index, port)) = self.hearing {
            let (stage, source) = (stage.clone(), case.source.clone());
            let interrupts = interrupts.take().unwrap_or_default();
            let sounds = self.sounds.clone();
            let def = graph.nodes[node_index].def.with_open(move |_| {
                let (stage, interrupts) = (stage.clone(), interrupts.clone());
                let hearing = UserSource::new(
                    stage,
                    port,
                    source.noise_dbfs,
                    source.echo.as_ref(),
                    interrupts,
                    &sounds,
                )?;
                Ok(Box::new(hearing))
            });
            graph.nodes[node_index].def = def;
        }
        for (node_index, packets) in &self.senders {
            let (stage, packets) = (stage.clone(), packets.clone());
            let interrupts = interrupts.take().unwrap_or_default();
            let def = graph.nodes[*node_index].def.with_open(move |_| {
                let (stage, packets) = (stage.clone(), packets.clone());
                Ok(Box::new(Sender { stage, packets, interrupts: interrupts.clone() }))
            });
            graph.nodes[*node_index].def = def;
        }
        let witness = Witness::new(stage.clone(), self.outputs.clone(), self.interrupting);
        (graph, Arc::new(witness), stage)
    }
}

/// Locates an error of the graph in the scenario file if it has no location of its own.
fn located(fault: &Diagnostic, case: &Case) -> Diagnostic {
    let at = |location: &Location| Diagnostic { location: Some(location.clone()), ..fault.clone() };
    match (&fault.location, &case.profile) {
        (None, _) => at(&case.graph_location),
        (Some(location), Some((_, profile))) if location.file() == "--profile" => at(profile),
        _ => fault.clone(),
    }
}

/// Payload type of the port, if a scenario can send it.
fn sendable(
    send: &Send,
    port: &PortSpec,
    name: &str,
    reader: &mut Reader,
) -> Option<&'static Sendable> {
    let Some(payload) = TYPES.iter().find(|known| *known.ty == *port.ty) else {
        let known: Vec<_> = TYPES.iter().map(|known| known.ty).collect();
        let message = format!("{name} takes {}, which a scenario cannot send", port.ty);
        let fault = Diagnostic::error(Some(&send.to.location), message);
        reader.faults.push(fault.help(Some(format!("accepted types are {}", known.join(", ")))));
        return None;
    };
    for (field, _, location) in &send.fields {
        if !payload.fields.contains(&field.as_str()) {
            let message = format!("{} has no field \"{field}\"", port.ty);
            let known = payload.fields.iter().copied();
            reader.unknown(location, message, field, known, &format!("the fields of {}", port.ty));
        }
    }
    Some(payload)
}

/// Replacement for a disabled log node.
struct DisabledLog;

impl DynNode for DisabledLog {
    fn process(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        Ok(())
    }
}
