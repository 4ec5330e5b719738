//! Mermaid output.

use std::fmt::Write;

use crate::{
    CheckedGraph,
    draw::{
        Words,
        nested::{Line, outline},
    },
};

/// Writes a flowchart.
pub(crate) fn draw(graph: &CheckedGraph, words: &Words) -> String {
    let mut text = "flowchart LR\n".to_owned();
    let lines =
        |lines: &[String]| lines.iter().map(|line| escape(line)).collect::<Vec<_>>().join("<br/>");
    for (block, (depth, line)) in outline(graph).into_iter().enumerate() {
        let indent = "    ".repeat(depth + 1);
        // Writing to a string cannot fail.
        let _ = match line {
            Line::Open(name) => writeln!(text, "{indent}subgraph p{block}[\"{}\"]", escape(name)),
            Line::Node(node) => {
                let [name, rest @ ..] = words.nodes[node].as_slice() else { continue };
                let (name, rest) = (escape(name), lines(rest));
                let is_source = graph.nodes[node].def.is_source();
                let (open, close) = if is_source { ("([", "])") } else { ("[", "]") };
                writeln!(text, "{indent}n{node}{open}\"<b>{name}</b><br/>{rest}\"{close}")
            }
            Line::Close => writeln!(text, "{indent}end"),
        };
    }
    for (edge, words) in graph.edges.iter().zip(&words.edges) {
        let (from, to) = (edge.from.0, edge.to.0);
        let arrow = if edge.feedback { "-.->" } else { "-->" };
        let _ = writeln!(text, "    n{from} {arrow}|\"{}\"| n{to}", lines(words));
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
