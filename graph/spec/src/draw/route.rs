//! Routes of nets through the channels between layers, and along the side of the drawing.
//!
//! Channel `c` is above layer `c`. A net has one horizontal segment in a channel, in a row of its
//! own where it meets others.

use std::collections::BTreeMap;

use crate::{
    CheckedGraph,
    draw::{
        layers::Layers,
        order::{Item, Link, Order},
    },
};

/// Distance of two rows, and of two lanes at the side, in pixels.
pub(crate) const ROW: f64 = 11.0;
/// Least distance of vertical lines of two nets in a channel, in pixels.
const APART: f64 = 6.0;
/// Furthest shift of a port or passing net for a straight line, in pixels.
const SHIFT: f64 = 8.0;
/// Cost of two vertical lines that overlap, in crossings.
const OVERLAP: usize = 1000;

/// Horizontal positions of everything that a net passes, in pixels.
#[derive(Debug, Default)]
pub(crate) struct Xs {
    /// Start of each net.
    pub(crate) starts: Vec<f64>,
    /// End of each edge.
    pub(crate) ends: Vec<f64>,
    /// Center of each item of the order.
    pub(crate) items: Vec<f64>,
    /// Lane of each net that leads upward.
    pub(crate) lanes: Vec<Option<f64>>,
    /// Leftmost and rightmost position.
    pub(crate) bounds: (f64, f64),
}

impl Xs {
    /// Lower end of a link.
    fn bottom(&self, link: &Link) -> f64 {
        link.edge.map_or_else(|| self.items[link.lower], |edge| self.ends[edge])
    }

    /// Upper end of a link.
    fn top(&self, order: &Order, link: &Link) -> f64 {
        match order.items[link.upper] {
            Item::Node(_) => self.starts[link.net],
            Item::Pass(_) => self.items[link.upper],
        }
    }

    /// Shifts ends of links a little: to below their start if they are near it, or else away from
    /// the starts of other nets.
    pub(crate) fn straighten(&mut self, order: &Order) {
        for links in &order.links {
            for link in links {
                let (top, x) = (self.top(order, link), self.bottom(link));
                let is_free = |x: f64| {
                    let others = links.iter().filter(|other| other.net != link.net);
                    others
                        .map(|other| self.top(order, other))
                        .all(|other| (other - x).abs() >= APART)
                };
                let shifted = [0.0, SHIFT, -SHIFT].map(|shift| x + shift);
                let better = match (top - x).abs() <= SHIFT {
                    true => Some(top),
                    false => shifted.into_iter().find(|x| is_free(*x)),
                };
                let slot = match link.edge {
                    Some(edge) => &mut self.ends[edge],
                    None => &mut self.items[link.lower],
                };
                *slot = better.unwrap_or(x);
            }
        }
    }

    /// Gives each net that leads upward a lane right of `right`; short ones are inside. Returns the
    /// number of lanes.
    pub(crate) fn assign_lanes(
        &mut self,
        graph: &CheckedGraph,
        layers: &Layers,
        right: f64,
    ) -> usize {
        self.lanes = vec![None; layers.nets.len()];
        let mut nets: Vec<_> = layers.nets.iter().enumerate().filter(|(_, net)| net.back).collect();
        let span = |index: usize| {
            let net = &layers.nets[index];
            let to = net.edges.iter().map(|edge| layers.of_node[graph.edges[*edge].to.0]);
            let from = layers.of_node[net.from] + 1;
            to.fold((from, from), |(low, high), to| (low.min(to), high.max(to)))
        };
        nets.sort_by_key(|(index, _)| span(*index).1 - span(*index).0);
        let mut lanes: Vec<Vec<(usize, usize)>> = Vec::new();
        for (index, _) in nets {
            let (low, high) = span(index);
            let is_free = |lane: &Vec<(usize, usize)>| {
                lane.iter().all(|(other_low, other_high)| high < *other_low || *other_high < low)
            };
            let lane = lanes.iter().position(is_free).unwrap_or(lanes.len());
            if lane == lanes.len() {
                lanes.push(Vec::new());
            }
            lanes[lane].push((low, high));
            self.lanes[index] = Some(right + ROW * (lane as f64 + 1.0));
        }
        lanes.len()
    }
}

/// Part of a net in a channel: vertical lines from the top to the row, the row, and vertical lines
/// from the row to the bottom.
#[derive(Debug)]
struct Segment {
    net: usize,
    /// True for the part that comes down from a lane.
    from_lane: bool,
    tops: Vec<f64>,
    bottoms: Vec<f64>,
}

impl Segment {
    fn interval(&self) -> (f64, f64) {
        let all = self.tops.iter().chain(&self.bottoms);
        all.fold((f64::MAX, f64::MIN), |(low, high), x| (low.min(*x), high.max(*x)))
    }

    fn is_straight(&self) -> bool {
        let (low, high) = self.interval();
        high - low < 0.5
    }

    fn meets(&self, other: &Self) -> bool {
        let ((low, high), (other_low, other_high)) = (self.interval(), other.interval());
        low < other_high + 2.0 * APART && other_low < high + 2.0 * APART
    }

