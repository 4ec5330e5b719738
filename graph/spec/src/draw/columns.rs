//! Columns and frames of partitions. Each partition has a column of the layers, and the columns of a
//! machine are adjacent, so that a frame holds the nodes of its partition and no others.

use std::ops::Range;

use crate::{
    CheckedGraph,
    draw::{
        boxes::NodeBox,
        layers::Layers,
        order::{Item, Order},
        position::GAP,
        text::{SIZE, bold_width},
    },
};

/// Distance from a frame to its content, in pixels.
const PADDING: f64 = 8.0;
/// Distance of the columns, in pixels.
const COLUMN_GAP: f64 = 14.0;
/// Height of the title of a frame, in pixels.
const TITLE: f64 = 18.0;
/// Least distance from a title to the next line, in pixels.
const TITLE_GAP: f64 = 20.0;
/// Free space that makes lines straighter, for each column, in pixels.
const SLACK: f64 = 40.0;

/// A machine or a process with nodes.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) title: String,
    /// Columns of its nodes.
    columns: Range<usize>,
    /// True for a process, whose frame may be inside the frame of a machine.
    pub(crate) is_process: bool,
}

/// Columns of the layers, from left to right.
#[derive(Debug)]
pub(crate) struct Columns {
    /// Column of each node.
    pub(crate) of_node: Vec<usize>,
    pub(crate) count: usize,
    /// Machines, then processes.
    pub(crate) groups: Vec<Group>,
}

/// Horizontal borders of a frame, and its layers.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) left: f64,
    pub(crate) right: f64,
    first: usize,
    last: usize,
}

impl Columns {
    pub(crate) fn new(graph: &CheckedGraph) -> Self {
        let is_used = |partition: usize| {
            (0..graph.nodes.len()).any(|node| graph.partition_of(node) == partition)
        };
        let partitions = 0..graph.partitions.len().max(1);
        let mut used: Vec<usize> = partitions.filter(|partition| is_used(*partition)).collect();
        let machine = |partition: usize| graph.partitions.get(partition).map_or(0, |p| p.machine);
        used.sort_by_key(|partition| machine(*partition));
        let column = |node: usize| {
            let partition = graph.partition_of(node);
            used.iter().position(|used| *used == partition).unwrap_or(0)
        };
        let of_node = (0..graph.nodes.len()).map(column).collect();
        let mut groups = Vec::new();
        for (number, found) in graph.machines.iter().enumerate() {
            let inside = (0..used.len()).filter(|column| machine(used[*column]) == number);
            if let (Some(first), Some(last)) = (inside.clone().min(), inside.max()) {
                let (title, columns) = (found.name.clone(), first..last + 1);
                groups.push(Group { title, columns, is_process: false });
            }
        }
        for (column, partition) in used.iter().enumerate() {
            if let Some(process) = graph.partitions.get(*partition).and_then(|p| p.process.clone())
            {
                let columns = column..column + 1;
                groups.push(Group { title: process, columns, is_process: true });
            }
        }
        Self { of_node, count: used.len().max(1), groups }
    }

    /// Space of the frames left and right of a column, in pixels.
    fn padding(&self, column: usize) -> (f64, f64) {
        let starts = self.groups.iter().filter(|group| group.columns.start == column).count();
        let ends = self.groups.iter().filter(|group| group.columns.end == column + 1).count();
        (PADDING * starts as f64, PADDING * ends as f64)
    }

    /// Width that no node can use, in pixels.
    pub(crate) fn fixed_width(&self) -> f64 {
        let padding = (0..self.count).map(|column| self.padding(column));
        padding.map(|(left, right)| left + right).sum::<f64>()
            + COLUMN_GAP * (self.count as f64 - 1.0)
    }

    /// Widens the space of the leftmost node of each group, so that no line crosses its title.
    pub(crate) fn reserve_titles(
        &self,
        layers: &Layers,
        order: &Order,
        boxes: &[NodeBox],
        extents: &mut [(f64, f64)],
    ) {
        for group in &self.groups {
            let Some((first, _)) = self.layers_of(group, layers) else { continue };
            let is_inside = |item: &&usize| group.columns.contains(&order.columns[**item]);
            let leftmost = order.layers[first].iter().find(is_inside);
            let Some((item, Item::Node(node))) = leftmost.map(|item| (*item, order.items[*item]))
            else {
                continue;
            };
            let found = &boxes[node];
            let line = found.inputs.first().map_or(found.half, |(_, x)| *x);
            let title = bold_width(&group.title, SIZE) + TITLE_GAP;
            extents[item].0 = extents[item].0.max(title - line);
        }
    }

