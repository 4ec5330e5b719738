//! Graphviz output.

use std::fmt::Write;

use crate::{CheckedGraph, draw::Words};

/// Writes a digraph.
pub(crate) fn draw(graph: &CheckedGraph, words: &Words) -> String {
    let mut text = format!("digraph \"{}\" {{\n    rankdir=LR;\n", escape(&graph.name));
    text.push_str("    node [shape=box, style=rounded, fontname=\"sans-serif\"];\n");
    text.push_str("    edge [fontname=\"sans-serif\", fontsize=10];\n");
    let lines =
        |lines: &[String]| lines.iter().map(|line| escape(line)).collect::<Vec<_>>().join("\\n");
    for (number, words) in words.nodes.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "    n{number} [label=\"{}\"];", lines(words));
    }
    for (edge, words) in graph.edges.iter().zip(&words.edges) {
        let (from, to) = (edge.from.0, edge.to.0);
        let style = if edge.feedback { ", style=dashed, constraint=false" } else { "" };
        let _ = writeln!(text, "    n{from} -> n{to} [label=\"{}\"{style}];", lines(words));
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
