//! Layered layout (Sugiyama): boxes in layers from top to bottom, lines in channels between them.
//!
//! | step                                            | module     |
//! |-------------------------------------------------|------------|
//! | layers; edges that lead upward                  | `layers`   |
//! | columns and frames of partitions                | `columns`  |
//! | order within layers, with few crossings         | `order`    |
//! | sizes of boxes, order of their ports            | `boxes`    |
//! | horizontal positions                            | `position` |
//! | rows of the channels, lanes at the side         | `route`    |
//!
//! Labels are beside vertical lines, between a box and the rows of its channel. All lines outside
//! of the rows are vertical, so no line crosses a box and no label overlaps one.

use crate::{
    CheckedGraph,
    draw::{
        boxes::{LABEL_GAP, NodeBox, Texts, boxes, widest},
        columns::{Columns, Frame},
        layers::{Layers, Widths, layers},
        order::{Item, Order, order},
        position::{Placing, Pull},
        route::{Of, ROW, Routes, Xs},
        text::LINE,
    },
};

/// Width that the drawing has at most, unless one box needs more, in pixels.
pub(crate) const MAX_WIDTH: f64 = 1200.0;
/// Margin of the drawing, in pixels.
const MARGIN: f64 = 16.0;
/// Space of a net that passes a layer, at each side, in pixels.
const PASS: f64 = 9.0;
/// Weight of such a net relative to a node: straight lines come before centered boxes.
const PASS_WEIGHT: f64 = 8.0;
/// Space above and below the rows of a channel, in pixels.
const CHANNEL: f64 = 9.0;
/// Space for the head of an arrow, in pixels.
const HEAD: f64 = 10.0;

/// A box.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Rect {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

/// Lines of text beside an end of an edge.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Label {
    pub(crate) x: f64,
    /// Baseline of the first line.
    pub(crate) y: f64,
    pub(crate) lines: Vec<String>,
}

/// Positions of boxes, lines and labels.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    pub(crate) width: f64,
    pub(crate) height: f64,
    /// Box of each node.
    pub(crate) boxes: Vec<Rect>,
    /// Points of each edge, joined by horizontal and vertical lines.
    pub(crate) edges: Vec<Vec<(f64, f64)>>,
    /// True for each edge that leads upward.
    pub(crate) back: Vec<bool>,
    /// Labels of outputs, of nets in the order of their nodes.
    pub(crate) outputs: Vec<(usize, Label)>,
    /// Label at the end of each edge.
    pub(crate) inputs: Vec<Label>,
    /// Frames of machines and processes, each with its title.
    pub(crate) frames: Vec<(Rect, String)>,
}

/// Lays out `graph`.
pub(crate) fn layout(graph: &CheckedGraph, texts: &Texts) -> Layout {
    let columns = Columns::new(graph);
    let widths = Widths {
        nodes: widest(graph, texts),
        columns: (columns.of_node.clone(), columns.count),
        pass: 2.0 * PASS + 8.0,
        lane: ROW,
        limit: MAX_WIDTH - 2.0 * MARGIN - columns.fixed_width(),
    };
    let layers = layers(graph, &widths);
    let order = order(graph, &layers, &columns.of_node);
    let boxes = boxes(graph, texts, &layers, &order);
    let (mut xs, frames) = horizontal(graph, &layers, &order, (&columns, &boxes));
    let (left, right) = xs.bounds;
    let lanes = xs.assign_lanes(graph, &layers, right);
    xs.straighten(&order);
    let routes = Routes::new(graph, &layers, &order, &xs);
    let of = Of { graph, layers: &layers, order: &order, xs: &xs };
    let mut layout = vertical(of, texts, &boxes, (&routes, &columns, &frames));
    layout.width = right - left + ROW * lanes as f64 + 2.0 * MARGIN;
    layout.shift(MARGIN - left);
    layout
}

