//! Checks of the input streams.

use std::collections::HashSet;

use afferent_graph::{NodeDef, OnFull, PortId, PortSpec};

use crate::{
    Edge, EdgePolicy, InputConfig, Location, SyncPolicy,
    check::Checker,
    load::locations::{InputLocations, NodeLocations, PortLocations},
    suggest,
};

/// Longest queue, and largest in-flight limit.
const MAX_QUEUE: usize = 65_536;

impl<'a> Checker<'a> {
    pub(super) fn wiring(&mut self) {
        let graph = self.graph;
        let nothing = InputLocations::default();
        for (node, spec) in graph.nodes.iter().enumerate() {
            let locations = self.node_locations(node);
            let reported = locations.is_some_and(|locations| locations.reported.inputs);
            let mut connected = HashSet::new();
            let mut all_known = !reported;
            for (number, input) in spec.inputs.iter().enumerate() {
                let locations = locations
                    .and_then(|locations| locations.inputs.get(number))
                    .unwrap_or(&nothing);
                all_known &= self.stream(node, input, locations, &mut connected).is_some();
            }
            self.joins(node, locations);
            let Some(def) = self.defs[node] else { continue };
            if !all_known {
                // It may stand for one of the missing inputs.
                self.doubtful_inputs.insert(node);
                continue;
            }
            let missing = |port: &&PortSpec| !port.optional && !connected.contains(&port.id);
            for port in def.inputs.iter().filter(missing) {
                let message =
                    format!("input \"{}\" of node \"{}\" is not connected", port.name, spec.name);
                let help = self.possible_senders(node, port);
                self.error(self.name_location(node), message, help);
                self.doubtful_inputs.insert(node);
            }
        }
    }

    /// Checks the sync policies of the inputs of `node`.
    fn joins(&mut self, node: usize, locations: Option<&NodeLocations>) {
        let spec = &self.graph.nodes[node];
        let location = |number: usize| locations.and_then(|locations| locations.inputs.get(number));
        for (number, input) in spec.inputs.iter().enumerate() {
            if input.timeout.is_some()
                && input.sync.is_none()
                && location(number).is_none_or(|location| location.sync.is_none())
            {
                let message = format!(
                    "\"timeout\" of the stream from \"{}\" to \"{}\" has no \"sync\"",
                    input.from_node, spec.name
                );
                let help = "it says how long a packet of another stream waits for this one";
                let location = location(number).and_then(|location| location.timeout.as_ref());
                self.error(location, message, Some(help.to_owned()));
            }
        }
        let leads: Vec<_> = spec.inputs.iter().filter(|input| input.sync.is_none()).collect();
        if leads.len() == spec.inputs.len() || leads.len() == 1 {
            return;
        }
        let names = leads.iter().map(|input| format!("\"{}\"", input.from_node));
        let names = names.collect::<Vec<_>>().join(", ");
        let (message, help) = match leads.len() {
            0 => (
                "but none leads".to_owned(),
                "leave out the \"sync\" of one: the node is called for each of its packets",
            ),
            _ => (format!("but {names} all lead"), "give all but one a \"sync\""),
        };
        let message = format!("node \"{}\" joins streams, {message}", spec.name);
        self.error(self.name_location(node), message, Some(help.to_owned()));
    }

    /// Help that names outputs of the graph that could feed `port`.
    fn possible_senders(&self, node: usize, port: &PortSpec) -> Option<String> {
        let others = self.graph.nodes.iter().zip(&self.defs).enumerate();
        let others = others.filter(|(number, _)| *number != node);
        let fitting = others.filter_map(|(_, (spec, def))| {
            let output = (*def)?.outputs.iter().find(|output| port.accepts(&output.ty))?;
            Some(format!("{}.{}", spec.name, output.name))
        });
        let fitting: Vec<_> = fitting.take(4).collect();
        (!fitting.is_empty())
            .then(|| format!("it takes {}, as from {}", port.ty, fitting.join(", ")))
    }

