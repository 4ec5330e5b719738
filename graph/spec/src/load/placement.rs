//! Reads `machines`, and `machine` and `process` of a node.
//!
//! ```yaml
//! machines:
//!   robot: {listen: quic/0.0.0.0:7450}   # the first one is the default of the nodes
//!   base: {}
//! nodes:
//!   cam: {use: camera}                   # on robot, in its main process
//!   det: {use: detect, machine: base, process: gpu, in: cam.image}
//! ```

use crate::{
    Diagnostic, Graph, MachineConfig, NodeConfig,
    load::{
        locations::{Locations, MachineLocations, NodeLocations},
        reader::Reader,
    },
    yaml::{Key, Map, Node},
};

/// Most machines of a graph.
const MAX_MACHINES: usize = 100;

impl Reader {
    /// Machines of a graph; `what` names the setting.
    pub(crate) fn machines(
        &mut self,
        node: &Node,
        what: &str,
        graph: &mut Graph,
        locations: &mut Locations,
    ) {
        let Some(map) = self.map(node, what, "machines by name") else { return };
        if map.is_empty() {
            self.error(&node.location, format!("{what} names no machine"));
        }
        if let Some((key, _)) = map.get(MAX_MACHINES) {
            self.error(&key.location, format!("a graph has at most {MAX_MACHINES} machines"));
        }
        for (key, value) in map.iter().take(MAX_MACHINES) {
            let (machine, found) = self.machine(key, value);
            graph.machines.push(machine);
            locations.machines.push(found);
        }
    }

    /// One machine.
    pub(crate) fn machine(&mut self, key: &Key, node: &Node) -> (MachineConfig, MachineLocations) {
        let mut machine = MachineConfig { name: key.text.clone(), ..MachineConfig::default() };
        let mut locations =
            MachineLocations { name: Some(key.location.clone()), ..MachineLocations::default() };
        let what = format!("machine \"{}\"", key.text);
        if node.is_null() {
            return (machine, locations);
        }
        let Some(map) = self.map(node, &what, "\"listen\"") else { return (machine, locations) };
        if let Some((key, _)) = map.iter().find(|(key, _)| key.text == "address") {
            let message = format!("{what} has an \"address\", which a graph file does not fix");
            let help = format!("give it at the start: --at {}=ADDRESS", machine.name);
            self.faults.push(Diagnostic::error(Some(&key.location), message).help(help));
        }
        let others = map.iter().filter(|(key, _)| key.text != "address");
        self.keys(&others.cloned().collect(), &["listen"], &what);
        if let Some(value) = node.get("listen").filter(|value| !value.is_null()) {
            let text = self.text(value, &format!("\"listen\" of {what}"));
            machine.listen = text.map(str::to_owned);
            locations.listen = Some(value.location.clone());
        }
        (machine, locations)
    }

    /// Machine and process of a node; `what` names it.
    pub(crate) fn assign(
        &mut self,
        node: &Node,
        what: &str,
        spec: &mut NodeConfig,
        locations: &mut NodeLocations,
    ) {
        let mut word = |key: &str| {
            let value = node.get(key).filter(|value| !value.is_null())?;
            let text = self.text(value, &format!("\"{key}\" of {what}"))?;
            Some((text.to_owned(), value.location.clone()))
        };
        (spec.machine, locations.machine) = word("machine").unzip();
        (spec.process, locations.process) = word("process").unzip();
    }

    /// Gives the machine and process of a subgraph to those of its nodes that have none.
    pub(crate) fn assign_inner(
        &mut self,
        name: &str,
        node: &Node,
        (nodes, locations): (&mut [NodeConfig], &mut [NodeLocations]),
    ) {
        let mut outer = (NodeConfig::default(), NodeLocations::default());
        self.assign(node, &format!("node \"{name}\""), &mut outer.0, &mut outer.1);
        for (spec, locations) in nodes.iter_mut().zip(locations) {
            if spec.machine.is_none() {
                (spec.machine, locations.machine) =
                    (outer.0.machine.clone(), outer.1.machine.clone());
            }
            if spec.process.is_none() {
                (spec.process, locations.process) =
                    (outer.0.process.clone(), outer.1.process.clone());
            }
        }
    }
}

/// Changes machines setting by setting, as a profile or an including file does; null removes one.
pub(crate) fn change_machines(machines: &mut Node, changes: Map) {
    for (key, change) in changes {
        match machines.get_mut(&key.text) {
            Some(_) if change.is_null() => machines.remove(&key.text),
            Some(known) if known.as_map().is_some() && change.as_map().is_some() => {
                let entries = change.as_map().cloned().unwrap_or_default();
                entries.into_iter().for_each(|(key, value)| known.set(key, value));
            }
            _ => machines.set(key, change),
        }
    }
}
