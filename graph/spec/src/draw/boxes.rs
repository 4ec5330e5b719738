//! Sizes of boxes, and the ports on their upper and lower sides.

use std::collections::BTreeMap;

use afferent_graph::PortKind;

use crate::{
    CheckedGraph,
    draw::{
        Words,
        layers::{Layers, Net},
        order::{Item, Order},
        text::{NAME_SIZE, SIZE, bold_width, width, wrap},
    },
};

/// Distance from a line to its label, in pixels.
pub(crate) const LABEL_GAP: f64 = 5.0;
/// Distance from a label to the next line, in pixels.
const PORT_GAP: f64 = 18.0;
/// Least distance of two lines at a side of a box, in pixels.
const PORT_MIN: f64 = 26.0;
/// Distance of two lines of the same output, in pixels.
const TWIN: f64 = 12.0;
/// Distance from the outermost line or text to the corner of a box, in pixels.
const PADDING: f64 = 12.0;
/// Free space at each side of a box, in pixels.
const SIDE: f64 = 8.0;
/// Longest line of the figures of a node and of an edge, in characters.
const NODE_CHARS: usize = 26;
const EDGE_CHARS: usize = 14;

/// Text of a node, its inputs and its outputs.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    /// Name, kind and figures of each node.
    pub(crate) nodes: Vec<Vec<String>>,
    /// Input port and figures of each edge.
    pub(crate) inputs: Vec<Vec<String>>,
    /// Output port and payload type of each edge.
    pub(crate) outputs: Vec<Vec<String>>,
}

impl Texts {
    pub(crate) fn new(graph: &CheckedGraph, words: &Words) -> Self {
        let figures = |lines: &[String], limit: usize| -> Vec<String> {
            lines.iter().skip(2).flat_map(|text| wrap(text, limit)).collect()
        };
        let nodes = words
            .nodes
            .iter()
            .map(|lines| lines.iter().take(2).cloned().chain(figures(lines, NODE_CHARS)).collect());
        let inputs = graph.edges.iter().zip(&words.edges).map(|(edge, lines)| {
            let node = graph.nodes.get(edge.to.0);
            let port = node.map(|node| node.def.port_name(PortKind::Input, edge.to.1).to_string());
            port.into_iter().chain(figures(lines, EDGE_CHARS)).collect()
        });
        let outputs = words.edges.iter().map(|lines| lines.iter().take(2).cloned().collect());
        Self { nodes: nodes.collect(), inputs: inputs.collect(), outputs: outputs.collect() }
    }
}

/// A box without its position: distances from its center, in pixels.
#[derive(Debug, Default)]
pub(crate) struct NodeBox {
    /// Half of the width.
    pub(crate) half: f64,
    /// Reserved space, which labels need too.
    pub(crate) left: f64,
    pub(crate) right: f64,
    /// Edges that end here, from left to right, each with its offset.
    pub(crate) inputs: Vec<(usize, f64)>,
    /// Nets that start here, from left to right, each with its offset.
    pub(crate) outputs: Vec<(usize, f64)>,
}

/// Width of a label of several lines.
fn label_width(lines: &[String]) -> f64 {
    lines.iter().map(|line| width(line, SIZE)).fold(0.0, f64::max) + LABEL_GAP
}

/// Largest width that a box and its labels need, in any order of its ports.
pub(crate) fn widest(graph: &CheckedGraph, texts: &Texts) -> Vec<f64> {
    let nodes = texts.nodes.iter().enumerate().map(|(node, lines)| {
        let inputs = graph.edges.iter().zip(&texts.inputs).filter(|(edge, _)| edge.to.0 == node);
        let inputs = inputs.map(|(_, lines)| (label_width(lines) + PORT_GAP).max(PORT_MIN));
        let outputs = graph.edges.iter().zip(&texts.outputs);
        let outputs: BTreeMap<_, _> = outputs
            .filter(|(edge, _)| edge.from.0 == node)
            .map(|(edge, lines)| {
                (edge.from.1.index(), (label_width(lines) + PORT_GAP).max(PORT_MIN) + TWIN)
            })
            .collect();
        let ports = inputs.sum::<f64>().max(outputs.values().sum());
        let text = text_width(lines);
        text.max(text / 2.0 + ports) + 2.0 * PADDING + 3.0 * SIDE
    });
    nodes.collect()
}

fn text_width(lines: &[String]) -> f64 {
    let widths = lines.iter().enumerate().map(|(number, line)| match number {
        0 => bold_width(line, NAME_SIZE),
        _ => width(line, SIZE),
    });
    widths.fold(56.0, f64::max)
}

