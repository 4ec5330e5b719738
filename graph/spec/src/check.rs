//! All faults of a graph in one pass, or the graph that can run.
//!
//! | module   | looks at                                                             |
//! |----------|----------------------------------------------------------------------|
//! | `params` | the settings of each node, then the node's own check                 |
//! | `wiring` | every input stream: names, types, what happens under load            |
//! | `flow`   | the whole: cycles, sources, nodes that nothing reaches or that reach nothing |
//! | `placement`, `address` | machines and processes, and their addresses             |
//! | `links`  | edges between processes and machines                                 |
//! | `files`  | outputs that overwrite inputs or other outputs                         |
//! | `watch`  | budgets, the waterfall and the interrupt                             |
//!
//! A fault is told once: what depends on a name that is not known is not looked at.

mod address;
mod files;
mod flow;
mod links;
mod params;
mod placement;
mod watch;
mod wiring;

use std::{
    collections::{HashMap, HashSet},
    mem,
    path::Path,
};

use afferent_graph::{Catalog, NodeDef, NodeError, OpenCx, ParamValues, PortId};

use crate::{
    CheckedBudget, CheckedGraph, CheckedNode, Diagnostic, Diagnostics, Edge, FileUse, Graph,
    LoadOptions, Loaded, Location, OnError, Origin, Partition,
    files::{files_of, graph_files},
    load::{
        self,
        locations::{Locations, NodeLocations},
    },
    suggest,
};

/// A graph that can run, with warnings.
#[derive(Debug, Clone)]
pub struct Checked {
    /// The graph.
    pub graph: CheckedGraph,
    /// Warnings: allowed, but probably not intended.
    pub warnings: Diagnostics,
    /// Files and values that the graph was read from; empty for a graph built in Rust.
    pub origin: Origin,
}

impl Checked {
    /// Files that the graph was read from, and those of its nodes.
    pub fn files(&self) -> Vec<FileUse> {
        let nodes = &self.graph.nodes;
        let nodes = nodes.iter().flat_map(|node| files_of(&node.name, &node.def, &node.params));
        graph_files(&self.origin).chain(nodes.map(|(_, file)| file)).collect()
    }
}

/// Reads the graph file `path` and checks it.
///
/// # Errors
/// As [`check`].
pub fn load_and_check(
    path: &Path,
    options: &LoadOptions,
    catalog: &Catalog,
    services: &OpenCx,
) -> Result<Checked, Diagnostics> {
    check(&load::load(path, options), catalog, services)
}

/// Checks a graph against the node types in `catalog`. Nodes find kernels and backends in
/// `services`.
///
/// # Errors
/// Every fault of the graph, and the warnings with them.
///
/// ```
/// use afferent_spec::{LoadOptions, check, parse};
/// use afferent_graph::{Catalog, OpenCx};
///
/// let text = "afferent: 1\nnodes:\n  mic: {use: microphone, prams: {}}\n";
/// let loaded = parse(text, "graph.yaml".as_ref(), &LoadOptions::default());
/// let faults = check(&loaded, &Catalog::default(), &OpenCx::default()).unwrap_err();
/// assert_eq!(faults.errors(), 2);
/// assert!(faults.to_string().contains("help: did you mean \"params\"?"));
/// ```
pub fn check(
    loaded: &Loaded,
    catalog: &Catalog,
    services: &OpenCx,
) -> Result<Checked, Diagnostics> {
    if loaded.unreadable {
        return Err(Diagnostics::new(loaded.faults.clone()));
    }
    let (defs, refused) = specialized(loaded, catalog, services);
    let mut checker = Checker::new(loaded, catalog, &defs);
    for conflict in catalog.conflicts() {
        checker.error(None, conflict.to_string(), None);
    }
    for Refused { node, values, error } in &refused {
        checker.refused(*node, values, error);
    }
    checker.placed();
    checker.names();
    let params: Vec<_> =
        (0..checker.graph.nodes.len()).map(|node| checker.params(node, services)).collect();
    checker.files(&loaded.origin, &params);
    checker.wiring();
    checker.watched();
    checker.links(&params);
    checker.flow();
    let (graph, warnings) = checker.finish(params)?;
    Ok(Checked { graph, warnings, origin: loaded.origin.clone() })
}

/// A node whose factory derives no definition from the parameters.
struct Refused {
    node: usize,
    values: ParamValues,
    error: NodeError,
}

