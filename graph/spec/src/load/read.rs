//! Converts the tree of a graph file to the graph.

use std::mem;

use afferent_graph::ParamValue;

use crate::{
    Graph, Location, NodeConfig,
    load::{
        inserted::Subgraph,
        locations::{Locations, NodeLocations},
        reader::Reader,
    },
    yaml::{Key, Node, Value},
};

/// Keys of a graph file.
pub(crate) const KEYS: [&str; 12] = [
    "afferent",
    "name",
    "include",
    "params",
    "machines",
    "inputs",
    "outputs",
    "nodes",
    "budget",
    "waterfall",
    "interrupt",
    "profiles",
];
/// Keys of a node.
const NODE_KEYS: [&str; 12] = [
    "use",
    "in",
    "params",
    "machine",
    "process",
    "thread",
    "cpu",
    "priority",
    "spin",
    "on_error",
    "deadline",
    "on_time_fault",
];
/// Supported version of graph files.
const VERSION: &str = "1";
/// Most nodes of a graph.
const MAX_NODES: usize = 1000;

impl Reader {
    /// Graph of `tree`, a map that starts at `start`, and its subgraphs.
    pub(crate) fn graph(
        &mut self,
        tree: &Node,
        start: &Location,
    ) -> (Graph, Locations, Vec<Subgraph>) {
        let mut graph = Graph::default();
        let mut locations = Locations::default();
        let (keys, meant) = match tree.as_map() {
            Some(map) => (map.as_slice(), self.keys(map, &KEYS, "a graph")),
            None => (&[][..], Vec::new()),
        };
        locations.nodes_key = Some(start.clone());
        for (key, value) in keys {
            match key.text.as_str() {
                "afferent" => self.version(value),
                "name" => graph.name = self.text(value, "\"name\"").unwrap_or_default().to_owned(),
                "nodes" => {
                    locations.nodes_key = Some(key.location.clone());
                    self.nodes(value, &mut graph, &mut locations);
                }
                // A null keeps the value of an included file.
                "machines" | "budget" | "waterfall" | "interrupt" if value.is_null() => {}
                "machines" => self.machines(value, "\"machines\"", &mut graph, &mut locations),
                "budget" => self.budgets(value, &mut graph, &mut locations),
                "waterfall" => {
                    locations.waterfall_key = Some(key.location.clone());
                    self.waterfall(value, &mut graph, &mut locations);
                }
                "interrupt" => {
                    locations.interrupt_key = Some(key.location.clone());
                    self.interrupt(value, &mut graph, &mut locations);
                }
                _ => {}
            }
        }
        let mut subgraphs = mem::take(&mut self.subgraphs);
        self.connect(&mut graph, &mut locations, &mut subgraphs);
        self.carry_over(&mut graph, &mut locations, &mut subgraphs);
        for (key, lacks) in [
            ("afferent", "the file does not begin with \"afferent: 1\", the version of its form"),
            ("nodes", "the graph has no \"nodes\""),
        ] {
            if tree.get(key).is_none() && !meant.contains(&key) {
                self.error(start, lacks);
            }
        }
        (graph, locations, subgraphs)
    }

    fn version(&mut self, node: &Node) {
        match self.text(node, "\"afferent\"") {
            Some(VERSION) | None => {}
            Some(other) => {
                let message = format!("version \"{other}\" of graph files is not known; this is 1");
                self.error(&node.location, message);
            }
        }
    }

    fn nodes(&mut self, node: &Node, graph: &mut Graph, locations: &mut Locations) {
        let Some(map) = self.map(node, "\"nodes\"", "nodes by name") else { return };
        if map.is_empty() {
            self.error(&node.location, "the graph has no nodes");
        }
        if let Some((key, _)) = map.get(MAX_NODES) {
            self.error(&key.location, format!("a graph holds at most {MAX_NODES} nodes"));
        }
        for (key, value) in map.iter().take(MAX_NODES) {
            if value.get("graph").is_some() {
                // Those of the subgraph are connected by then.
                let before = mem::take(&mut self.subgraphs);
                let subgraph = self.subgraph(key, value, graph, locations);
                self.subgraphs = before;
                self.subgraphs.push(subgraph);
                if graph.nodes.len() > MAX_NODES {
                    let message = format!("a graph holds at most {MAX_NODES} nodes");
                    self.error(&key.location, message);
                    return;
                }
                continue;
            }
            let (spec, node_locations) = self.node(key, value, false);
            graph.nodes.push(spec);
            locations.nodes.push(node_locations);
        }
    }

