//! Looks at budgets and the interrupt.

use std::collections::HashSet;

use crate::{PortRef, check::Checker, load::places::PortPlaces, suggest};

impl Checker<'_> {
    pub(super) fn watched(&mut self) {
        let nothing = PortPlaces::default();
        let (graph, places) = (self.graph, self.places);
        for (number, budget) in graph.budgets.iter().enumerate() {
            let (from, to) =
                places.budgets.get(number).map_or((&nothing, &nothing), |(from, to)| (from, to));
            self.any_port(&budget.from, from);
            self.any_port(&budget.to, to);
        }
        let Some(interrupt) = &graph.interrupt else { return };
        let (on, cancels) = &places.interrupt;
        if !on.reported
            && let Some(node) = self.find_node(&interrupt.on.node, on.node.as_ref())
        {
            let output = self.output_port(node, &interrupt.on.port, on);
            self.interrupt = output.map(|output| (node, output.name));
        }
        for (number, name) in interrupt.cancels.iter().enumerate() {
            let place = cancels.get(number);
            if self.find_node(name, place).is_some() && *name == interrupt.on.node {
                let message = format!("node \"{name}\" interrupts and is cancelled by it");
                let help =
                    "its packet would make itself obsolete; take the node out of \"cancels\"";
                self.error(place, message, Some(help.to_owned()));
            }
        }
    }

    /// A port of a budget: an output, or an input.
    fn any_port(&mut self, port: &PortRef, places: &PortPlaces) {
        if places.reported {
            return;
        }
        let Some(node) = self.find_node(&port.node, places.node.as_ref()) else { return };
        let Some(def) = self.defs[node] else { return };
        let outputs = def.outputs().any(|output| output.name == port.port);
        let inputs = def.inputs().any(|input| input.name == port.port);
        let only = port.port.is_empty() && def.ports.len() == 1;
        if outputs || only {
            self.used_outputs.extend(def.outputs().map(|output| (node, output.name)));
        } else if !inputs {
            let mut names: Vec<_> = def.ports.iter().map(|port| port.name).collect();
            let mut seen = HashSet::new();
            names.retain(|name| seen.insert(*name));
            let help = suggest::help(
                &self.faults,
                &port.port,
                names,
                &format!("the ports of {}", def.name),
            );
            let message = match port.port.as_str() {
                "" => format!("\"{}\" does not say which port", port.node),
                name => format!("unknown port \"{name}\" of node \"{}\"", port.node),
            };
            self.error(places.port.as_ref(), message, help);
            self.doubtful_outputs.insert(node);
        }
    }
}
