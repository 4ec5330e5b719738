//! Budgets, waterfalls, interrupts and machines of subgraphs.
//!
//! Budgets and machines are added to those of the outer graph. A graph has one interrupt and one
//! waterfall, its own or that of one subgraph; a second one is an error.

use crate::{
    Diagnostic, Graph, Location, MachineConfig,
    load::{
        inserted::{Subgraph, Watched},
        locations::{Locations, MachineLocations},
        reader::Reader,
    },
};

impl Reader {
    /// Adds those of the subgraphs to `graph`.
    pub(crate) fn carry_over(
        &mut self,
        graph: &mut Graph,
        locations: &mut Locations,
        subgraphs: &mut [Subgraph],
    ) {
        for subgraph in subgraphs {
            let Some(Watched { graph: inner, locations: found }) = subgraph.watched.take() else {
                continue;
            };
            let name = &subgraph.name;
            add_machines(graph, locations, inner.machines, found.machines);
            graph.budgets.extend(inner.budgets);
            locations.budgets.extend(found.budgets);
            locations
                .removed
                .extend(found.removed.into_iter().map(|(node, by)| (format!("{name}/{node}"), by)));
            if let Some(key) = found.waterfall_key
                && self.is_only("waterfall", name, &key, locations.waterfall_key.as_ref())
            {
                (graph.waterfall, locations.waterfall) = (inner.waterfall, found.waterfall);
                locations.waterfall_key = Some(key);
            }
            if let Some(key) = found.interrupt_key
                && self.is_only("interrupt", name, &key, locations.interrupt_key.as_ref())
            {
                (graph.interrupt, locations.interrupt) = (inner.interrupt, found.interrupt);
                locations.interrupt_key = Some(key);
            }
        }
    }

    /// True if there is no `other` one; `word` is the key at `key`, in the subgraph `name`.
    fn is_only(
        &mut self,
        word: &str,
        name: &str,
        key: &Location,
        other: Option<&Location>,
    ) -> bool {
        let Some(other) = other else { return true };
        let message =
            format!("\"{word}\" of graph \"{name}\" is a second one: a graph has one \"{word}\"");
        let (file, line) = (other.file(), other.line());
        let help = format!("the other one is in {file}, line {line}; leave one of them out");
        self.faults.push(Diagnostic::error(Some(key), message).help(help));
        false
    }
}

/// Adds the machines of a subgraph. Settings of the outer graph take precedence.
fn add_machines(
    graph: &mut Graph,
    locations: &mut Locations,
    machines: Vec<MachineConfig>,
    found: Vec<MachineLocations>,
) {
    for (machine, location) in machines.into_iter().zip(found) {
        let known = graph.machines.iter().position(|known| known.name == machine.name);
        let Some(at) = known else {
            graph.machines.push(machine);
            locations.machines.push(location);
            continue;
        };
        if graph.machines[at].listen.is_none() && machine.listen.is_some() {
            graph.machines[at].listen = machine.listen;
            locations.machines[at].listen = location.listen;
        }
    }
}
