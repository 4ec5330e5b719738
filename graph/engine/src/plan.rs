//! Assignment of nodes to threads.

pub(crate) mod pools;
pub(crate) mod weight;

use afferent_graph::Weight;

use afferent_spec::{CheckedGraph, Edge};

use crate::Threads;

/// Threads of a graph.
///
/// Waking a thread takes tens of microseconds and a call within a thread well under one. A thread
/// of its own pays only for a node that computes for long or waits for a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Indices into [`CheckedGraph::nodes`], senders first.
    pub order: Vec<usize>,
    /// Nodes of each thread, in the same order.
    pub groups: Vec<Vec<usize>>,
}

impl Plan {
    /// Plans `graph`.
    ///
    /// # Errors
    /// Indices of nodes that form a cycle.
    pub fn new(graph: &CheckedGraph, threads: Threads) -> Result<Self, Vec<usize>> {
        Self::partition(graph, threads, |_| true)
    }

    /// Plans the nodes of `graph` that run here.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn partition(
        graph: &CheckedGraph,
        threads: Threads,
        is_here: impl Fn(usize) -> bool,
    ) -> Result<Self, Vec<usize>> {
        let mut order = topological_order(graph)?;
        order.retain(|node_index| is_here(*node_index));
        if threads == Threads::Single && !order.is_empty() {
            return Ok(Self { groups: vec![order.clone()], order });
        }
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut words: Vec<(&str, usize)> = Vec::new();
        let mut group_of = vec![0; graph.nodes.len()];
        for &node_index in &order {
            let node = &graph.nodes[node_index];
            let word = node.schedule.thread.as_deref();
            let known = words.iter().find(|(other, _)| Some(*other) == word);
            let before = graph
                .edges
                .iter()
                .find(|edge| edge.to.0 == node_index && !edge.feedback && is_here(edge.from.0));
            let group = match (known, before) {
                (Some((_, group)), _) => *group,
                (None, Some(edge))
                    if word.is_none()
                        && node.weight == Weight::Light
                        && !node.schedule.is_special() =>
                {
                    group_of[edge.from.0]
                }
                _ => {
                    groups.push(Vec::new());
                    groups.len() - 1
                }
            };
            if let (Some(word), None) = (word, known) {
                words.push((word, group));
            }
            groups[group].push(node_index);
            group_of[node_index] = group;
        }
        Ok(Self { order, groups })
    }

    /// For each thread that receives from another one: the largest number of threads downstream of
    /// it.
    pub(crate) fn threads_downstream(&self, graph: &CheckedGraph) -> Vec<Option<u32>> {
        let mut group_of = vec![0; graph.nodes.len()];
        for (group, members) in self.groups.iter().enumerate() {
            members.iter().for_each(|node_index| group_of[*node_index] = group);
        }
        let here: Vec<_> = self.groups.iter().flatten().collect();
        let is_here = |edge: &Edge| here.contains(&&edge.from.0) && here.contains(&&edge.to.0);
        let crosses = |edge: &Edge| is_here(edge) && group_of[edge.from.0] != group_of[edge.to.0];
        let mut downstream = vec![0; graph.nodes.len()];
        for &node_index in self.order.iter().rev() {
            let edges =
                graph.edges.iter().filter(|edge| edge.from.0 == node_index && !edge.feedback);
            let most = edges.map(|edge| downstream[edge.to.0] + u32::from(crosses(edge))).max();
            downstream[node_index] = most.unwrap_or(0);
        }
        let receives = |members: &[usize]| {
            graph.edges.iter().any(|edge| crosses(edge) && members.contains(&edge.to.0))
        };
        let groups = self.groups.iter();
        groups
            .map(|members| {
                let most = members.iter().map(|node_index| downstream[*node_index]).max();
                most.filter(|_| receives(members))
            })
            .collect()
    }
}

