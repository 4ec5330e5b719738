//! Order within layers: barycenters and exchanges of neighbors reduce the crossings of edges.

use crate::{
    CheckedGraph,
    draw::layers::{Layers, Net},
};

/// Sweeps over all layers.
const SWEEPS: usize = 24;
/// Neighbors are exchanged only if as many links at most lead to a layer.
const MAX_EXCHANGE_LINKS: usize = 120;

/// Member of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Item {
    /// Index of a node.
    Node(usize),
    /// Index of a net that passes the layer.
    Pass(usize),
}

/// Connection of two items of adjacent layers, a part of a net.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) net: usize,
    /// Edge that ends here, or `None` if the net passes the lower item.
    pub(crate) edge: Option<usize>,
    /// Indices in [`Order::items`].
    pub(crate) upper: usize,
    pub(crate) lower: usize,
}

/// Items of each layer from left to right.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) items: Vec<Item>,
    /// Indices in `items`; the nodes have the first ones.
    pub(crate) layers: Vec<Vec<usize>>,
    /// Links to each layer from the one above.
    pub(crate) links: Vec<Vec<Link>>,
    /// Column of each item. In a layer, items are sorted by their columns.
    pub(crate) columns: Vec<usize>,
    /// Position of each item in its layer.
    pub(crate) position: Vec<usize>,
}

/// Orders the nodes and the passing nets of each layer. `columns` has the column of each node.
pub(crate) fn order(graph: &CheckedGraph, layers: &Layers, columns: &[usize]) -> Order {
    let mut order = unordered(graph, layers, columns);
    order.number();
    let mut best = (order.crossings(), order.layers.clone());
    for sweep in 0..SWEEPS {
        order.sweep(sweep % 2 == 0);
        order.exchange();
        let crossings = order.crossings();
        if crossings < best.0 {
            best = (crossings, order.layers.clone());
        }
    }
    order.layers = best.1;
    order.number();
    order
}

/// Items in the order of the file.
fn unordered(graph: &CheckedGraph, layers: &Layers, columns: &[usize]) -> Order {
    let mut order = Order {
        items: (0..graph.nodes.len()).map(Item::Node).collect(),
        layers: vec![Vec::new(); layers.count],
        links: vec![Vec::new(); layers.count],
        columns: Vec::new(),
        position: Vec::new(),
    };
    for (node, layer) in layers.of_node.iter().enumerate() {
        order.layers[*layer].push(node);
    }
    for (index, net) in layers.nets.iter().enumerate().filter(|(_, net)| !net.back) {
        order.add_net(graph, layers, index, net);
    }
    // A passing net keeps the column of its sender.
    let column = |item: &Item| match item {
        Item::Node(node) => columns[*node],
        Item::Pass(net) => columns[layers.nets[*net].from],
    };
    order.columns = order.items.iter().map(column).collect();
    for layer in &mut order.layers {
        layer.sort_by_key(|item| order.columns[*item]);
    }
    order
}

impl Order {
    fn add_net(&mut self, graph: &CheckedGraph, layers: &Layers, index: usize, net: &Net) {
        let (mut upper, last) = (net.from, layers.last(graph, net));
        for layer in layers.of_node[net.from] + 1..=last {
            for edge in &net.edges {
                let lower = graph.edges[*edge].to.0;
                if layers.of_node[lower] == layer {
                    self.links[layer].push(Link { net: index, edge: Some(*edge), upper, lower });
                }
            }
            if layer < last {
                let lower = self.items.len();
                self.items.push(Item::Pass(index));
                self.layers[layer].push(lower);
                self.links[layer].push(Link { net: index, edge: None, upper, lower });
                upper = lower;
            }
        }
    }

    fn number(&mut self) {
        self.position = vec![0; self.items.len()];
        for layer in &self.layers {
            for (position, item) in layer.iter().enumerate() {
                self.position[*item] = position;
            }
        }
    }

    /// Sorts each layer by the mean position of its neighbors above, or below.
    fn sweep(&mut self, down: bool) {
        let count = self.layers.len();
        for step in 1..count {
            let layer = if down { step } else { count - 1 - step };
            let links = &self.links[if down { layer } else { layer + 1 }];
            let mean = |item: usize| {
                let ends = links.iter().filter_map(|link| match down {
                    true => (link.lower == item).then_some(self.position[link.upper]),
                    false => (link.upper == item).then_some(self.position[link.lower]),
                });
                let ends: Vec<_> = ends.map(|end| end as f64).collect();
                match ends.len() {
                    0 => self.position[item] as f64,
                    count => ends.iter().sum::<f64>() / count as f64,
                }
            };
            let keyed = self.layers[layer].iter();
            let keyed = keyed.map(|item| (self.columns[*item], mean(*item), *item));
            let mut keyed: Vec<_> = keyed.collect();
            keyed.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
            self.layers[layer] = keyed.into_iter().map(|(.., item)| item).collect();
            self.number_layer(layer);
        }
    }

    fn number_layer(&mut self, layer: usize) {
        for (position, item) in self.layers[layer].iter().enumerate() {
            self.position[*item] = position;
        }
    }

    /// Exchanges neighbors where this removes crossings.
    fn exchange(&mut self) {
        for layer in 0..self.layers.len() {
            if self.links.iter().skip(layer).take(2).any(|links| links.len() > MAX_EXCHANGE_LINKS) {
                continue;
            }
            for left in 1..self.layers[layer].len() {
                let column = |at: usize| self.columns[self.layers[layer][at]];
                if column(left - 1) != column(left) {
                    continue;
                }
                let before = self.crossings_at(layer);
                self.layers[layer].swap(left - 1, left);
                self.number_layer(layer);
                if self.crossings_at(layer) >= before {
                    self.layers[layer].swap(left - 1, left);
                    self.number_layer(layer);
                }
            }
        }
    }

    fn crossings(&self) -> usize {
        self.links.iter().map(|links| self.crossings_of(links)).sum()
    }

    /// Crossings above and below a layer.
    fn crossings_at(&self, layer: usize) -> usize {
        let links = self.links.iter().skip(layer).take(2);
        links.map(|links| self.crossings_of(links)).sum()
    }

    fn crossings_of(&self, links: &[Link]) -> usize {
        let ends = |link: &Link| (self.position[link.upper], self.position[link.lower]);
        let crosses = |a: &Link, b: &Link| {
            let ((upper_a, lower_a), (upper_b, lower_b)) = (ends(a), ends(b));
            a.net != b.net && upper_a < upper_b && lower_a > lower_b
        };
        links.iter().map(|a| links.iter().filter(|b| crosses(a, b)).count()).sum()
    }
}