/// Horizontal positions, and the frames.
fn horizontal(
    graph: &CheckedGraph,
    layers: &Layers,
    order: &Order,
    (columns, boxes): (&Columns, &[NodeBox]),
) -> (Xs, Vec<Frame>) {
    let extents = order.items.iter().map(|item| match item {
        Item::Node(node) => (boxes[*node].left, boxes[*node].right),
        Item::Pass(_) => (PASS, PASS),
    });
    let mut extents: Vec<(f64, f64)> = extents.collect();
    columns.reserve_titles(layers, order, boxes, &mut extents);
    let weights = order.items.iter().map(|item| match item {
        Item::Node(_) => 1.0,
        Item::Pass(_) => PASS_WEIGHT,
    });
    let weights: Vec<f64> = weights.collect();
    let mut chains = vec![Vec::new(); layers.nets.len()];
    for (index, item) in order.items.iter().enumerate() {
        if let Item::Pass(net) = item {
            chains[*net].push(index);
        }
    }
    let port_offset = |ports: &[(usize, f64)], wanted: usize| {
        ports.iter().find(|(index, _)| *index == wanted).map_or(0.0, |(_, x)| *x)
    };
    let pulls: Vec<Vec<Pull>> = order
        .links
        .iter()
        .map(|links| {
            let pulls = links.iter().map(|link| {
                let upper =
                    boxes.get(link.upper).map_or(0.0, |b| port_offset(&b.outputs, link.net));
                let lower = boxes.get(link.lower).zip(link.edge);
                let lower = lower.map_or(0.0, |(b, edge)| port_offset(&b.inputs, edge));
                Pull { upper: link.upper, lower: link.lower, offset: upper - lower }
            });
            pulls.collect()
        })
        .collect();
    let placing = Placing {
        layers: &order.layers,
        extents: &extents,
        weights: &weights,
        pulls: &pulls,
        chains: &chains,
        columns: &order.columns,
        ranges: &columns.ranges(order, &extents, layers.width),
    };
    let items = placing.centers();
    let mut xs = Xs {
        starts: vec![0.0; layers.nets.len()],
        ends: vec![0.0; graph.edges.len()],
        ..Xs::default()
    };
    for (node_box, center) in boxes.iter().zip(&items) {
        node_box.outputs.iter().for_each(|(net, x)| xs.starts[*net] = center + x);
        node_box.inputs.iter().for_each(|(edge, x)| xs.ends[*edge] = center + x);
    }
    let left = items.iter().zip(&extents).map(|(x, extent)| x - extent.0);
    let right = items.iter().zip(&extents).map(|(x, extent)| x + extent.1);
    let frames = columns.frames(layers, order, &items, &extents);
    let left = left.chain(frames.iter().map(|frame| frame.left)).fold(f64::MAX, f64::min);
    let right = right.chain(frames.iter().map(|frame| frame.right)).fold(f64::MIN, f64::max);
    xs.bounds = if left > right { (0.0, 0.0) } else { (left, right) };
    xs.items = items;
    (xs, frames)
}

