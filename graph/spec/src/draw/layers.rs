//! Assignment of nodes to layers: each node is below its senders, except along back edges.

use std::collections::{BTreeMap, BTreeSet};

use afferent_graph::PortId;

use crate::CheckedGraph;

/// Rounds of the search for shorter edges.
const ROUNDS: usize = 8;

/// Edges of one output that share a route.
#[derive(Debug)]
pub(crate) struct Net {
    pub(crate) from: usize,
    pub(crate) port: PortId,
    /// True if it leads upward, along the side of the drawing: feedback, or the end of a cycle.
    pub(crate) back: bool,
    /// Indices in [`CheckedGraph::edges`].
    pub(crate) edges: Vec<usize>,
}

/// Layer of each node, and the routes between layers.
#[derive(Debug)]
pub(crate) struct Layers {
    pub(crate) of_node: Vec<usize>,
    pub(crate) count: usize,
    pub(crate) nets: Vec<Net>,
    /// Width of the layers, without the lanes of nets that lead upward, in pixels.
    pub(crate) width: f64,
}

impl Layers {
    /// Lowest layer that a net leads to.
    pub(crate) fn last(&self, graph: &CheckedGraph, net: &Net) -> usize {
        let to = net.edges.iter().map(|edge| self.of_node[graph.edges[*edge].to.0]);
        to.max().unwrap_or(0)
    }
}

/// Widths that decide how many nodes a layer holds, in pixels.
pub(crate) struct Widths {
    /// Space of each node.
    pub(crate) nodes: Vec<f64>,
    /// Column of each node, and number of columns.
    pub(crate) columns: (Vec<usize>, usize),
    /// Space of a net that passes a layer.
    pub(crate) pass: f64,
    /// Space of a net that leads upward at the side of the layers.
    pub(crate) lane: f64,
    /// Width of the drawing.
    pub(crate) limit: f64,
}

/// Assigns layers. A layer that exceeds the limit passes nodes on to the next one.
pub(crate) fn layers(graph: &CheckedGraph, widths: &Widths) -> Layers {
    let (order, back) = topological_order(graph);
    let nets = nets(graph, &back);
    let mut least = vec![0; graph.nodes.len()];
    let lanes = nets.iter().filter(|net| net.back).count() as f64;
    let width = widths.limit - widths.lane * lanes;
    let mut layers = Layers { of_node: Vec::new(), count: 0, nets, width };
    // Every round moves nodes down.
    for _ in 0..=4 * graph.nodes.len() {
        layers.of_node = longest_paths(graph, &order, &back, &least);
        shorten(graph, &mut layers, widths, (&order, &least));
        layers.count = layers.of_node.iter().max().map_or(0, |last| last + 1);
        let moved = overfull(graph, &layers, widths);
        if moved.is_empty() {
            break;
        }
        for node in moved {
            least[node] = layers.of_node[node] + 1;
        }
    }
    remove_empty(&mut layers);
    layers
}

/// Nodes from senders to receivers, and the edges that contradict this order.
fn topological_order(graph: &CheckedGraph) -> (Vec<usize>, Vec<bool>) {
    let mut back: Vec<bool> =
        graph.edges.iter().map(|edge| edge.feedback || edge.from.0 == edge.to.0).collect();
    let mut waits = vec![0usize; graph.nodes.len()];
    for (edge, _) in graph.edges.iter().zip(&back).filter(|(_, back)| !**back) {
        waits[edge.to.0] += 1;
    }
    let mut left: Vec<usize> = (0..graph.nodes.len()).collect();
    let mut order = Vec::new();
    while !left.is_empty() {
        // In a cycle, the first node of the file is on top.
        let at = left.iter().position(|node| waits[*node] == 0).unwrap_or(0);
        let node = left.remove(at);
        order.push(node);
        for (edge, back) in graph.edges.iter().zip(&mut back).filter(|(_, back)| !**back) {
            if edge.from.0 == node {
                waits[edge.to.0] = waits[edge.to.0].saturating_sub(1);
            } else if edge.to.0 == node && waits[node] > 0 {
                *back |= !order.contains(&edge.from.0);
            }
        }
        waits[node] = 0;
    }
    (order, back)
}

/// Groups edges by output and direction.
fn nets(graph: &CheckedGraph, back: &[bool]) -> Vec<Net> {
    let mut nets: BTreeMap<(usize, usize, bool), Net> = BTreeMap::new();
    for (index, (edge, back)) in graph.edges.iter().zip(back).enumerate() {
        let (from, port) = edge.from;
        let new = || Net { from, port, back: *back, edges: Vec::new() };
        let net = nets.entry((from, port.index(), *back)).or_insert_with(new);
        net.edges.push(index);
    }
    nets.into_values().collect()
}

fn longest_paths(
    graph: &CheckedGraph,
    order: &[usize],
    back: &[bool],
    least: &[usize],
) -> Vec<usize> {
    let mut layers = least.to_vec();
    for node in order {
        for (edge, _) in graph.edges.iter().zip(back).filter(|(_, back)| !**back) {
            if edge.from.0 == *node {
                let to = edge.to.0;
                layers[to] = layers[to].max(layers[*node] + 1);
            }
        }
    }
    layers
}

