//! Number of values of an output that can be in flight.

use std::sync::Arc;

use afferent_graph::{PortId, PortKind};

use crate::Observer;
use afferent_spec::CheckedGraph;

/// Pool of one output, as planned before the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolPlan {
    /// Index of the node in [`CheckedGraph::nodes`], and its output.
    pub output: (usize, PortId),
    /// Payload type.
    pub ty: Arc<str>,
    /// Values that can be in flight: in the queues downstream of the output, in the nodes that they
    /// lead to, and the one under construction.
    pub values: usize,
}

/// Pools of every output of `graph`, without observers that hold packets.
///
/// A node may forward a value that it received, so every edge downstream of an output counts.
pub fn pools(graph: &CheckedGraph) -> Vec<PoolPlan> {
    let outputs = graph.nodes.iter().enumerate().flat_map(|(node_index, node)| {
        node.def.outputs.iter().map(move |port| ((node_index, port.id), port.ty.clone()))
    });
    outputs
        .map(|(output, ty)| PoolPlan { output, ty, values: values(graph, output, &[]) })
        .collect()
}

/// Number of values of `output` that can be in flight, with those that `observers` hold.
pub(crate) fn values(
    graph: &CheckedGraph,
    output: (usize, PortId),
    observers: &[Arc<dyn Observer>],
) -> usize {
    let mut seen = vec![false; graph.nodes.len()];
    // The value under construction, and the one that replaces a failed call.
    let mut values = 2;
    let mut ahead: Vec<_> = graph.edges.iter().filter(|edge| edge.from == output).collect();
    let mut next = 0;
    while let Some(edge) = ahead.get(next).copied() {
        next += 1;
        // Packets in the queue, and those that a synchronizer keeps.
        let receiver = edge.to.0;
        let joins = graph.edges.iter().any(|other| other.to.0 == receiver && other.sync.is_some());
        values += edge.policy.queue.saturating_add(if joins { edge.kept() } else { 0 });
        if !std::mem::replace(&mut seen[receiver], true) {
            // The packet of its call, and the packet that it sends for it.
            values += 2;
            ahead.extend(graph.edges.iter().filter(|edge| edge.from.0 == receiver));
        }
    }
    // Each observer holds a value once, whichever node forwards it.
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
