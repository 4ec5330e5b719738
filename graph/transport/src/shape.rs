//! Comparison of the graphs of two processes.

use afferent_graph::{Choice, PortKind, PortSpec};
use afferent_spec::CheckedGraph;

/// Description of what the processes of a graph have to agree on: nodes with their types, ports and
/// partitions, and edges with their policies. A line for each.
pub(crate) fn of(graph: &CheckedGraph) -> Vec<String> {
    let nodes = graph.nodes.iter().map(|node| {
        let port = |port: &PortSpec| {
            let layout = port.wire.map_or_else(String::new, |codec| codec.layout());
            format!("{} {} {layout:?}", port.name, port.ty)
        };
        let outputs: Vec<_> = node.def.outputs.iter().map(port).collect();
        let inputs: Vec<_> =
            node.def.inputs.iter().map(|port| format!("{} {}", port.name, port.ty)).collect();
        let (name, kind) = (&node.name, &node.def.name);
        let partition = graph.partition_name(node.partition);
        format!("node {name}: {kind} in {partition}, inputs {inputs:?}, outputs {outputs:?}")
    });
    let edges = graph.edges.iter().map(|edge| {
        let from = graph.port_name(edge.from, PortKind::Output);
        let to = graph.port_name(edge.to, PortKind::Input);
        let policy = &edge.policy;
        format!("edge {from} -> {to}: {} {}", policy.on_full.word(), policy.queue)
    });
    nodes.chain(edges).collect()
}

/// First difference of two descriptions.
pub(crate) fn difference(own: &[String], other: &[String]) -> Option<String> {
    let pairs = own.iter().zip(other).find(|(own, other)| own != other);
    if let Some((own, other)) = pairs {
        return Some(format!("it has `{other}`, and this process `{own}`"));
    }
    match (own.get(other.len()), other.get(own.len())) {
        (Some(missing), _) => Some(format!("it lacks `{missing}`")),
        (_, Some(more)) => Some(format!("it also has `{more}`")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_named() {
        let lines =
            |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        let own = lines(&["a", "b"]);
        assert_eq!(difference(&own, &own), None);
        let check = |other: &[&str], expected: &str| {
            assert_eq!(difference(&own, &lines(other)).as_deref(), Some(expected));
        };
        check(&["a"], "it lacks `b`");
        check(&["a", "b", "c"], "it also has `c`");
        check(&["a", "x"], "it has `x`, and this process `b`");
    }
}