/// All nodes, each after its senders, otherwise in the order of the graph.
fn topological_order(graph: &CheckedGraph) -> Result<Vec<usize>, Vec<usize>> {
    let mut order = Vec::with_capacity(graph.nodes.len());
    let mut left: Vec<usize> = (0..graph.nodes.len()).collect();
    while !left.is_empty() {
        let waits = |node_index: usize| {
            let forth = |edge: &&Edge| edge.to.0 == node_index && !edge.feedback;
            graph.edges.iter().filter(forth).any(|edge| left.contains(&edge.from.0))
        };
        let Some(next) = left.iter().position(|node_index| !waits(*node_index)) else {
            return Err(left);
        };
        order.push(left.remove(next));
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use afferent_graph::{Cx, Node, NodeDef, NodeError, OnFull, OpenCx, Port};
    use afferent_messages::KeywordEvent;

    use super::*;
    use afferent_spec::{CheckedNode, EdgePolicy, Schedule};

    struct Step<const HEAVY: bool>;

    impl<const HEAVY: bool> Node for Step<HEAVY> {
        type Params = ();
        const NAME: &'static str = "step";
        const SUMMARY: &'static str = "";
        const PORTS: &'static [Port] = &[
            Port::input::<KeywordEvent>("in").many().optional(),
            Port::output::<KeywordEvent>("out"),
        ];
        const WEIGHT: Weight = if HEAVY { Weight::Heavy } else { Weight::Light };
        const LATENCY: &'static str = "none";

        fn open((): (), _: &OpenCx) -> Result<Self, NodeError> {
            Ok(Self)
        }

        fn process(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
            Ok(())
        }
    }

    /// Nodes: `l` light, `h` heavy, then an optional thread word. Edges: pairs of node indices.
    fn check(nodes: &[&str], edges: &[(usize, usize)], groups: &[&[usize]]) {
        let plan = Plan::new(&graph(nodes, edges), Threads::Auto).unwrap();
        assert_eq!(plan.groups, groups, "{nodes:?} {edges:?}");
    }

    #[test]
    fn threads_know_how_many_follow() {
        // A source, two heavy nodes in a row, a light one with them, and a separate heavy one.
        let nodes = ["l", "h", "h", "l", "h"];
        let graph = graph(&nodes, &[(0, 1), (1, 2), (2, 3), (0, 4)]);
        let plan = Plan::new(&graph, Threads::Auto).unwrap();
        assert_eq!(plan.groups, [vec![0], vec![1], vec![2, 3], vec![4]]);
        assert_eq!(plan.threads_downstream(&graph), [None, Some(1), Some(0), Some(0)]);
        let single = Plan::new(&graph, Threads::Single).unwrap();
        assert_eq!(single.threads_downstream(&graph), [None]);
    }

    fn graph(nodes: &[&str], edges: &[(usize, usize)]) -> CheckedGraph {
        let node = |text: &&str| {
            let heavy = text.starts_with('h');
            let (light, heavy) =
                (NodeDef::of::<Step<false>>(), heavy.then(NodeDef::of::<Step<true>>));
            let thread = Some(text[1..].to_owned()).filter(|word| !word.is_empty());
            let schedule = Schedule { thread, ..Schedule::default() };
            CheckedNode { schedule, ..CheckedNode::new(*text, heavy.unwrap_or(light)) }
        };
        let policy = EdgePolicy { on_full: OnFull::Block, queue: 4, max_age: None };
        let edge = |(from, to): &(usize, usize)| {
            let port = afferent_graph::PortId::at(0);
            Edge::new((*from, port), (*to, port), policy)
        };
        CheckedGraph {
            nodes: nodes.iter().map(node).collect(),
            edges: edges.iter().map(edge).collect(),
            ..CheckedGraph::default()
        }
    }

    #[test]
    fn light_nodes_follow_their_first_sender() {
        check(&["l", "l", "l"], &[(0, 1), (1, 2)], &[&[0, 1, 2]]);
        check(&["l", "h", "l"], &[(0, 1), (1, 2)], &[&[0], &[1, 2]]);
        check(&["l", "l"], &[], &[&[0], &[1]]);
        check(&["l", "h", "h", "l"], &[(0, 1), (0, 2), (2, 3), (1, 3)], &[&[0], &[1], &[2, 3]]);
    }

    #[test]
    fn a_word_decides() {
        check(&["l", "hx", "l", "hx"], &[(0, 1), (1, 2), (2, 3)], &[&[0], &[1, 2, 3]]);
        check(&["l", "lx", "l"], &[(0, 1), (1, 2)], &[&[0], &[1, 2]]);
    }

    #[test]
    fn senders_come_first_whatever_the_order_of_the_file() {
        check(&["l", "l", "l"], &[(2, 1), (1, 0)], &[&[2, 1, 0]]);
    }

    #[test]
    fn a_cycle_is_named() {
        let graph = graph(&["l", "l", "l"], &[(0, 1), (1, 2), (2, 1)]);
        assert_eq!(Plan::new(&graph, Threads::Auto), Err(vec![1, 2]));
    }
}
