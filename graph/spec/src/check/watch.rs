//! Checks of budgets, waterfall and interrupt.

use std::collections::HashSet;

use afferent_graph::PortKind;

use crate::{CheckedBudget, End, PortRef, check::Checker, load::locations::PortLocations, suggest};

impl Checker<'_> {
    pub(super) fn watched(&mut self) {
        let nothing = PortLocations::default();
        let (graph, locations) = (self.graph, self.locations);
        for (number, budget) in graph.budgets.iter().enumerate() {
            let (from, to) =
                locations.budgets.get(number).map_or((&nothing, &nothing), |(from, to)| (from, to));
            let ends = (self.any_port(&budget.from, from), self.any_port(&budget.to, to));
            if let (Some(from), Some(to)) = ends {
                let limits = [budget.p50, budget.p95, budget.p99, budget.max];
                self.budgets.push(CheckedBudget { from, to, limits });
            }
        }
        for (number, port) in graph.waterfall.iter().enumerate() {
            let location = locations.waterfall.get(number).unwrap_or(&nothing);
            if !location.reported
                && let Some(node) = self.find_node(&port.node, location.node.as_ref())
                && let Some(output) = self.output_port(node, &port.port, location)
            {
                self.waterfall.push((node, output.id));
            }
        }
        let Some(interrupt) = &graph.interrupt else { return };
        let (on, cancels) = &locations.interrupt;
        if !on.reported
            && let Some(node) = self.find_node(&interrupt.on.node, on.node.as_ref())
        {
            let output = self.output_port(node, &interrupt.on.port, on);
            self.interrupt = output.map(|output| (node, output.id));
        }
        for (number, name) in interrupt.cancels.iter().enumerate() {
            let location = cancels.get(number);
            if self.find_node(name, location).is_some() && *name == interrupt.on.node {
                let message = format!("node \"{name}\" interrupts and is canceled by it");
                let help =
                    "its packet would make itself obsolete; take the node out of \"cancels\"";
                self.error(location, message, Some(help.to_owned()));
            }
        }
    }

    /// Port of a budget: an output or an input.
    fn any_port(&mut self, port: &PortRef, locations: &PortLocations) -> Option<End> {
        if locations.reported {
            return None;
        }
        let node = self.find_node(&port.node, locations.node.as_ref())?;
        let def = self.defs[node]?;
        let all = || def.inputs.iter().chain(&def.outputs);
        let only = all().next().filter(|_| port.port.is_empty() && all().count() == 1);
        let named =
            || def.outputs.iter().chain(def.inputs.iter()).find(|found| *found.name == *port.port);
        let found = only.or_else(named);
        if let Some(found) = found {
            if found.kind == PortKind::Output {
                self.used_outputs.extend(def.outputs.iter().map(|output| (node, output.id)));
            }
        } else {
            let mut names: Vec<_> = all().map(|port| &*port.name).collect();
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
            self.error(locations.port.as_ref(), message, help);
            self.doubtful_outputs.insert(node);
        }
        found.map(|found| End { node, port: found.id, kind: found.kind })
    }
}