/// Definition of each node: that of its kind, or the one that its factory derives from the
/// parameters.
fn specialized(
    loaded: &Loaded,
    catalog: &Catalog,
    services: &OpenCx,
) -> (Vec<Option<NodeDef>>, Vec<Refused>) {
    let mut refused = Vec::new();
    let nodes = loaded.graph.nodes.iter().enumerate();
    let defs = nodes.map(|(index, node)| {
        let def = catalog.node(&node.kind)?;
        let locations = loaded.locations.nodes.get(index);
        // Wrong values are reported with the parameters.
        let values = def.params.iter().filter_map(|param| {
            let value = match node.params.get(&*param.name) {
                Some(value) => param.accept(value).ok()?,
                None => params::default_path(param)?,
            };
            let location = locations.and_then(|node| node.value(&param.name));
            Some((param.name.to_string(), params::resolve(&loaded.graph, location, value)))
        });
        let values = values.collect();
        let cx = OpenCx { name: node.name.clone(), ..services.clone() };
        Some(match def.factory().specialize(&values, &cx) {
            Ok(special) => special.unwrap_or_else(|| def.clone()),
            Err(error) => {
                refused.push(Refused { node: index, values, error });
                def.clone()
            }
        })
    });
    let defs = defs.collect();
    (defs, refused)
}

struct Checker<'a> {
    graph: &'a Graph,
    locations: &'a Locations,
    here: bool,
    machine: Option<usize>,
    without_sources: bool,
    wiring_only: bool,
    catalog: &'a Catalog,
    /// Definition of each node of the graph; `None` if its kind is unknown.
    defs: Vec<Option<&'a NodeDef>>,
    index: HashMap<&'a str, usize>,
    partitions: Vec<Partition>,
    /// Partition of each node; `None` if its machine is unknown.
    partition_of: Vec<Option<usize>>,
    edges: Vec<Edge>,
    machine_links: Vec<links::Link>,
    /// Output that interrupts.
    interrupt: Option<(usize, PortId)>,
    budgets: Vec<CheckedBudget>,
    waterfall: Vec<(usize, PortId)>,
    /// Links from node to node, faulty ones included, with their locations.
    links: Vec<(usize, usize, Option<Location>)>,
    /// Nodes that receive packets.
    fed: HashSet<usize>,
    /// Nodes with a stream to or from an unknown port; their other ports are not reported as
    /// missing.
    doubtful_inputs: HashSet<usize>,
    doubtful_outputs: HashSet<usize>,
    /// Outputs with a downstream node.
    used_outputs: HashSet<(usize, PortId)>,
    faults: Vec<Diagnostic>,
}

impl<'a> Checker<'a> {
    fn new(loaded: &'a Loaded, catalog: &'a Catalog, defs: &'a [Option<NodeDef>]) -> Self {
        let graph = &loaded.graph;
        Self {
            graph,
            locations: &loaded.locations,
            here: loaded.here,
            machine: loaded.machine,
            without_sources: loaded.without_sources,
            wiring_only: loaded.wiring_only,
            defs: defs.iter().map(Option::as_ref).collect(),
            catalog,
            index: HashMap::new(),
            partitions: Vec::new(),
            partition_of: Vec::new(),
            edges: Vec::new(),
            machine_links: Vec::new(),
            interrupt: None,
            budgets: Vec::new(),
            waterfall: Vec::new(),
            links: Vec::new(),
            fed: HashSet::new(),
            doubtful_inputs: HashSet::new(),
            doubtful_outputs: HashSet::new(),
            used_outputs: HashSet::new(),
            faults: loaded.faults.clone(),
        }
    }

    fn error(&mut self, location: Option<&Location>, message: String, help: Option<String>) {
        self.faults.push(Diagnostic::error(location, message).help(help));
    }

