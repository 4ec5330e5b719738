//! Nodes within their machines and processes, for formats that nest blocks of text.

use crate::CheckedGraph;

/// A line of the outline of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line<'g> {
    /// Start of a machine or a named process.
    Open(&'g str),
    /// A node, by its index.
    Node(usize),
    /// End of the machine or process.
    Close,
}

/// Outline of `graph`, each line with its depth. Nodes of the main process of a graph without
/// machines are outside of all blocks.
pub(crate) fn outline(graph: &CheckedGraph) -> Vec<(usize, Line<'_>)> {
    if graph.machines.is_empty() {
        return machine(graph, 0, 0);
    }
    let machines = graph.machines.iter().enumerate();
    let blocks = machines.map(|(index, found)| block(&found.name, 0, machine(graph, index, 1)));
    blocks.flatten().collect()
}

/// Nodes of the main process of a machine, then its named processes.
fn machine(graph: &CheckedGraph, machine: usize, depth: usize) -> Vec<(usize, Line<'_>)> {
    let partitions = graph.partitions.iter().enumerate();
    let inside = partitions.filter(move |(_, partition)| partition.machine == machine);
    let lines = inside.flat_map(|(index, partition)| match &partition.process {
        None => nodes(graph, index, depth),
        Some(process) => block(process, depth, nodes(graph, index, depth + 1)),
    });
    lines.collect()
}

fn nodes(graph: &CheckedGraph, partition: usize, depth: usize) -> Vec<(usize, Line<'_>)> {
    let nodes = 0..graph.nodes.len();
    let nodes = nodes.filter(|node| graph.partition_of(*node) == partition);
    nodes.map(|node| (depth, Line::Node(node))).collect()
}

/// Encloses `lines`, unless there are none.
fn block<'g>(name: &'g str, depth: usize, lines: Vec<(usize, Line<'g>)>) -> Vec<(usize, Line<'g>)> {
    if lines.is_empty() {
        return lines;
    }
    let open = std::iter::once((depth, Line::Open(name)));
    open.chain(lines).chain([(depth, Line::Close)]).collect()
}
