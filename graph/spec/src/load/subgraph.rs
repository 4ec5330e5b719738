//! A graph file as a node of another one.
//!
//! ```yaml
//! nodes:                                              # ears.yaml
//!   ears: {graph: ears.yaml, in: {audio: mic.audio},  #   params: {model: models/vad}
//!          params: {model: models/other}}             #   inputs: {audio: vad.audio}
//!   log:  {use: event_log, in: ears.events}           #   outputs: {events: vad.events}
//! ```
//!
//! `profile` applies one of its profiles, and `nodes` changes its nodes as a profile would:
//! `nodes: {vad: {params: {threshold: 0.7}}}`, which a profile of the file around it may write
//! `ears/vad: {params: {threshold: 0.7}}`.
//!
//! `machine` and `process` are those of its nodes that have none.
//!
//! Its nodes are inserted into the outer graph with names such as `ears/vad`; a reference to one of
//! its ports becomes a reference to the port of a node in it. Its budgets, interrupt, waterfall and
//! machines become those of the outer graph. A path is relative to the file in which it is written.

use std::mem;

use crate::{
    Diagnostic, Graph, InputConfig, Location, PortRef,
    load::{
        inserted::{Exports, Subgraph, Watched},
        locations::{InputLocations, Locations, NodeLocations, PortLocations},
        reader::Reader,
    },
    suggest,
    yaml::{Key, Map, Node, Value},
};

/// Keys of a subgraph.
pub(crate) const KEYS: [&str; 7] =
    ["graph", "in", "params", "profile", "nodes", "machine", "process"];

/// Memory of a port.
fn bytes(port: &PortRef) -> usize {
    size_of::<PortRef>() + port.node.len() + port.port.len()
}

impl Reader {
    /// Reads the subgraph `key` and adds its nodes.
    pub(crate) fn subgraph(
        &mut self,
        key: &Key,
        node: &Node,
        graph: &mut Graph,
        locations: &mut Locations,
    ) -> Subgraph {
        let what = format!("node \"{}\"", key.text);
        if let Some(map) = node.as_map() {
            self.keys(map, &KEYS, &what);
        }
        let streams =
            node.get("in").map(|value| self.streams(value, &key.text)).unwrap_or_default();
        let inputs = streams.specs.into_iter().zip(streams.locations).collect();
        let (ports, watched) = self.inner(key, node, graph, locations).unzip();
        Subgraph { name: key.text.clone(), inputs, ports, watched, location: key.location.clone() }
    }

    fn inner(
        &mut self,
        key: &Key,
        node: &Node,
        graph: &mut Graph,
        locations: &mut Locations,
    ) -> Option<([Exports; 2], Watched)> {
        let file = node.get("graph")?;
        let (mut tree, start) = self.file(file, &format!("\"graph\" of node \"{}\"", key.text))?;
        let outside = self.within.clone();
        self.within = format!("{outside}{}/", key.text);
        self.check_profiles(&tree);
        let mut removed = Vec::new();
        if let Some(profile) = node.get("profile").filter(|profile| !profile.is_null())
            && let Some(name) = self.text(profile, &format!("\"profile\" of node \"{}\"", key.text))
        {
            removed = self.change_by_profile(&mut tree, name, &profile.location);
        }
        let params = self.given(key, node.get("params"), &tree);
        self.fill_nodes(&mut tree, &params);
        // The outer graph has substituted these already.
        if let Some(nodes) = node.get("nodes").filter(|nodes| !nodes.is_null()) {
            removed.extend(self.apply_outer(&mut tree, nodes));
        }
        self.depth += 1;
        let (mut inner, mut inner_locations, parts) = self.graph(&tree, &start);
        self.depth -= 1;
        self.within = outside;
        inner_locations.removed.extend(removed);
        let ports = [0, 1].map(|side| self.exports(&tree, side, &key.text, &inner, &parts));
        self.assign_inner(&key.text, node, (&mut inner.nodes, &mut inner_locations.nodes));
        let name = |inner: &str| format!("{}/{inner}", key.text);
        for mut node in mem::take(&mut inner.nodes) {
            node.name = name(&node.name);
            node.inputs.iter_mut().for_each(|input| input.from_node = name(&input.from_node));
            graph.nodes.push(node);
        }
        locations.nodes.append(&mut inner_locations.nodes);
        Some((ports, Watched::new(&key.text, inner, inner_locations)))
    }

