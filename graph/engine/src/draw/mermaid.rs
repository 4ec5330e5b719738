//! A graph as a Mermaid flowchart.

use std::fmt::Write;

use crate::{CheckedGraph, draw::edge_words};

/// The text of a flowchart.
pub(crate) fn draw(graph: &CheckedGraph) -> String {
    let mut text = "flowchart LR\n".to_owned();
    for (number, node) in graph.nodes.iter().enumerate() {
        let (name, kind) = (escape(&node.name), escape(node.def.name));
        let (open, close) = if node.def.is_source() { ("([", "])") } else { ("[", "]") };
        // Writing to a string does not fail.
        let _ = writeln!(text, "    n{number}{open}\"<b>{name}</b><br/>{kind}\"{close}");
    }
    for edge in &graph.edges {
        let (port, payload) = edge_words(graph, edge);
        let (from, to) = (edge.from.0, edge.to.0);
        let (port, payload) = (escape(port), escape(payload));
        let _ = writeln!(text, "    n{from} -->|\"{port}<br/>{payload}\"| n{to}");
    }
    text
}

fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '"' | '#' | '<' | '>' | '&' | '`' | '\n' => {
                let _ = write!(escaped, "#{};", u32::from(c));
            }
            _ => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    #[test]
    fn nothing_ends_a_label() {
        assert_eq!(super::escape("a\"<#"), "a#34;#60;#35;");
    }
}