    fn node_locations(&self, node: usize) -> Option<&'a NodeLocations> {
        self.locations.nodes.get(node)
    }

    /// Location of the name of a node.
    fn name_location(&self, node: usize) -> Option<&'a Location> {
        self.node_locations(node)?.name.as_ref()
    }

    /// Checks the names and kinds of the nodes.
    fn names(&mut self) {
        let graph = self.graph;
        if graph.nodes.is_empty() && self.faults.is_empty() {
            self.error(
                self.locations.nodes_key.as_ref(),
                "the graph has no nodes".to_owned(),
                None,
            );
        }
        for (number, node) in graph.nodes.iter().enumerate() {
            let (name, location) = (node.name.as_str(), self.name_location(number));
            // Nodes of a subgraph carry its name as a prefix.
            if !name.split('/').all(is_identifier) {
                let help = "a name is made of letters, digits and \"_\", and starts with a letter";
                let message = format!("\"{name}\" cannot be the name of a node");
                self.error(location, message, Some(help.to_owned()));
            }
            if self.index.insert(name, number).is_some() {
                self.error(location, format!("there are two nodes \"{name}\""), None);
            }
            self.thread(number);
            let is_source = self.defs[number].is_some_and(|def| def.is_source());
            if is_source && matches!(node.on_error, OnError::Degrade(_)) {
                let location =
                    self.node_locations(number).and_then(|locations| locations.on_error.as_ref());
                let message =
                    format!("source \"{name}\" cannot degrade: it has no packet to pass over");
                self.error(location, message, Some("write \"on_error: restart\"".to_owned()));
            }
            let reported =
                self.node_locations(number).is_some_and(|locations| locations.reported.kind);
            if self.defs[number].is_none() && !reported {
                let known = self.catalog.nodes().iter().map(|def| &*def.name);
                let help = suggest::help(&self.faults, &node.kind, known, "the kinds of nodes");
                let help = help.or_else(|| Some("`afferent nodes` lists the kinds".to_owned()));
                let location =
                    self.node_locations(number).and_then(|locations| locations.kind.as_ref());
                let message = format!("unknown kind \"{}\" of node \"{name}\"", node.kind);
                self.error(location, message, help);
            }
        }
    }

    /// Compares the schedule of a node with those of earlier nodes of the same thread.
    fn thread(&mut self, number: usize) {
        let node = &self.graph.nodes[number];
        let Some(word) = &node.schedule.thread else { return };
        let others = self.graph.nodes[..number].iter().enumerate();
        let mut others = others.filter(|(_, other)| other.schedule.thread.as_ref() == Some(word));
        if let Some((other, _)) = others.clone().find(|(other, _)| self.is_apart(*other, number)) {
            self.report_apart(other, number, word);
            return;
        }
        let conflict = others.find_map(|(_, other)| {
            Some((other.name.as_str(), other.schedule.conflict(&node.schedule)?))
        });
        if let Some((other, setting)) = conflict {
            let message = format!(
                "nodes \"{other}\" and \"{}\" share the thread \"{word}\" and differ in \"{setting}\"",
                node.name
            );
            let help = format!("write \"{setting}\" once, or give them different threads");
            self.error(self.name_location(number), message, Some(help));
        }
    }

    /// Finds the node `name`, or reports that there is none.
    fn find_node(&mut self, name: &str, location: Option<&Location>) -> Option<usize> {
        let found = self.index.get(name).copied();
        if found.is_none() {
            let mut removed = self.locations.removed.iter();
            let help = match removed.find(|(removed, _)| removed == name) {
                Some((_, by)) => Some(format!("{by} removes it")),
                None => {
                    let names = self.graph.nodes.iter().map(|node| node.name.as_str());
                    suggest::help(&self.faults, name, names, "the nodes")
                }
            };
            self.error(location, format!("unknown node \"{name}\""), help);
        }
        found
    }

    fn finish(
        mut self,
        params: Vec<ParamValues>,
    ) -> Result<(CheckedGraph, Diagnostics), Diagnostics> {
        let faults = Diagnostics::new(mem::take(&mut self.faults));
        if faults.errors() > 0 {
            return Err(faults);
        }
        let nodes = self.graph.nodes.iter().zip(&self.defs).zip(params).zip(&self.partition_of);
        // Without errors, the kind and machine of every node are known.
        let nodes = nodes.filter_map(|(((node, def), params), partition)| {
            let schedule = node.schedule.clone();
            let cancels = self.graph.interrupt.iter().flat_map(|interrupt| &interrupt.cancels);
            let canceled = cancels.into_iter().any(|name| *name == node.name);
            let (on_error, deadline, on_time_fault) =
                (node.on_error, node.deadline, node.on_time_fault);
            let node = CheckedNode::new(node.name.clone(), (*def)?.clone());
            Some(CheckedNode {
                params,
                schedule,
                partition: (*partition)?,
                canceled,
                on_error,
                deadline,
                on_time_fault,
                ..node
            })
        });
        let (name, nodes) = (self.graph.name.clone(), nodes.collect());
        let machines = self.checked_machines();
        let machine = self.machine.filter(|machine| *machine < machines.len());
        let Self { partitions, edges, interrupt, budgets, waterfall, .. } = self;
        let graph = CheckedGraph {
            name,
            machines,
            machine,
            partitions,
            nodes,
            edges,
            interrupt,
            budgets,
            waterfall,
        };
        Ok((graph, faults))
    }
}

fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