    /// Checks one stream; `None` if its input is unknown.
    fn stream(
        &mut self,
        node: usize,
        input: &InputConfig,
        locations: &InputLocations,
        connected: &mut HashSet<PortId>,
    ) -> Option<()> {
        let sender = self.find_node(&input.from_node, locations.from.node.as_ref());
        let to = self.input_port(node, input, locations);
        if to.is_none() || sender.is_none() {
            self.doubtful_inputs.insert(node);
        }
        let from =
            sender.and_then(|sender| self.output_port(sender, &input.from_port, &locations.from));
        if let Some(sender) = sender {
            self.fed.insert(node);
            if !input.feedback {
                self.links.push((sender, node, locations.from.node.clone()));
            }
        }
        let policy = self.policy(node, input, locations, from);
        let to = to?;
        if !connected.insert(to.id) && !to.many {
            let name = &self.graph.nodes[node].name;
            let message = format!("input \"{}\" of node \"{name}\" is connected twice", to.name);
            let help = "it takes one stream; a node that merges streams can stand before it";
            self.error(locations.from.node.as_ref(), message, Some(help.to_owned()));
            return Some(());
        }
        let (Some(sender), Some(from)) = (sender, from) else { return Some(()) };
        if !to.accepts(&from.ty) {
            self.mismatch((sender, from), (node, to), locations);
        } else if let Some(policy) = policy {
            if input.sync == Some(SyncPolicy::Interpolate) && !to.interpolates {
                let message = format!("{} cannot be interpolated", from.ty);
                let help = "write \"sync: {approx: 10ms}\" for the packet that is nearest";
                self.error(locations.sync.as_ref(), message, Some(help.to_owned()));
            }
            let ends = ((sender, from.id), (node, to.id));
            let (sync, timeout) = (input.sync, input.timeout);
            let is_source = self.defs[sender].is_some_and(|def| def.is_source());
            let limited = is_source && policy.on_full == OnFull::Latest;
            let in_flight = input.in_flight.or(limited.then_some(Edge::IN_FLIGHT));
            let in_flight = in_flight.filter(|count| *count != usize::MAX);
            let edge = Edge::new(ends.0, ends.1, policy);
            let (on_loss, loss_timeout) = (input.on_loss.unwrap_or_default(), input.loss_timeout);
            let feedback = input.feedback;
            let edge = Edge { sync, timeout, in_flight, feedback, on_loss, loss_timeout, ..edge };
            self.link(&edge, input, from, locations);
            self.edges.push(edge);
        }
        Some(())
    }

