//! A graph as a picture.
//!
//! | module    | holds                                         |
//! |-----------|-----------------------------------------------|
//! | `mermaid` | text that Markdown viewers draw               |
//! | `dot`     | text for Graphviz                             |
//! | `svg`     | a finished picture                            |
//! | `layout`  | where its boxes and arrows lie                |

mod dot;
mod layout;
mod mermaid;
mod svg;

use std::str::FromStr;

use crate::{CheckedGraph, Edge};

/// How a graph is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrawFormat {
    /// A Mermaid flowchart, for Markdown.
    Mermaid,
    /// A Graphviz digraph.
    Dot,
    /// A picture, layered from left to right.
    Svg,
}

/// A word that names no [`DrawFormat`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is not one of {}", DrawFormat::WORDS.join(", "))]
pub struct UnknownFormat {
    /// As written.
    pub word: String,
}

impl DrawFormat {
    /// The words that name the formats.
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

/// Draws `graph`: each node with its name and kind, each edge with output and payload.
pub fn draw(graph: &CheckedGraph, format: DrawFormat) -> String {
    match format {
        DrawFormat::Mermaid => mermaid::draw(graph),
        DrawFormat::Dot => dot::draw(graph),
        DrawFormat::Svg => svg::draw(graph),
    }
}

/// Name and payload of the output that an edge comes from.
fn edge_words(graph: &CheckedGraph, edge: &Edge) -> (&'static str, &'static str) {
    let (node, name) = edge.from;
    let mut outputs = graph.nodes.get(node).into_iter().flat_map(|node| node.def.outputs());
    (name, outputs.find(|port| port.name == name).map_or("", |port| port.ty))
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
