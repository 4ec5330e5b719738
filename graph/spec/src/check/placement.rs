//! Checks of machines and processes.

use std::collections::HashSet;

use crate::{
    Diagnostic, Location, Machine,
    check::{Checker, address::check},
    placement::{partition_name, partitions},
    suggest,
};

/// Longest name of a machine or a process, in bytes: it is a part of file names.
const MAX_NAME: usize = 64;
/// Permitted names of machines and processes.
const NAMES: &str =
    "a name is made of at most 64 letters, digits, \"_\" and \"-\", and starts with a letter";

impl Checker<'_> {
    /// Assigns the nodes to partitions.
    pub(super) fn placed(&mut self) {
        self.machines();
        let graph = self.graph;
        let assigned = (0..graph.nodes.len()).map(|node| {
            let machine = self.machine(node)?;
            Some((machine, graph.nodes[node].process.as_deref()))
        });
        let assigned: Vec<Option<(usize, Option<&str>)>> = assigned.collect();
        let known = assigned.iter().flatten().copied();
        // In one process, the settings are only checked.
        let known = known.map(|at| if self.here { (0, None) } else { at });
        let machines = if self.here { 0 } else { graph.machines.len() };
        let (partitions, indices) = partitions(machines, known);
        let mut indices = indices.into_iter();
        self.partition_of = assigned.iter().map(|at| at.and_then(|_| indices.next())).collect();
        self.partitions = partitions;
        self.warn_of_idle_machines();
    }

    fn warn_of_idle_machines(&mut self) {
        let used = self.partition_of.iter().map(|index| Some(self.partitions[(*index)?].machine));
        // An unknown machine may stand for an idle one.
        let Some(used) = used.collect::<Option<HashSet<_>>>() else { return };
        for (number, machine) in self.graph.machines.iter().enumerate().filter(|_| !self.here) {
            if !used.contains(&number) {
                let location = self.locations.machines.get(number);
                let location = location.and_then(|machine| machine.name.as_ref());
                let message = format!("machine \"{}\" runs no node", machine.name);
                self.faults.push(Diagnostic::warning(location, message));
            }
        }
    }

    fn machines(&mut self) {
        let mut names = HashSet::new();
        for (number, machine) in self.graph.machines.iter().enumerate() {
            let locations = self.locations.machines.get(number);
            let location = locations.and_then(|machine| machine.name.as_ref());
            let name = machine.name.as_str();
            self.file_name("machine", name, location);
            if !names.insert(name) {
                self.error(location, format!("there are two machines \"{name}\""), None);
            }
            for (address, listen) in [(&machine.listen, true), (&machine.address, false)] {
                let Some(Err((message, help))) = address.as_ref().map(|a| check(a, listen)) else {
                    continue;
                };
                let given =
                    locations.map(|found| if listen { &found.listen } else { &found.address });
                self.error(given.and_then(Option::as_ref), message, Some(help));
            }
        }
    }

    /// True if the node runs on a machine other than that of this program.
    pub(super) fn is_elsewhere(&self, node: usize) -> bool {
        let (own, of_node) = (self.machine, self.machine_of(node));
        !self.here && own.is_some() && of_node.is_some() && own != of_node
    }

    /// True if two nodes run in different processes.
    pub(super) fn is_apart(&self, one: usize, other: usize) -> bool {
        let [one, other] = [one, other].map(|node| self.partition_of.get(node).copied().flatten());
        one.is_some() && other.is_some() && one != other
    }

    /// Reports that two nodes share the thread `word` and run in different processes.
    pub(super) fn report_apart(&mut self, other: usize, node: usize, word: &str) {
        let names = [other, node].map(|node| self.graph.nodes[node].name.as_str());
        let processes = [other, node].map(|node| self.partition_name(node));
        let message = format!(
            "nodes \"{}\" and \"{}\" share the thread \"{word}\", but run in different processes: \
             {} and {}",
            names[0], names[1], processes[0], processes[1]
        );
        let help = "give them different threads, or the same \"machine\" and \"process\"";
        let location = self.node_locations(node).and_then(|locations| locations.thread.as_ref());
        self.error(location, message, Some(help.to_owned()));
    }

    /// Name of the partition of a node.
    pub(super) fn partition_name(&self, node: usize) -> String {
        let partition = self.partition_of.get(node).copied().flatten();
        let partition = partition.and_then(|partition| self.partitions.get(partition));
        let machine = partition.and_then(|found| self.graph.machines.get(found.machine));
        let process = partition.and_then(|found| found.process.as_deref());
        partition_name(machine.map(|machine| machine.name.as_str()), process)
    }

    /// Index of the machine of a node; `None` if it is unknown, which is reported.
    fn machine(&mut self, node: usize) -> Option<usize> {
        let graph = self.graph;
        let locations = self.node_locations(node);
        let spec = &graph.nodes[node];
        if let Some(process) = &spec.process {
            let location = locations.and_then(|locations| locations.process.as_ref());
            self.file_name("process", process, location);
        }
        let Some(name) = &spec.machine else { return Some(0) };
        let found = graph.machines.iter().position(|machine| machine.name == *name);
        if found.is_none() {
            let location = locations.and_then(|locations| locations.machine.as_ref());
            let (message, help) = match graph.machines.as_slice() {
                [] => (
                    format!("machine \"{name}\" is not declared: the graph has no \"machines\""),
                    Some(format!("write \"machines: {{{name}: {{}}}}\" ahead of \"nodes\"")),
                ),
                machines => {
                    let known = machines.iter().map(|machine| machine.name.as_str());
                    let help = suggest::help(&self.faults, name, known, "the machines");
                    (format!("unknown machine \"{name}\""), help)
                }
            };
            self.error(location, message, help);
        }
        found
    }

    /// Reports a name that cannot be a part of a file name.
    fn file_name(&mut self, kind: &str, name: &str, location: Option<&Location>) {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let is_allowed = name.len() <= MAX_NAME
            && name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(is_letter);
        if !is_allowed {
            let message = format!("\"{name}\" cannot be the name of a {kind}");
            self.error(location, message, Some(NAMES.to_owned()));
        }
    }

    /// Machines of the checked graph.
    pub(super) fn checked_machines(&self) -> Vec<Machine> {
        let machines = self.graph.machines.iter().filter(|_| !self.here).cloned();
        let machines = machines.map(|machine| Machine {
            name: machine.name,
            listen: machine.listen,
            address: machine.address,
            remote: machine.remote,
        });
        machines.collect()
    }
}