    /// Input of `node` that a stream enters; `None` also if the node is unknown.
    fn input_port(
        &mut self,
        node: usize,
        input: &InputConfig,
        locations: &InputLocations,
    ) -> Option<&'a PortSpec> {
        let def = self.defs[node]?;
        let name = &self.graph.nodes[node].name;
        let location = locations.port.as_ref().or(locations.from.node.as_ref());
        let mut all = def.inputs.iter();
        let (message, help) = match (all.next(), all.next()) {
            (None, _) => {
                (format!("node \"{name}\" has no inputs: {} makes its own packets", def.name), None)
            }
            (Some(only), None) if input.port.is_empty() => return Some(only),
            (_, Some(_)) if input.port.is_empty() => {
                let help =
                    format!("write \"in: {{{}: ...}}\"", port_names(def.inputs.iter(), ": ..., "));
                (format!("node \"{name}\" has several inputs"), Some(help))
            }
            _ => {
                if let Some(port) = def.inputs.iter().find(|port| *port.name == *input.port) {
                    return Some(port);
                }
                let names: Vec<_> = def.inputs.iter().map(|port| &*port.name).collect();
                let help = suggest::help(
                    &self.faults,
                    &input.port,
                    names,
                    &format!("the inputs of {}", def.name),
                );
                (format!("unknown input \"{}\" of node \"{name}\"", input.port), help)
            }
        };
        self.error(location, message, help);
        None
    }

    /// Output `port` of `node`, or its only one if `port` is empty. Marks it as used.
    pub(super) fn output_port(
        &mut self,
        node: usize,
        port: &str,
        locations: &PortLocations,
    ) -> Option<&'a PortSpec> {
        let def = self.defs[node]?;
        let name = &self.graph.nodes[node].name;
        let mut all = def.outputs.iter();
        let found = match (all.next(), all.next()) {
            (None, _) => Err((format!("node \"{name}\" has no outputs"), None)),
            (Some(only), None) if port.is_empty() => Ok(only),
            (_, Some(_)) if port.is_empty() => {
                let help = format!("write one of {}", port_names(def.outputs.iter(), ", "));
                Err((format!("node \"{name}\" has several outputs"), Some(help)))
            }
            _ => def.outputs.iter().find(|output| *output.name == *port).ok_or_else(|| {
                let names: Vec<_> = def.outputs.iter().map(|port| &*port.name).collect();
                let help = suggest::help(
                    &self.faults,
                    port,
                    names,
                    &format!("the outputs of {}", def.name),
                );
                (format!("unknown output \"{port}\" of node \"{name}\""), help)
            }),
        };
        match found {
            Ok(output) => {
                self.used_outputs.insert((node, output.id));
                Some(output)
            }
            Err((message, help)) => {
                self.doubtful_outputs.insert(node);
                self.error(locations.port.as_ref(), message, help);
                None
            }
        }
    }

    fn mismatch(
        &mut self,
        (sender, from): (usize, &PortSpec),
        (node, to): (usize, &PortSpec),
        locations: &InputLocations,
    ) {
        let nodes = &self.graph.nodes;
        let (from_node, to_node) = (&nodes[sender].name, &nodes[node].name);
        let message = format!(
            "input \"{}\" of node \"{to_node}\" takes {}, but \"{from_node}.{}\" sends {}",
            to.name, to.ty, from.name, from.ty
        );
        let def: Option<&NodeDef> = self.defs[sender];
        let other = def.and_then(|def| def.outputs.iter().find(|output| output.ty == to.ty));
        let converts = |def: &&NodeDef| {
            let takes = def.inputs.iter().any(|input| input.ty == from.ty);
            takes && def.outputs.iter().any(|output| output.ty == to.ty)
        };
        let help = match other {
            Some(other) => Some(format!("\"{from_node}.{}\" sends {}", other.name, to.ty)),
            None => self.catalog.nodes().iter().find(converts).map(|def| {
                format!("a node {} between them turns {} into {}", def.name, from.ty, to.ty)
            }),
        };
        self.error(locations.from.port.as_ref(), message, help);
    }

    /// Policy of the edge; `None` if its sender is unknown or it is faulty.
    fn policy(
        &mut self,
        node: usize,
        input: &InputConfig,
        locations: &InputLocations,
        from: Option<&PortSpec>,
    ) -> Option<EdgePolicy> {
        let what = format!(
            "of the stream from \"{}\" to \"{}\"",
            input.from_node, self.graph.nodes[node].name
        );
        let before = self.faults.len();
        if input.feedback {
            self.feedback(&what, input, locations);
        }
        let on_full = match input.on_full {
            // A feedback edge must not block its sender.
            None if input.feedback => Some(OnFull::DropOldest),
            on_full => on_full.or(from.map(|from| from.on_full)),
        };
        let location: Option<&Location> = locations.queue.as_ref();
        let queue = match (input.queue, on_full) {
            (Some(queue), _) if !(1..=MAX_QUEUE).contains(&queue) => {
                let message = format!("\"queue\" {what} must be between 1 and {MAX_QUEUE}");
                self.error(location, message, None);
                queue
            }
            (None | Some(1), Some(OnFull::Latest)) => 1,
            (Some(queue), Some(OnFull::Latest)) => {
                let message = format!("\"queue\" {what} must be 1 with \"latest\", not {queue}");
                let help = "to keep more than the newest packet, write \"on_full: drop_oldest\"";
                self.error(location, message, Some(help.to_owned()));
                queue
            }
            (None, _) if input.feedback => EdgePolicy::FEEDBACK_QUEUE,
            (queue, _) => queue.unwrap_or(EdgePolicy::QUEUE),
        };
        let is_wrong = |count| count != usize::MAX && !(1..=MAX_QUEUE).contains(&count);
        if input.in_flight.is_some_and(is_wrong) {
            let message =
                format!("\"in_flight\" {what} must be between 1 and {MAX_QUEUE}, or unlimited");
            self.error(locations.in_flight.as_ref(), message, None);
        }
        if input.max_age.is_some_and(|age| age.is_zero()) {
            let message = format!("\"max_age\" {what} must be longer than none");
            self.error(locations.max_age.as_ref(), message, None);
        }
        let on_full = on_full.filter(|_| self.faults.len() == before)?;
        Some(EdgePolicy { on_full, queue, max_age: input.max_age })
    }
}

impl Checker<'_> {
    /// Reports settings that a feedback edge cannot have.
    fn feedback(&mut self, what: &str, input: &InputConfig, locations: &InputLocations) {
        if input.on_full == Some(OnFull::Block) {
            let message = format!("\"on_full: block\" {what} could wait for itself");
            let help = "a stream with \"feedback\" drops what it has no room for: write \
                        drop_oldest, drop_newest or latest";
            self.error(locations.on_full.as_ref(), message, Some(help.to_owned()));
        }
        if input.sync.is_some() {
            let message = format!("\"sync\" {what} waits for what is made of its own packets");
            let help = "leave out \"sync\" or \"feedback\"";
            self.error(locations.sync.as_ref(), message, Some(help.to_owned()));
        }
    }
}

fn port_names<'p>(ports: impl Iterator<Item = &'p PortSpec>, between: &str) -> String {
    ports.map(|port| &*port.name).collect::<Vec<_>>().join(between)
}