    /// Reads one node; with `partial`, the changes of a profile.
    pub(crate) fn node(
        &mut self,
        key: &Key,
        node: &Node,
        partial: bool,
    ) -> (NodeConfig, NodeLocations) {
        let name = &key.text;
        let mut spec = NodeConfig { name: name.clone(), ..NodeConfig::default() };
        let mut locations =
            NodeLocations { name: Some(key.location.clone()), ..NodeLocations::default() };
        let what = format!("node \"{name}\"");
        let Some(map) = self.map(node, &what, "\"use\" and other keys") else {
            locations.reported.kind = true;
            locations.reported.inputs = true;
            return (spec, locations);
        };
        let meant = self.keys(map, &NODE_KEYS, &what);
        if meant.contains(&"params") {
            locations.reported.all_params = true;
        }
        if let Some(value) = node.get("use") {
            spec.kind = self.text(value, &format!("\"use\" of {what}")).unwrap_or_default().into();
            locations.reported.kind = spec.kind.is_empty();
            locations.kind = Some(value.location.clone());
        } else {
            locations.reported.kind = true;
            if !partial && !meant.contains(&"use") {
                self.error(
                    &key.location,
                    format!("{what} does not say what it is: \"use\" is missing"),
                );
            }
        }
        let streams = node.get("in").map(|value| self.streams(value, name)).unwrap_or_default();
        (spec.inputs, locations.inputs) = (streams.specs, streams.locations);
        locations.reported.inputs = streams.faulty || meant.contains(&"in");
        if let Some(value) = node.get("params") {
            self.params(value, &mut spec, &mut locations);
        }
        self.assign(node, &what, &mut spec, &mut locations);
        spec.schedule = self.schedule(node, &what);
        locations.thread = node.get("thread").map(|value| value.location.clone());
        if let Some(value) = node.get("on_error").filter(|value| !value.is_null()) {
            let policy = self.on_error(value, &format!("\"on_error\" of {what}"));
            spec.on_error = policy.unwrap_or_default();
            locations.on_error = Some(value.location.clone());
        }
        if let Some(value) = node.get("deadline").filter(|value| !value.is_null()) {
            spec.deadline = self.duration(value, &format!("\"deadline\" of {what}"));
        }
        if let Some(value) = node.get("on_time_fault").filter(|value| !value.is_null()) {
            let policy = self.on_time_fault(value, &format!("\"on_time_fault\" of {what}"));
            spec.on_time_fault = policy.unwrap_or_default();
        }
        (spec, locations)
    }

    fn params(&mut self, node: &Node, spec: &mut NodeConfig, locations: &mut NodeLocations) {
        if node.is_null() {
            return;
        }
        let what = format!("\"params\" of node \"{}\"", spec.name);
        let Some(map) = self.map(node, &what, "parameters by name") else {
            locations.reported.all_params = true;
            return;
        };
        for (key, value) in map {
            let name = key.text.clone();
            match &value.value {
                // A null keeps the default.
                _ if value.is_null() => {}
                Value::Scalar { text, .. } => {
                    spec.params.insert(name.clone(), ParamValue::Text(text.clone()));
                    locations.params.insert(name, (key.location.clone(), value.location.clone()));
                }
                _ => {
                    let what = format!("parameter \"{name}\" of node \"{}\"", spec.name);
                    self.wrong(value, &what, "a single value");
                    locations.reported.params.insert(name);
                }
            }
        }
    }
}
