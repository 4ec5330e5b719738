//! Reads `budget`, `waterfall` and `interrupt`.

use crate::{
    Budget, Graph, Interrupt, PortRef,
    load::{
        locations::{Locations, PortLocations},
        reader::Reader,
    },
    yaml::{Node, Value},
};

/// Limits of a budget.
const LIMITS: [&str; 4] = ["p50", "p95", "p99", "max"];

impl Reader {
    /// One budget, or a list of them.
    pub(crate) fn budgets(&mut self, node: &Node, graph: &mut Graph, locations: &mut Locations) {
        let items = match &node.value {
            Value::Seq(items) => items.as_slice(),
            _ => std::slice::from_ref(node),
        };
        for item in items {
            if let Some((budget, ports)) = self.budget(item) {
                graph.budgets.push(budget);
                locations.budgets.push(ports);
            }
        }
    }

    fn budget(&mut self, node: &Node) -> Option<(Budget, (PortLocations, PortLocations))> {
        let what = "\"budget\"";
        let map = self.map(node, what, "\"from\", \"to\" and a limit such as \"p95\"")?;
        let meant = self.keys(map, &["from", "to", "p50", "p95", "p99", "max"], what);
        let [p50, p95, p99, max] = LIMITS.map(|key| {
            let value = node.get(key)?;
            self.duration(value, &format!("\"{key}\" of {what}"))
        });
        if !LIMITS.iter().any(|key| node.get(key).is_some() || meant.contains(key)) {
            self.error(&node.location, format!("{what} has no limit: {}", LIMITS.join(", ")));
        }
        let (from, from_location) = self.end(node, "from", what, &meant);
        let (to, to_location) = self.end(node, "to", what, &meant);
        Some((Budget { from, to, p50, p95, p99, max }, (from_location, to_location)))
    }

    /// Outputs of the waterfall.
    pub(crate) fn waterfall(&mut self, node: &Node, graph: &mut Graph, locations: &mut Locations) {
        let Value::Seq(items) = &node.value else {
            self.wrong(node, "\"waterfall\"", "a list of outputs written \"node.port\"");
            return;
        };
        if items.len() < 2 {
            self.error(&node.location, "\"waterfall\" needs two outputs at least");
        }
        for item in items {
            if let Some((port, location)) = self.port(item, "an output of \"waterfall\"") {
                graph.waterfall.push(port);
                locations.waterfall.push(location);
            }
        }
    }

    /// Port at `key`.
    fn end(
        &mut self,
        node: &Node,
        key: &str,
        what: &str,
        meant: &[&str],
    ) -> (PortRef, PortLocations) {
        let read = match node.get(key) {
            Some(value) => self.port(value, &format!("\"{key}\" of {what}")),
            None => {
                if !meant.contains(&key) {
                    self.error(&node.location, format!("{what} has no \"{key}\""));
                }
                None
            }
        };
        let unread = PortLocations { reported: true, ..PortLocations::default() };
        read.unwrap_or((PortRef::default(), unread))
    }

    /// Reads the interrupt.
    pub(crate) fn interrupt(&mut self, node: &Node, graph: &mut Graph, locations: &mut Locations) {
        let what = "\"interrupt\"";
        let Some(map) = self.map(node, what, "\"on\" and \"cancels\"") else { return };
        let meant = self.keys(map, &["on", "cancels"], what);
        let (on, on_location) = self.end(node, "on", what, &meant);
        let mut interrupt = Interrupt { on, cancels: Vec::new() };
        locations.interrupt.0 = on_location;
        match node.get("cancels").map(|cancels| (cancels, &cancels.value)) {
            Some((list, Value::Seq(names))) => {
                if names.is_empty() {
                    self.error(&list.location, "\"cancels\" of \"interrupt\" names no node");
                }
                for name in names {
                    let text = self.text(name, "a node that \"interrupt\" cancels");
                    let Some(text) = text else { continue };
                    interrupt.cancels.push(text.to_owned());
                    locations.interrupt.1.push(name.location.clone());
                }
            }
            Some((other, _)) => {
                self.wrong(other, "\"cancels\" of \"interrupt\"", "a list of nodes")
            }
            None if meant.contains(&"cancels") => {}
            None => self.error(&node.location, format!("{what} has no \"cancels\"")),
        }
        graph.interrupt = Some(interrupt);
    }
}