/// Vertical positions of boxes, rows and labels.
fn vertical(
    of: Of<'_>,
    texts: &Texts,
    boxes: &[NodeBox],
    (routes, columns, frames): (&Routes, &Columns, &[Frame]),
) -> Layout {
    let Of { graph, layers, xs, .. } = of;
    let tallest = |layer: usize, lines: &dyn Fn(usize) -> usize| {
        let nodes = (0..graph.nodes.len()).filter(|node| layers.of_node[*node] == layer);
        nodes.map(lines).max().unwrap_or(0) as f64
    };
    let inputs = |node: usize| {
        let edges = boxes[node].inputs.iter();
        edges.map(|(edge, _)| texts.inputs[*edge].len()).max().unwrap_or(0)
    };
    let outputs = |node: usize| if boxes[node].outputs.is_empty() { 0 } else { 2 };
    let lines = |node: usize| texts.nodes[node].len();
    let (mut tops, mut bottoms, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    // Ends of the labels above and below each layer.
    let (mut label_tops, mut label_bottoms) = (Vec::new(), Vec::new());
    let mut y = MARGIN;
    for (channel, count) in routes.counts.iter().enumerate() {
        let above = channel.checked_sub(1).map_or(0.0, |layer| tallest(layer, &outputs));
        let below = if channel < layers.count { tallest(channel, &inputs) } else { 0.0 };
        y += above * LINE + if above > 0.0 { 4.0 } else { 0.0 };
        if let Some(layer) = channel.checked_sub(1) {
            label_bottoms.push(y);
            y += columns.padding_height(frames, layer);
        }
        if *count > 0 {
            rows.push(y + CHANNEL);
            y += 2.0 * CHANNEL + ROW * (*count as f64 - 1.0);
        } else {
            rows.push(y);
        }
        y += columns.titles_height(frames, channel);
        label_tops.push(y);
        y += if below > 0.0 { below * LINE + HEAD } else { 0.0 };
        if channel < layers.count {
            tops.push(y);
            y += tallest(channel, &lines) * 15.0 + 13.0;
            bottoms.push(y);
        }
    }
    let rects = boxes.iter().enumerate().map(|(node, found)| {
        let layer = layers.of_node[node];
        let (x, y) = (xs.items[node] - found.half, tops[layer]);
        Rect { x, y, width: 2.0 * found.half, height: bottoms[layer] - y }
    });
    let mut layout = Layout {
        boxes: rects.collect(),
        edges: vec![Vec::new(); graph.edges.len()],
        back: vec![false; graph.edges.len()],
        height: y + MARGIN,
        ..Layout::default()
    };
    for (index, net) in layers.nets.iter().enumerate() {
        for edge in &net.edges {
            layout.edges[*edge] = routes.points(of, (index, *edge), [&rows, &bottoms, &tops]);
            layout.back[*edge] = net.back;
        }
    }
    layout.add_labels(of, texts, boxes);
    for (index, (frame, group)) in frames.iter().zip(&columns.groups).enumerate() {
        let (y, bottom) = columns.borders(frames, index, &label_tops, &label_bottoms);
        let (x, width, height) = (frame.left, frame.right - frame.left, bottom - y);
        layout.frames.push((Rect { x, y, width, height }, group.title.clone()));
    }
    layout
}

impl Layout {
    fn add_labels(&mut self, of: Of<'_>, texts: &Texts, boxes: &[NodeBox]) {
        let Of { graph, layers, xs, .. } = of;
        for (found, rect) in boxes.iter().zip(&self.boxes) {
            let port = |net: usize| layers.nets[net].port;
            for same in found.outputs.chunk_by(|a, b| port(a.0) == port(b.0)) {
                // The label is right of the last line of its output.
                let Some((net, _)) = same.last() else { continue };
                let Some(edge) = layers.nets[*net].edges.first() else { continue };
                let (x, y) = (xs.starts[*net] + LABEL_GAP, rect.y + rect.height + LINE);
                self.outputs.push((*edge, Label { x, y, lines: texts.outputs[*edge].clone() }));
            }
        }
        for (edge, lines) in texts.inputs.iter().enumerate() {
            let top = self.boxes[graph.edges[edge].to.0].y;
            let above = (lines.len() as f64 - 1.0) * LINE + HEAD - 3.0;
            let (x, y) = (xs.ends[edge] + LABEL_GAP, top - above);
            self.inputs.push(Label { x, y, lines: lines.clone() });
        }
    }

    /// Moves everything to the right.
    fn shift(&mut self, by: f64) {
        self.boxes.iter_mut().for_each(|rect| rect.x += by);
        self.frames.iter_mut().for_each(|(rect, _)| rect.x += by);
        self.edges.iter_mut().flatten().for_each(|point| point.0 += by);
        self.outputs.iter_mut().for_each(|(_, label)| label.x += by);
        self.inputs.iter_mut().for_each(|label| label.x += by);
    }
}