    /// Parameters of the subgraph `tree`: the values given by the node `key`, substituted by the
    /// outer graph, otherwise the defaults.
    fn given(&mut self, key: &Key, given: Option<&Node>, tree: &Node) -> Map {
        let mut params = self.own_params(tree);
        let what = format!("\"params\" of node \"{}\"", key.text);
        let given = given.filter(|given| !given.is_null());
        let given = given.and_then(|given| self.map(given, &what, "parameters by name"));
        let given = given.map_or(&[][..], Vec::as_slice);
        for (name, _) in given {
            let known = params.iter().map(|(known, _)| known.text.as_str());
            if known.clone().any(|known| known == name.text) {
                continue;
            }
            let what = format!("the parameters of \"{}\"", key.text);
            let help = suggest::help(&self.faults, &name.text, known, &what);
            let message = format!("unknown parameter \"{}\" of graph \"{}\"", name.text, key.text);
            self.faults.push(Diagnostic::error(Some(&name.location), message).help(help));
        }
        for (name, value) in &mut params {
            match given.iter().find(|(given, _)| given.text == name.text) {
                Some((_, given)) if !given.is_null() => *value = given.clone(),
                _ => self.fill(value, &Map::new()),
            }
            if value.is_null() {
                let message =
                    format!("graph \"{}\" needs the parameter \"{}\"", key.text, name.text);
                self.error(&key.location, message);
                value.value = Value::Faulty; // Its users are not at fault.
            }
        }
        params
    }

    /// Parameters of the graph file `tree` with their defaults, as written.
    pub(crate) fn own_params(&mut self, tree: &Node) -> Map {
        let params = tree.get("params").filter(|params| !params.is_null());
        let params =
            params.and_then(|params| self.map(params, "\"params\" of the graph", "values by name"));
        params.cloned().unwrap_or_default()
    }

    /// Ports that `inputs` (`side` 0) or `outputs` (1) of `tree` stand for, as those of nodes in
    /// `name`. The subgraph has the nodes of `inner`, among them those of its `parts`.
    fn exports(
        &mut self,
        tree: &Node,
        side: usize,
        name: &str,
        inner: &Graph,
        parts: &[Subgraph],
    ) -> Exports {
        let key = ["inputs", "outputs"][side];
        let Some(node) = tree.get(key) else { return Vec::new() };
        let what = format!("\"{key}\" of the graph");
        let map = self.map(node, &what, "ports of its nodes by name").cloned().unwrap_or_default();
        let mut exports = Vec::new();
        for (key, value) in map {
            let items = match &value.value {
                Value::Seq(items) if side == 0 => items.as_slice(),
                _ => std::slice::from_ref(&value),
            };
            let mut ports = Vec::new();
            for item in items {
                let what = format!("\"{}\" of {what}", key.text);
                let Some((port, locations)) = self.port(item, &what) else { continue };
                let within = |inner: PortRef| PortRef {
                    node: format!("{name}/{}", inner.node),
                    port: inner.port,
                };
                if let Some(part) = parts.iter().find(|part| part.name == port.node) {
                    let location = locations.port.as_ref().unwrap_or(&item.location);
                    for port in self.inside(part, side, &port.port, location) {
                        let port = within(port);
                        if self.take(bytes(&port), &item.location).is_none() {
                            break;
                        }
                        ports.push(port);
                    }
                    continue;
                }
                if !inner.nodes.iter().any(|node| node.name == port.node) {
                    let nodes = inner.nodes.iter().map(|node| node.name.as_str());
                    let nodes = nodes.filter(|name| !name.contains('/'));
                    let names = nodes.chain(parts.iter().map(|part| part.name.as_str()));
                    let help = suggest::help(&self.faults, &port.node, names, "the nodes");
                    let message = format!("unknown node \"{}\"", port.node);
                    self.faults
                        .push(Diagnostic::error(locations.node.as_ref(), message).help(help));
                    continue;
                }
                ports.push(within(port));
            }
            exports.push((key.text, ports));
        }
        exports
    }