/// Moves single nodes between their neighbors while this shortens the nets.
fn shorten(
    graph: &CheckedGraph,
    layers: &mut Layers,
    widths: &Widths,
    (order, least): (&[usize], &[usize]),
) {
    let lowest = layers.of_node.iter().max().copied().unwrap_or(0);
    for _ in 0..ROUNDS {
        let before = layers.of_node.clone();
        for node in order.iter().rev() {
            let (mut low, mut high) = (least[*node], lowest);
            for net in layers.nets.iter().filter(|net| !net.back) {
                for to in net.edges.iter().map(|edge| graph.edges[*edge].to.0) {
                    if to == *node {
                        low = low.max(layers.of_node[net.from] + 1);
                    } else if net.from == *node {
                        high = high.min(layers.of_node[to].saturating_sub(1));
                    }
                }
            }
            let stays = layers.of_node[*node];
            // If several layers give the same length, a node takes the lowest one, so that its
            // senders can move down too. A sink takes the highest one.
            let is_sink = !layers.nets.iter().any(|net| net.from == *node && !net.back);
            let column = widths.columns.0[*node];
            let limit = column_limit(layers, widths, column);
            let has_space = |layer: &usize| {
                let same = layers.of_node.iter().zip(&widths.nodes).enumerate();
                let same = same.filter(|(other, (at, _))| {
                    other != node && *at == layer && widths.columns.0[*other] == column
                });
                *layer == stays
                    || same.map(|(_, (_, width))| width).sum::<f64>() + widths.nodes[*node] <= limit
            };
            let slots: Vec<usize> = (low..=high).filter(has_space).collect();
            let costs = slots.into_iter().map(|layer| {
                layers.of_node[*node] = layer;
                (total_length(graph, layers, *node), if is_sink { layer } else { high - layer })
            });
            let best = costs.min().map(|(_, rank)| if is_sink { rank } else { high - rank });
            layers.of_node[*node] = best.unwrap_or(stays);
        }
        if layers.of_node == before {
            break;
        }
    }
}

/// Closes gaps between used layers.
fn remove_empty(layers: &mut Layers) {
    let used: BTreeSet<usize> = layers.of_node.iter().copied().collect();
    for layer in &mut layers.of_node {
        *layer = used.range(..*layer).count();
    }
    layers.count = used.len();
}

/// Sum of the lengths of all nets of `node`, in layers.
fn total_length(graph: &CheckedGraph, layers: &Layers, node: usize) -> usize {
    let touches = |net: &&Net| {
        !net.back
            && (net.from == node || net.edges.iter().any(|edge| graph.edges[*edge].to.0 == node))
    };
    let nets = layers.nets.iter().filter(touches);
    nets.map(|net| layers.last(graph, net).saturating_sub(layers.of_node[net.from])).sum()
}

/// Width that a column may have: what the others leave, and its equal share at least.
fn column_limit(layers: &Layers, widths: &Widths, column: usize) -> f64 {
    let (columns, count) = &widths.columns;
    let mut used = BTreeMap::new();
    for ((layer, width), other) in layers.of_node.iter().zip(&widths.nodes).zip(columns) {
        if *other != column {
            *used.entry((*other, *layer)).or_insert(0.0) += *width;
        }
    }
    let mut widest = vec![0.0_f64; *count];
    used.into_iter().for_each(|((other, _), width)| widest[other] = widest[other].max(width));
    (layers.width - widest.iter().sum::<f64>()).max(layers.width / *count as f64)
}

/// Nodes to move out of the first layer that is too wide. One stays.
fn overfull(graph: &CheckedGraph, layers: &Layers, widths: &Widths) -> Vec<usize> {
    let is_sink = |node: &usize| !layers.nets.iter().any(|net| net.from == *node);
    let columns =
        (0..layers.count).flat_map(|layer| (0..widths.columns.1).map(move |c| (layer, c)));
    for (layer, column) in columns {
        let is_inside = |node: usize| widths.columns.0[node] == column;
        let nodes = (0..graph.nodes.len()).filter(|node| layers.of_node[*node] == layer);
        let mut members: Vec<usize> = nodes.filter(|node| is_inside(*node)).collect();
        let passes = layers.nets.iter().filter(|net| {
            let is_inside = !net.back && is_inside(net.from);
            is_inside && layers.of_node[net.from] < layer && layer < layers.last(graph, net)
        });
        let limit = column_limit(layers, widths, column);
        let mut width = members.iter().map(|node| widths.nodes[*node]).sum::<f64>()
            + passes.count() as f64 * widths.pass;
        let mut moved = Vec::new();
        while members.len() > 1 && width > limit {
            let at = members.iter().rposition(is_sink).unwrap_or(members.len() - 1);
            let node = members.remove(at);
            width -= widths.nodes[node];
            moved.push(node);
        }
        if !moved.is_empty() {
            return moved;
        }
    }
    Vec::new()
}
