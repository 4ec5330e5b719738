//! Checks of the whole graph: cycles, sources, nodes without input or effect.

use std::collections::HashSet;

use crate::{Diagnostic, check::Checker};

impl Checker<'_> {
    pub(super) fn flow(&mut self) {
        let cycles = self.cycles();
        for cycle in &cycles {
            self.report_cycle(cycle);
        }
        let all_known = self.defs.iter().all(Option::is_some) && !self.defs.is_empty();
        if all_known && cycles.is_empty() && !self.defs.iter().flatten().any(|def| def.is_source())
        {
            let message = "the graph has no source: none of its nodes makes packets of its own";
            self.error(self.locations.nodes_key.as_ref(), message.to_owned(), None);
        }
        self.idle_nodes();
        for (node, spec) in self.graph.nodes.iter().enumerate() {
            if !spec.inputs.is_empty() && spec.inputs.iter().all(|input| input.feedback) {
                let message = format!("node \"{}\" has no input but \"feedback\"", spec.name);
                let help = "nothing would tell it that the graph ends: leave out one \"feedback\"";
                self.error(self.name_location(node), message, Some(help.to_owned()));
            }
        }
    }

    /// Disjoint cycles, each as its nodes, starting with the first one in the file.
    fn cycles(&self) -> Vec<Vec<usize>> {
        let mut followers = vec![Vec::new(); self.graph.nodes.len()];
        for (from, to, _) in &self.links {
            followers[*from].push(*to);
        }
        let mut cycles: Vec<Vec<usize>> = Vec::new();
        let mut in_cycle: HashSet<usize> = HashSet::new();
        let mut visited = vec![false; followers.len()];
        // Path of the search, each node with the index of its next successor.
        let mut path: Vec<(usize, usize)> = Vec::new();
        let mut index_in_path = vec![None; followers.len()];
        for start in 0..followers.len() {
            if !std::mem::replace(&mut visited[start], true) {
                index_in_path[start] = Some(0);
                path.push((start, 0));
            }
            while let Some((node, next)) = path.last_mut() {
                let Some(&follower) = followers[*node].get(*next) else {
                    index_in_path[*node] = None;
                    path.pop();
                    continue;
                };
                *next += 1;
                if let Some(first) = index_in_path[follower] {
                    let cycle: Vec<_> = path[first..].iter().map(|(node, _)| *node).collect();
                    if !cycle.iter().any(|node| in_cycle.contains(node)) {
                        in_cycle.extend(&cycle);
                        cycles.push(cycle);
                    }
                } else if !std::mem::replace(&mut visited[follower], true) {
                    index_in_path[follower] = Some(path.len());
                    path.push((follower, 0));
                }
            }
        }
        for cycle in &mut cycles {
            let first = cycle.iter().min().and_then(|least| cycle.iter().position(|n| n == least));
            cycle.rotate_left(first.unwrap_or(0));
        }
        cycles
    }

    fn report_cycle(&mut self, cycle: &[usize]) {
        let (Some(first), Some(last)) = (cycle.first(), cycle.last()) else { return };
        let names = cycle.iter().chain([first]).map(|node| self.graph.nodes[*node].name.as_str());
        let message = format!("the graph has a cycle: {}", names.collect::<Vec<_>>().join(" → "));
        let closing = self.links.iter().find(|(from, to, _)| (from, to) == (last, first));
        let location = closing.and_then(|(_, _, location)| location.clone());
        let help = "packets flow one way; a stream that leads back is written \
                    {from: node.port, feedback: true}";
        self.error(location.as_ref(), message, Some(help.to_owned()));
    }

    /// Warns about nodes without packets and about nodes whose outputs are all unused; skipped if
    /// an end of a stream is unknown.
    fn idle_nodes(&mut self) {
        if !self.doubtful_inputs.is_empty() || !self.doubtful_outputs.is_empty() {
            return;
        }
        for (node, def) in self.defs.iter().enumerate() {
            let Some(def) = def else { continue };
            let name = &self.graph.nodes[node].name;
            let location = self.name_location(node);
            if !def.is_source() && !self.fed.contains(&node) {
                let message = format!("node \"{name}\" receives nothing: no input is connected");
                self.faults.push(Diagnostic::warning(location, message));
            }
            let of_use = def
                .outputs
                .iter()
                .any(|output| output.optional || self.used_outputs.contains(&(node, output.id)));
            if !def.outputs.is_empty() && !of_use {
                let outputs =
                    def.outputs.iter().map(|output| format!("\"{name}.{}\"", output.name));
                let outputs = outputs.collect::<Vec<_>>().join(", ");
                let (noun, verb) =
                    if def.outputs.len() == 1 { ("output", "is") } else { ("outputs", "are") };
                let message = format!("{noun} {outputs} of node \"{name}\" {verb} not connected");
                self.faults.push(Diagnostic::warning(location, message));
            }
        }
    }
}