    /// Replaces ports of subgraphs by the ports of their nodes.
    pub(crate) fn connect(
        &mut self,
        graph: &mut Graph,
        locations: &mut Locations,
        subgraphs: &mut [Subgraph],
    ) {
        // Streams into a subgraph go to its nodes.
        for subgraph in subgraphs.iter_mut() {
            for (input, input_locations) in mem::take(&mut subgraph.inputs) {
                let location = input_locations.port.clone().or(input_locations.from.node.clone());
                let location = location.unwrap_or_else(|| subgraph.location.clone());
                for port in self.inside(subgraph, 0, &input.port, &location) {
                    let Some(node) = graph.nodes.iter().position(|node| node.name == port.node)
                    else {
                        continue;
                    };
                    let spec = size_of::<InputConfig>() + size_of::<InputLocations>();
                    if self.take(bytes(&port) + spec, &location).is_none() {
                        break;
                    }
                    graph.nodes[node].inputs.push(InputConfig { port: port.port, ..input.clone() });
                    let locations =
                        locations.nodes.get_mut(node).map(|locations| &mut locations.inputs);
                    locations.into_iter().for_each(|inputs| inputs.push(input_locations.clone()));
                }
            }
        }
        // Streams out of a subgraph come from its nodes.
        for (number, node) in graph.nodes.iter_mut().enumerate() {
            let NodeLocations { inputs, reported, .. } = &mut locations.nodes[number];
            for (input_index, input) in node.inputs.iter_mut().enumerate() {
                let mut from =
                    PortRef { node: input.from_node.clone(), port: input.from_port.clone() };
                let location = inputs
                    .get(input_index)
                    .map(|locations| locations.from.clone())
                    .unwrap_or_default();
                if self.outside(&mut from, &location, subgraphs, 1) {
                    (input.from_node, input.from_port) = (from.node, from.port);
                } else {
                    reported.inputs = true;
                    input.from_node.clear();
                }
            }
            let known: Vec<_> =
                node.inputs.iter().map(|input| !input.from_node.is_empty()).collect();
            let mut kept = known.iter();
            inputs.retain(|_| *kept.next().unwrap_or(&true));
            node.inputs.retain(|input| !input.from_node.is_empty());
        }
        for (budget, (from, to)) in graph.budgets.iter_mut().zip(&mut locations.budgets) {
            from.reported |= !self.outside(&mut budget.from, from, subgraphs, 1);
            to.reported |= !self.outside(&mut budget.to, to, subgraphs, 1);
        }
        for (port, location) in graph.waterfall.iter_mut().zip(&mut locations.waterfall) {
            location.reported |= !self.outside(port, location, subgraphs, 1);
        }
        if let Some(interrupt) = &mut graph.interrupt {
            let on = &mut locations.interrupt.0;
            on.reported |= !self.outside(&mut interrupt.on, on, subgraphs, 1);
            let names = mem::take(&mut interrupt.cancels).into_iter();
            for (name, location) in names.zip(mem::take(&mut locations.interrupt.1)) {
                let inside = format!("{name}/");
                let nodes = graph.nodes.iter().map(|node| &node.name);
                let of_graph = nodes.filter(|node| node.starts_with(&inside)).cloned();
                let mut cancels: Vec<_> = of_graph.collect();
                if cancels.is_empty() {
                    cancels.push(name);
                }
                let each = size_of::<String>() + size_of::<Location>();
                let bytes = cancels.iter().map(|name| each + name.len()).sum();
                if self.take(bytes, &location).is_none() {
                    break;
                }
                locations.interrupt.1.extend(cancels.iter().map(|_| location.clone()));
                interrupt.cancels.extend(cancels);
            }
        }
    }

    /// Replaces `port` if it belongs to a subgraph; false if the subgraph has no such port.
    fn outside(
        &mut self,
        port: &mut PortRef,
        locations: &PortLocations,
        subgraphs: &[Subgraph],
        side: usize,
    ) -> bool {
        let Some(subgraph) = subgraphs.iter().find(|subgraph| subgraph.name == port.node) else {
            return true;
        };
        let location = locations.port.clone().unwrap_or_else(|| subgraph.location.clone());
        match self.inside(subgraph, side, &port.port, &location).into_iter().next() {
            Some(found) => *port = found,
            None => return false,
        }
        true
    }

    /// Ports of nodes that the input (`side` 0) or output (1) `port` of a subgraph stands for.
    fn inside(
        &mut self,
        subgraph: &Subgraph,
        side: usize,
        port: &str,
        location: &Location,
    ) -> Vec<PortRef> {
        let Some(ports) = subgraph.ports.as_ref().map(|ports| &ports[side]) else {
            return Vec::new();
        };
        let found = match ports.as_slice() {
            [only] if port.is_empty() => Some(only),
            all => all.iter().find(|(name, _)| name == port),
        };
        if let Some((_, inside)) = found {
            return inside.clone();
        }
        let (word, name) = (["input", "output"][side], &subgraph.name);
        let known = ports.iter().map(|(name, _)| name.as_str());
        let help = suggest::help(&self.faults, port, known, &format!("the {word}s of \"{name}\""));
        let message = match port {
            "" => format!("graph \"{name}\" does not have one {word}"),
            port => format!("unknown {word} \"{port}\" of graph \"{name}\""),
        };
        self.faults.push(Diagnostic::error(Some(location), message).help(help));
        Vec::new()
    }

    /// Substitutes in the machines, nodes, budgets and the interrupt of a graph file with these `params`.
    pub(crate) fn fill_nodes(&mut self, tree: &mut Node, params: &Map) {
        for key in ["machines", "nodes", "budget", "waterfall", "interrupt", "name"] {
            if let Some(part) = tree.get_mut(key) {
                self.fill(part, params);
            }
        }
    }
}
