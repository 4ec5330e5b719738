//! How many values of an output can be under way.

use std::sync::Arc;

use afferent_graph::{PortId, PortKind};

use crate::Observer;
use afferent_spec::CheckedGraph;

/// The memory of the values of one output, as far as it is known before the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolPlan {
    /// Place of the node in [`CheckedGraph::nodes`], and the name of its output.
    pub output: (usize, PortId),
    /// Payload type.
    pub ty: Arc<str>,
    /// How many values can be under way: in the queues behind the output, in the nodes that they
    /// lead to, and the one that is being made.
    pub values: usize,
}

/// The pools of every output of `graph`, when nobody looks on who holds packets.
///
/// A node may pass on a value that it received, so everything behind an output counts.
pub fn pools(graph: &CheckedGraph) -> Vec<PoolPlan> {
    let outputs = graph.nodes.iter().enumerate().flat_map(|(node_index, node)| {
        node.def.outputs.iter().map(move |port| ((node_index, port.id), port.ty.clone()))
    });
    outputs
        .map(|(output, ty)| PoolPlan { output, ty, values: values(graph, output, &[]) })
        .collect()
}

/// How many values of `output` can be under way, with those that `observers` hold.
pub(crate) fn values(
    graph: &CheckedGraph,
    output: (usize, PortId),
    observers: &[Arc<dyn Observer>],
) -> usize {
    let mut seen = vec![false; graph.nodes.len()];
    // The one that is being made, and the one that may stand in for a call that fails.
    let mut values = 2;
    let mut ahead: Vec<_> = graph.edges.iter().filter(|edge| edge.from == output).collect();
    let mut next = 0;
    while let Some(edge) = ahead.get(next).copied() {
        next += 1;
        // What waits in the queue, and what a node keeps that joins streams.
        let receiver = edge.to.0;
        let joins = graph.edges.iter().any(|other| other.to.0 == receiver && other.sync.is_some());
        values += edge.policy.queue.saturating_add(if joins { edge.kept() } else { 0 });
        if !std::mem::replace(&mut seen[receiver], true) {
            // The packet of its call, and what it sends for it.
            values += 2;
            ahead.extend(graph.edges.iter().filter(|edge| edge.from.0 == receiver));
        }
    }
    // A value is held once by each observer, whichever node passes it on.
    let passing = (0..seen.len()).filter(|node_index| seen[*node_index]);
    let ports = |node_index: usize| {
        graph.nodes[node_index].def.outputs.iter().map(move |port| (node_index, port.id))
    };
    let outputs: Vec<_> = passing.flat_map(ports).chain([output]).collect();
    let held = observers.iter().map(|observer| {
        let held = outputs.iter().map(|(node_index, port)| {
            let node = &graph.nodes[*node_index];
            observer.holds(&node.name, &node.def.port_name(PortKind::Output, *port))
        });
        held.max().unwrap_or(0)
    });
    held.fold(values, usize::saturating_add)
}