/// Boxes of all nodes. Ports are in the order of the items that they lead to.
pub(crate) fn boxes(
    graph: &CheckedGraph,
    texts: &Texts,
    layers: &Layers,
    order: &Order,
) -> Vec<NodeBox> {
    let mut outputs = vec![Vec::new(); graph.nodes.len()];
    for (node, sorted) in outputs.iter_mut().enumerate() {
        *sorted = sorted_outputs(layers, order, node);
    }
    let mut boxes = Vec::new();
    for (node, lines) in texts.nodes.iter().enumerate() {
        let inputs = sorted_inputs(graph, layers, order, &outputs, node);
        let inputs = inputs.into_iter().map(|edge| (edge, label_width(&texts.inputs[edge])));
        let mut starts: Vec<(usize, f64)> = Vec::new();
        for (at, net) in outputs[node].iter().enumerate() {
            let port = |net: usize| layers.nets[net].port;
            let twin = outputs[node].get(at + 1).is_some_and(|next| port(*next) == port(*net));
            let label = layers.nets[*net].edges.first().map(|edge| &texts.outputs[*edge]);
            starts.push((*net, if twin { 0.0 } else { label.map_or(0.0, |l| label_width(l)) }));
        }
        boxes.push(node_box(text_width(lines), inputs.collect(), starts));
    }
    boxes
}

/// Nets of a node by the mean position of their next items. Nets of one output are adjacent, the
/// one that leads upward on the right.
fn sorted_outputs(layers: &Layers, order: &Order, node: usize) -> Vec<usize> {
    let nets = layers.nets.iter().enumerate().filter(|(_, net)| net.from == node);
    let mean = |port: &Net| {
        let twins = layers.nets.iter().enumerate();
        let twins = twins.filter(|(_, net)| net.from == node && net.port == port.port);
        let twins: Vec<usize> = twins.map(|(index, _)| index).collect();
        let links = order.links.iter().flatten();
        let ends = links
            .filter(|link| link.upper == node && twins.contains(&link.net))
            .map(|link| order.position[link.lower] as f64);
        let ends: Vec<f64> = ends.collect();
        match ends.len() {
            0 => f64::INFINITY,
            count => ends.iter().sum::<f64>() / count as f64,
        }
    };
    let mut nets: Vec<_> =
        nets.map(|(index, net)| (mean(net), net.port.index(), net.back, index)).collect();
    nets.sort_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    nets.into_iter().map(|(.., index)| index).collect()
}

/// Edges to a node by the position of the items that they come from; those of the side last.
fn sorted_inputs(
    graph: &CheckedGraph,
    layers: &Layers,
    order: &Order,
    outputs: &[Vec<usize>],
    node: usize,
) -> Vec<usize> {
    let links = order.links.get(layers.of_node[node]).into_iter().flatten();
    let links = links.filter(|link| link.lower == node);
    let mut edges: Vec<_> = links
        .filter_map(|link| {
            let at = match order.items[link.upper] {
                Item::Node(upper) => outputs[upper].iter().position(|net| *net == link.net),
                Item::Pass(_) => None,
            };
            Some((order.position[link.upper], at.unwrap_or(0), link.edge?))
        })
        .collect();
    edges.sort_unstable();
    let back = layers.nets.iter().filter(|net| net.back).flat_map(|net| &net.edges);
    let back = back.filter(|edge| graph.edges[**edge].to.0 == node);
    edges.into_iter().map(|(.., edge)| edge).chain(back.copied()).collect()
}

/// Box whose ports are spread around its center.
fn node_box(text: f64, inputs: Vec<(usize, f64)>, outputs: Vec<(usize, f64)>) -> NodeBox {
    let mut found = NodeBox { half: text / 2.0 + PADDING, ..NodeBox::default() };
    let mut overhang: f64 = 0.0;
    let mut spread = |ports: Vec<(usize, f64)>| {
        let mut x = 0.0;
        let mut offsets = Vec::new();
        for (index, label) in &ports {
            offsets.push((*index, x));
            x += if *label == 0.0 { TWIN } else { (label + PORT_GAP).max(PORT_MIN) };
        }
        let span = offsets.last().map_or(0.0, |(_, x)| *x);
        let last = ports.last().map_or(0.0, |(_, label)| *label);
        overhang = overhang.max(span / 2.0 + last);
        found.half = found.half.max(span / 2.0 + PADDING);
        offsets.into_iter().map(|(index, x)| (index, x - span / 2.0)).collect()
    };
    let (inputs, outputs) = (spread(inputs), spread(outputs));
    let (left, right) = (found.half + SIDE, found.half.max(overhang) + SIDE);
    NodeBox { left, right, inputs, outputs, ..found }
}
