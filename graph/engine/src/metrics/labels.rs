//! Figures of a run as labels of a drawing.

use std::fmt::Write;

use afferent_graph::PortKind;
use afferent_spec::{CheckedGraph, Labels};

use crate::{EdgeReport, NodeReport, Report, metrics::summary::duration_text};

impl Report {
    /// Labels for [`draw`](afferent_spec::draw) from the figures of this run.
    pub fn labels(&self, graph: &CheckedGraph) -> Labels {
        let nodes = graph.nodes.iter().map(|node| Some(node_figures(self, self.node(&node.name)?)));
        let edges = graph.edges.iter().map(|edge| {
            let from = graph.port_name(edge.from, PortKind::Output);
            let to = graph.port_name(edge.to, PortKind::Input);
            self.edge(&from, &to).map(edge_figures)
        });
        Labels { nodes: nodes.collect(), edges: edges.collect() }
    }
}

fn node_figures(report: &Report, node: &NodeReport) -> String {
    let share = 100.0 * node.busy_ns as f64 / report.wall_ns.max(1) as f64;
    let mut text = format!("{share:.1} % busy, call {}", duration_text(node.call.p50_ns));
    if node.restarts + node.errors > 0 {
        let _ = write!(text, ", {} errors, {} restarts", node.errors, node.restarts);
    }
    text
}

fn edge_figures(edge: &EdgeReport) -> String {
    let dropped = edge.counts.dropped();
    match dropped {
        0 => format!("{:.1}/s", edge.rate_hz),
        _ => format!("{:.1}/s, {dropped} dropped", edge.rate_hz),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EdgeCounts;

    #[test]
    fn labels_say_load_rate_and_drops() {
        let node = NodeReport { name: "vad".into(), busy_ns: 250_000, ..NodeReport::default() };
        let json = serde_json::json!({
            "graph": "sound", "end": "complete", "wall_ns": 1_000_000, "media_ns": 0, "busy_ns": 0,
            "real_time_factor": null, "wall_per_media": null, "nodes": [], "edges": [],
            "paths": [], "pools": [], "budgets": [], "failures": [],
        });
        let report: Report = serde_json::from_value(json).unwrap();
        assert_eq!(node_figures(&report, &node), "25.0 % busy, call -");
        let counts = EdgeCounts { dropped_full: 3, ..EdgeCounts::default() };
        let edge = EdgeReport { rate_hz: 50.0, counts, ..EdgeReport::default() };
        assert_eq!(edge_figures(&edge), "50.0/s, 3 dropped");
    }
}