    /// Horizontal range of each column.
    pub(crate) fn ranges(
        &self,
        order: &Order,
        extents: &[(f64, f64)],
        width: f64,
    ) -> Vec<(f64, f64)> {
        let needed = |column: usize| {
            let layers = order.layers.iter().map(|layer| {
                let items = layer.iter().filter(|item| order.columns[**item] == column);
                let widths = items.map(|item| extents[*item].0 + extents[*item].1 + GAP);
                widths.sum::<f64>() - GAP
            });
            layers.fold(0.0, f64::max)
        };
        let needed: Vec<f64> = (0..self.count).map(needed).collect();
        let free = (width - needed.iter().sum::<f64>()).max(0.0) / self.count as f64;
        let slack = if self.count == 1 { free } else { free.min(SLACK) };
        let mut x = 0.0;
        let ranges = needed.iter().enumerate().map(|(column, needed)| {
            let (left, right) = self.padding(column);
            let range = (x + left, x + left + needed + slack);
            x = range.1 + right + COLUMN_GAP;
            range
        });
        ranges.collect()
    }

    /// First and last layer of a group.
    fn layers_of(&self, group: &Group, layers: &Layers) -> Option<(usize, usize)> {
        let nodes = self.of_node.iter().zip(&layers.of_node);
        let inside = nodes.filter(|(column, _)| group.columns.contains(column));
        let inside = inside.map(|(_, layer)| *layer);
        Some((inside.clone().min()?, inside.max()?))
    }

    /// Frame of each group.
    pub(crate) fn frames(
        &self,
        layers: &Layers,
        order: &Order,
        centers: &[f64],
        extents: &[(f64, f64)],
    ) -> Vec<Frame> {
        let frames = self.groups.iter().map(|group| {
            let (first, last) = self.layers_of(group, layers).unwrap_or_default();
            let (mut left, mut right) = (f64::MAX, f64::MIN);
            for item in order.layers.iter().take(last + 1).skip(first).flatten() {
                let column = order.columns[*item];
                if !group.columns.contains(&column) {
                    continue;
                }
                // A frame of a process inside needs its own padding.
                let is_framed = |other: &Group| other.is_process && other.columns.start == column;
                let inner = !group.is_process && self.groups.iter().any(is_framed);
                let padding = if inner { 2.0 * PADDING } else { PADDING };
                left = left.min(centers[*item] - extents[*item].0 - padding);
                right = right.max(centers[*item] + extents[*item].1 + padding);
            }
            Frame { left, right, first, last }
        });
        frames.collect()
    }

    /// Levels of frames that begin (`start`) or end at a layer, within the columns of a group.
    fn levels(&self, frames: &[Frame], columns: &Range<usize>, layer: usize, start: bool) -> usize {
        let at = |frame: &Frame| if start { frame.first == layer } else { frame.last == layer };
        let groups = self.groups.iter().zip(frames);
        let inside = groups.filter(|(group, frame)| {
            at(frame) && columns.start <= group.columns.start && group.columns.end <= columns.end
        });
        let kinds: Vec<bool> = inside.map(|(group, _)| group.is_process).collect();
        usize::from(kinds.contains(&true)) + usize::from(kinds.contains(&false))
    }

    /// Height of the titles above a layer, in pixels.
    pub(crate) fn titles_height(&self, frames: &[Frame], layer: usize) -> f64 {
        TITLE * self.most_levels(frames, layer, true) as f64
    }

    /// Height of the padding below a layer, in pixels.
    pub(crate) fn padding_height(&self, frames: &[Frame], layer: usize) -> f64 {
        PADDING * self.most_levels(frames, layer, false) as f64
    }

    fn most_levels(&self, frames: &[Frame], layer: usize, start: bool) -> usize {
        let levels = self.groups.iter().map(|group| {
            let outer = self
                .groups
                .iter()
                .find(|outer| !outer.is_process && outer.columns.contains(&group.columns.start));
            let columns = &outer.unwrap_or(group).columns;
            self.levels(frames, columns, layer, start)
        });
        levels.max().unwrap_or(0)
    }

    /// Upper and lower border of the frame of a group. `tops` are the upper ends of the labels of
    /// each layer, `bottoms` the lower ones.
    pub(crate) fn borders(
        &self,
        frames: &[Frame],
        group: usize,
        tops: &[f64],
        bottoms: &[f64],
    ) -> (f64, f64) {
        let (frame, columns) = (&frames[group], &self.groups[group].columns);
        let is_process = self.groups[group].is_process;
        let levels = |layer, start| match is_process {
            true => 1.0,
            false => self.levels(frames, columns, layer, start) as f64,
        };
        let top = tops[frame.first] - TITLE * levels(frame.first, true);
        (top, bottoms[frame.last] + PADDING * levels(frame.last, false))
    }
}
