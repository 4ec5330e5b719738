//! Layout of boxes and arrows in columns: each node is right of its senders.
//!
//! An arrow that crosses columns gets a slot in each of them, so it runs between the boxes.

use crate::{CheckedGraph, draw::Words};

/// Width of a small character, in pixels.
const CHAR: f64 = 6.2;
/// Vertical distance of parallel arrows, in pixels.
const ARROW: f64 = 18.0;
/// Margin of the drawing and between boxes, in pixels.
const SPACE: f64 = 24.0;

/// A box.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Rect {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

/// Positions of boxes and arrows.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    pub(crate) width: f64,
    pub(crate) height: f64,
    /// Box of each node.
    pub(crate) boxes: Vec<Rect>,
    /// Points of each edge, curved from the first to the second, straight to the third, and so on.
    pub(crate) arrows: Vec<Vec<(f64, f64)>>,
}

/// Slot of a column: a node, or an edge that crosses it.
struct Slot {
    node: Option<usize>,
    /// Slots of the previous column that lead here.
    before: Vec<usize>,
    rect: Rect,
}

/// Lays out `graph`; `label_chars` is the length of the longest label of an arrow.
pub(crate) fn layout(graph: &CheckedGraph, words: &Words, label_chars: usize) -> Layout {
    let columns = columns(graph);
    let count = columns.iter().max().map_or(0, |last| last + 1);
    let mut slots: Vec<Slot> = Vec::new();
    let mut order: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (node, column) in columns.iter().enumerate() {
        order[*column].push(slots.len());
        slots.push(Slot {
            node: Some(node),
            before: Vec::new(),
            rect: size(graph, node, &words.nodes[node]),
        });
    }
    let routes: Vec<Vec<usize>> = graph
        .edges
        .iter()
        .map(|edge| {
            let (from, to) = (edge.from.0, edge.to.0);
            let mut route = vec![from];
            for column in order.iter_mut().take(columns[to]).skip(columns[from] + 1) {
                column.push(slots.len());
                route.push(slots.len());
                let rect = Rect { height: ARROW, ..Rect::default() };
                slots.push(Slot { node: None, before: Vec::new(), rect });
            }
            route.push(to);
            for pair in route.windows(2).filter(|_| !edge.feedback) {
                slots[pair[1]].before.push(pair[0]);
            }
            route
        })
        .collect();
    let gap = label_chars as f64 * CHAR + 2.0 * SPACE;
    let mut layout = assign_positions(&mut slots, &mut order, gap);
    layout.boxes = slots.iter().filter(|slot| slot.node.is_some()).map(|slot| slot.rect).collect();
    layout.arrows = arrows(graph, &routes, &slots);
    layout
}

/// Column of each node: one right of its last sender.
fn columns(graph: &CheckedGraph) -> Vec<usize> {
    let mut columns = vec![0; graph.nodes.len()];
    // Without cycles, this is stable after as many rounds as there are nodes.
    for _ in 0..graph.nodes.len() {
        let mut settled = true;
        for edge in graph.edges.iter().filter(|edge| !edge.feedback) {
            let least = columns[edge.from.0] + 1;
            if columns[edge.to.0] < least && least < graph.nodes.len() {
                columns[edge.to.0] = least;
                settled = false;
            }
        }
        if settled {
            break;
        }
    }
    columns
}

fn size(graph: &CheckedGraph, node: usize, lines: &[String]) -> Rect {
    let incoming = graph.edges.iter().filter(|edge| edge.to.0 == node).count();
    let outgoing = graph.edges.iter().filter(|edge| edge.from.0 == node).count();
    // The name has a larger font than the lines below.
    let widths = lines
        .iter()
        .enumerate()
        .map(|(number, line)| line.chars().count() as f64 * if number == 0 { 8.0 } else { CHAR });
    let width = widths.fold(56.0, f64::max) + 24.0;
    let text = lines.len() as f64 * 16.0 + 14.0;
    let height = (incoming.max(outgoing) as f64 * ARROW + 10.0).max(text);
    Rect { width, height, ..Rect::default() }
}

/// Orders the slots of each column by their predecessors, and assigns positions.
fn assign_positions(slots: &mut [Slot], order: &mut [Vec<usize>], gap: f64) -> Layout {
    let mut x = SPACE;
    for column in order.iter_mut() {
        let middle = |slot: usize| {
            let before = &slots[slot].before;
            let ys = before.iter().map(|slot| slots[*slot].rect.y + slots[*slot].rect.height / 2.0);
            ys.sum::<f64>() / before.len().max(1) as f64
        };
        column.sort_by(|a, b| middle(*a).total_cmp(&middle(*b)));
        let width = column.iter().map(|slot| slots[*slot].rect.width).fold(0.0, f64::max);
        let height = column.iter().map(|slot| slots[*slot].rect.height + SPACE).sum::<f64>();
        // Centered around y = 0 until the height of the drawing is known.
        let mut y = (SPACE - height) / 2.0;
        for slot in column {
            let rect = &mut slots[*slot].rect;
            (rect.x, rect.y, rect.width) = (x, y, width);
            y += rect.height + SPACE;
        }
        x += width + gap;
    }
    let least = slots.iter().map(|slot| slot.rect.y).fold(0.0, f64::min);
    let most = slots.iter().map(|slot| slot.rect.y + slot.rect.height).fold(0.0, f64::max);
    for slot in slots.iter_mut() {
        slot.rect.y += SPACE - least;
    }
    let width = if slots.is_empty() { 2.0 * SPACE } else { x - gap + SPACE };
    Layout { width, height: most - least + 2.0 * SPACE, ..Layout::default() }
}

/// Points of each edge. Edges at one side of a box are spread from top to bottom.
fn arrows(graph: &CheckedGraph, routes: &[Vec<usize>], slots: &[Slot]) -> Vec<Vec<(f64, f64)>> {
    let spread = |edge: usize, at_start: bool| {
        let end =
            |edge: usize| if at_start { graph.edges[edge].from.0 } else { graph.edges[edge].to.0 };
        // The neighboring slot of the route decides the vertical order.
        let near = |edge: usize| {
            let route = &routes[edge];
            let near = if at_start { route[1] } else { route[route.len() - 2] };
            slots[near].rect.y
        };
        let mut beside: Vec<_> =
            (0..routes.len()).filter(|other| end(*other) == end(edge)).collect();
        beside.sort_by(|a, b| near(*a).total_cmp(&near(*b)));
        let at = beside.iter().position(|other| *other == edge).unwrap_or(0);
        let rect = slots[end(edge)].rect;
        rect.y + rect.height * (at as f64 + 1.0) / (beside.len() as f64 + 1.0)
    };
    let points = |(edge, route): (usize, &Vec<usize>)| {
        let (first, last) = (slots[route[0]].rect, slots[route[route.len() - 1]].rect);
        let mut points = vec![(first.x + first.width, spread(edge, true))];
        for slot in &route[1..route.len() - 1] {
            let rect = slots[*slot].rect;
            let y = rect.y + rect.height / 2.0;
            points.extend([(rect.x, y), (rect.x + rect.width, y)]);
        }
        points.push((last.x, spread(edge, false)));
        points
    };
    routes.iter().enumerate().map(points).collect()
}