    /// Crossings and overlaps if this row is above the other.
    fn cost_above(&self, below: &Self) -> usize {
        let inside = |x: &&f64, (low, high): (f64, f64)| low < **x && **x < high;
        let crossings = self.bottoms.iter().filter(|x| inside(x, below.interval())).count()
            + below.tops.iter().filter(|x| inside(x, self.interval())).count();
        let overlaps = self.bottoms.iter().flat_map(|x| below.tops.iter().map(move |y| x - y));
        crossings + OVERLAP * overlaps.filter(|distance| distance.abs() < APART - 0.5).count()
    }
}

/// Rows of all channels.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    /// Row of each part: channel, net, and true for the part that comes down from a lane.
    rows: BTreeMap<(usize, usize, bool), usize>,
    /// Number of rows of each channel.
    pub(crate) counts: Vec<usize>,
}

impl Routes {
    /// Assigns rows with few crossings.
    pub(crate) fn new(graph: &CheckedGraph, layers: &Layers, order: &Order, xs: &Xs) -> Self {
        let mut routes = Self::default();
        for channel in 0..=layers.count {
            let mut segments = segments(graph, layers, order, xs, channel);
            segments.retain(|segment| !segment.is_straight());
            segments.sort_by(|a, b| a.interval().0.total_cmp(&b.interval().0));
            for _ in 0..segments.len() {
                for above in 1..segments.len() {
                    let [a, b] = [&segments[above - 1], &segments[above]];
                    if b.cost_above(a) < a.cost_above(b) {
                        segments.swap(above - 1, above);
                    }
                }
            }
            let mut placed: Vec<usize> = Vec::new();
            for (at, segment) in segments.iter().enumerate() {
                let before = segments[..at].iter().zip(&placed);
                let below =
                    before.filter(|(other, _)| other.meets(segment)).map(|(_, row)| row + 1);
                let row = below.max().unwrap_or(0);
                placed.push(row);
                routes.rows.insert((channel, segment.net, segment.from_lane), row);
            }
            routes.counts.push(placed.iter().max().map_or(0, |row| row + 1));
        }
        routes
    }

    /// Points of an edge. `rows_y` gives the first row of each channel, `bottoms` and `tops` the
    /// sides of the boxes of each layer.
    pub(crate) fn points(
        &self,
        of: Of<'_>,
        (net, edge): (usize, usize),
        [rows_y, bottoms, tops]: [&[f64]; 3],
    ) -> Vec<(f64, f64)> {
        let Of { graph, layers, order, xs } = of;
        let y = |channel: usize, from_lane: bool| {
            let row = self.rows.get(&(channel, net, from_lane)).copied().unwrap_or(0);
            rows_y[channel] + ROW * row as f64
        };
        let (from, to) =
            (layers.of_node[layers.nets[net].from], layers.of_node[graph.edges[edge].to.0]);
        let mut points = vec![(xs.starts[net], bottoms[from])];
        if let Some(lane) = xs.lanes[net] {
            let (start, end) = (y(from + 1, false), y(to, true));
            points.extend([(xs.starts[net], start), (lane, start), (lane, end)]);
            points.push((xs.ends[edge], end));
        } else {
            for channel in from + 1..=to {
                let x = points.last().map_or(0.0, |(x, _)| *x);
                let end = if channel == to { Some(edge) } else { None };
                let mut links = order.links[channel].iter();
                let link = links.find(|link| link.net == net && link.edge == end);
                let next = link.map_or(x, |link| xs.bottom(link));
                if (next - x).abs() >= 0.5 {
                    points.extend([(x, y(channel, false)), (next, y(channel, false))]);
                }
            }
        }
        points.push((xs.ends[edge], tops[to]));
        points
    }
}

/// A graph with layers, order and horizontal positions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Of<'a> {
    pub(crate) graph: &'a CheckedGraph,
    pub(crate) layers: &'a Layers,
    pub(crate) order: &'a Order,
    pub(crate) xs: &'a Xs,
}

/// Parts of all nets in a channel.
fn segments(
    graph: &CheckedGraph,
    layers: &Layers,
    order: &Order,
    xs: &Xs,
    channel: usize,
) -> Vec<Segment> {
    let mut segments: BTreeMap<(usize, bool), Segment> = BTreeMap::new();
    for link in order.links.get(channel).into_iter().flatten() {
        let net = link.net;
        let new = || Segment {
            net,
            from_lane: false,
            tops: vec![xs.top(order, link)],
            bottoms: Vec::new(),
        };
        let segment = segments.entry((net, false)).or_insert_with(new);
        segment.bottoms.push(xs.bottom(link));
    }
    for (net, (found, lane)) in layers.nets.iter().zip(&xs.lanes).enumerate() {
        let Some(lane) = *lane else { continue };
        if layers.of_node[found.from] + 1 == channel {
            // The lane leads upward from here.
            let tops = vec![xs.starts[net], lane];
            let part = Segment { net, from_lane: false, tops, bottoms: Vec::new() };
            segments.insert((net, false), part);
        }
        let ends = found.edges.iter();
        let ends = ends.filter(|edge| layers.of_node[graph.edges[**edge].to.0] == channel);
        let mut bottoms: Vec<f64> = ends.map(|edge| xs.ends[*edge]).collect();
        if !bottoms.is_empty() {
            // The lane comes from below.
            bottoms.push(lane);
            segments
                .insert((net, true), Segment { net, from_lane: true, tops: Vec::new(), bottoms });
        }
    }
    segments.into_values().collect()
}
