//! Drawings of graphs.
//!
//! | module    | holds                                         |
//! |-----------|-----------------------------------------------|
//! | `mermaid` | text that Markdown viewers draw               |
//! | `dot`     | text for Graphviz                             |
//! | `svg`     | an image                                      |
//! | `layout`  | positions of its boxes, lines and labels      |
//! | `columns` | frames of machines and processes              |
//!
//! Crates for layered layouts return positions of nodes (`rust-sugiyama`) or have neither ports nor
//! separate routes for feedback edges (`layout-rs`, ports of dagre), so the layout is our own.

mod boxes;
mod columns;
mod dot;
mod layers;
mod layout;
mod mermaid;
mod nested;
mod order;
mod position;
mod route;
mod svg;
mod text;

use std::str::FromStr;

use crate::CheckedGraph;

/// Format of a drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrawFormat {
    /// A Mermaid flowchart, for Markdown.
    Mermaid,
    /// A Graphviz digraph.
    Dot,
    /// An image at most 1200 pixels wide, layered from top to bottom.
    Svg,
}

/// Unknown name of a [`DrawFormat`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is not one of {}", DrawFormat::WORDS.join(", "))]
pub struct UnknownFormat {
    /// The name as given.
    pub word: String,
}

impl DrawFormat {
    /// Names of the formats.
    pub const WORDS: [&str; 3] = ["mermaid", "dot", "svg"];
}

impl FromStr for DrawFormat {
    type Err = UnknownFormat;

    fn from_str(word: &str) -> Result<Self, UnknownFormat> {
        match word {
            "mermaid" => Ok(Self::Mermaid),
            "dot" => Ok(Self::Dot),
            "svg" => Ok(Self::Svg),
            _ => Err(UnknownFormat { word: word.to_owned() }),
        }
    }
}

/// Extra lines of a drawing, such as the figures of a run.
#[derive(Debug, Clone, Default)]
pub struct Labels {
    /// Label of each node, in the order of [`CheckedGraph::nodes`].
    pub nodes: Vec<Option<String>>,
    /// Label of each edge, in the order of [`CheckedGraph::edges`].
    pub edges: Vec<Option<String>>,
}

/// Draws `graph`: each node with its name, kind and label, each edge with its output, payload type
/// and label, and a frame around the nodes of each machine and each named process.
pub fn draw(graph: &CheckedGraph, format: DrawFormat, labels: &Labels) -> String {
    let words = Words::new(graph, labels);
    match format {
        DrawFormat::Mermaid => mermaid::draw(graph, &words),
        DrawFormat::Dot => dot::draw(graph, &words),
        DrawFormat::Svg => svg::draw(graph, &words),
    }
}

/// Lines of text of the boxes and arrows.
struct Words {
    nodes: Vec<Vec<String>>,
    edges: Vec<Vec<String>>,
}

impl Words {
    fn new(graph: &CheckedGraph, labels: &Labels) -> Self {
        let nodes = graph.nodes.iter().enumerate().map(|(index, node)| {
            let label = labels.nodes.get(index).cloned().flatten();
            let names = [node.name.clone(), node.def.name.to_string()];
            names.into_iter().chain(label).collect()
        });
        let edges = graph.edges.iter().enumerate().map(|(index, edge)| {
            let (node, output) = edge.from;
            let node = graph.nodes.get(node);
            let port = node.and_then(|node| node.def.outputs.get(output.index()));
            let names =
                port.map_or_else(Vec::new, |port| vec![port.name.to_string(), port.ty.to_string()]);
            let label = labels.edges.get(index).cloned().flatten();
            names.into_iter().chain(label).collect()
        });
        Self { nodes: nodes.collect(), edges: edges.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_formats() {
        assert_eq!("svg".parse(), Ok(DrawFormat::Svg));
        let error = "png".parse::<DrawFormat>().unwrap_err();
        assert_eq!(error.to_string(), "\"png\" is not one of mermaid, dot, svg");
    }
}
