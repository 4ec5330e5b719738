//! Corrects the weights of nodes by measurement.

use afferent_graph::Weight;

use crate::Report;
use afferent_spec::CheckedGraph;

/// Median call duration from which a node gets a thread of its own: waking costs a quarter of it.
const HEAVY_NS: u64 = 200_000;
/// Median call duration up to which a thread of its own costs more than it brings.
const LIGHT_NS: u64 = 20_000;
/// Fewest calls that are significant.
const MIN_CALLS: u64 = 20;

/// Node whose measured weight differs from its declared one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reweighed {
    /// Name of the node.
    pub node: String,
    /// New weight.
    pub weight: Weight,
    /// Median duration of its calls, in nanoseconds.
    pub call_ns: u64,
}

/// Sets the weights of the nodes of `graph` by the figures of a run. Sources keep theirs, because
/// they wait.
pub fn weigh(graph: &mut CheckedGraph, measured: &Report) -> Vec<Reweighed> {
    let mut changed = Vec::new();
    for node in graph.nodes.iter_mut().filter(|node| !node.def.is_source()) {
        let Some(found) = measured.node(&node.name) else { continue };
        let call_ns = found.call.p50_ns;
        let weight = match call_ns {
            _ if found.calls < MIN_CALLS => continue,
            HEAVY_NS.. => Weight::Heavy,
            ..=LIGHT_NS => Weight::Light,
            _ => continue,
        };
        if weight != node.weight {
            node.weight = weight;
            changed.push(Reweighed { node: node.name.clone(), weight, call_ns });
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use afferent_graph::{Cx, Node, NodeDef, NodeError, OpenCx, Port};
    use afferent_messages::KeywordEvent;

    use super::*;
    use crate::{NodeReport, Spread};
    use afferent_spec::CheckedNode;

    struct Sink;

    impl Node for Sink {
        type Params = ();
        const NAME: &'static str = "sink";
        const SUMMARY: &'static str = "";
        const PORTS: &'static [Port] = &[Port::input::<KeywordEvent>("in")];
        const LATENCY: &'static str = "none";

        fn open((): (), _: &OpenCx) -> Result<Self, NodeError> {
            Ok(Self)
        }

        fn process(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
            Ok(())
        }
    }

    fn check(declared: Weight, calls: u64, p50_ns: u64, expected: Weight) {
        let mut node = CheckedNode::new("a", NodeDef::of::<Sink>());
        node.weight = declared;
        let mut graph = CheckedGraph { nodes: vec![node], ..CheckedGraph::default() };
        let call = Spread { p50_ns, ..Spread::default() };
        let found = NodeReport { name: "a".to_owned(), calls, call, ..NodeReport::default() };
        let measured = Report { nodes: vec![found], ..Report::default() };
        let changed = weigh(&mut graph, &measured);
        assert_eq!(graph.nodes[0].weight, expected, "{calls} calls of {p50_ns} ns");
        assert_eq!(changed.len(), usize::from(declared != expected));
    }

    #[test]
    fn what_was_measured_counts() {
        check(Weight::Light, 100, 500_000, Weight::Heavy);
        check(Weight::Heavy, 100, 900, Weight::Light);
        check(Weight::Light, 100, 50_000, Weight::Light);
        check(Weight::Heavy, 100, 50_000, Weight::Heavy);
        check(Weight::Light, 3, 500_000, Weight::Light);
    }
}
