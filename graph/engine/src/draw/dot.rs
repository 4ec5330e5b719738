//! A graph in the language of Graphviz.

use std::fmt::Write;

use crate::{CheckedGraph, draw::edge_words};

/// The text of a digraph.
pub(crate) fn draw(graph: &CheckedGraph) -> String {
    let mut text = format!("digraph \"{}\" {{\n    rankdir=LR;\n", escape(&graph.name));
    text.push_str("    node [shape=box, style=rounded, fontname=\"sans-serif\"];\n");
    text.push_str("    edge [fontname=\"sans-serif\", fontsize=10];\n");
    for (number, node) in graph.nodes.iter().enumerate() {
        let (name, kind) = (escape(&node.name), escape(node.def.name));
        // Writing to a string does not fail.
        let _ = writeln!(text, "    n{number} [label=\"{name}\\n{kind}\"];");
    }
    for edge in &graph.edges {
        let (port, payload) = edge_words(graph, edge);
        let (from, to) = (edge.from.0, edge.to.0);
        let label = format!("{}\\n{}", escape(port), escape(payload));
        let _ = writeln!(text, "    n{from} -> n{to} [label=\"{label}\"];");
    }
    text + "}\n"
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn nothing_ends_a_text() {
        assert_eq!(super::escape("a\"b\\"), "a\\\"b\\\\");
    }
}
