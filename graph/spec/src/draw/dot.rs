//! Graphviz output.

use std::fmt::Write;

use crate::{
    CheckedGraph,
    draw::{
        Words,
        nested::{Line, outline},
    },
};

/// Writes a digraph.
pub(crate) fn draw(graph: &CheckedGraph, words: &Words) -> String {
    let mut text = format!("digraph \"{}\" {{\n    rankdir=LR;\n", escape(&graph.name));
    text.push_str("    node [shape=box, style=rounded, fontname=\"sans-serif\"];\n");
    text.push_str("    edge [fontname=\"sans-serif\", fontsize=10];\n");
    let lines =
        |lines: &[String]| lines.iter().map(|line| escape(line)).collect::<Vec<_>>().join("\\n");
    for (block, (depth, line)) in outline(graph).into_iter().enumerate() {
        let indent = "    ".repeat(depth + 1);
        // Writing to a string cannot fail.
        let _ = match line {
            Line::Open(name) => writeln!(
                text,
                "{indent}subgraph cluster_{block} {{\n{indent}    label=\"{}\"; labeljust=l; \
                 style=rounded; fontname=\"sans-serif\";",
                escape(name)
            ),
            Line::Node(node) => {
                writeln!(text, "{indent}n{node} [label=\"{}\"];", lines(&words.nodes[node]))
            }
            Line::Close => writeln!(text, "{indent}}}"),
        };
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
