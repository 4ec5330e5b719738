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

use std::{fmt::Write, str::FromStr};

use crate::{CheckedGraph, EdgeReport, NodeReport, Report, checked::end_name, summary::time};

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

/// Draws `graph`: each node with its name and kind, each edge with output and payload; with the
/// figures of a run, where there are any.
pub fn draw(graph: &CheckedGraph, format: DrawFormat, figures: Option<&Report>) -> String {
    let words = Words::new(graph, figures);
    match format {
        DrawFormat::Mermaid => mermaid::draw(graph, &words),
        DrawFormat::Dot => dot::draw(graph, &words),
        DrawFormat::Svg => svg::draw(graph, &words),
    }
}

/// What stands in the boxes and at the arrows, line by line.
struct Words {
    nodes: Vec<Vec<String>>,
    edges: Vec<Vec<String>>,
}

impl Words {
    fn new(graph: &CheckedGraph, figures: Option<&Report>) -> Self {
        let nodes = graph.nodes.iter().map(|node| {
            let mut lines = vec![node.name.clone(), node.def.name.to_string()];
            let found = figures.and_then(|report| Some((report, report.node(&node.name)?)));
            if let Some((report, found)) = found {
                lines.push(node_figures(report, found));
            }
            lines
        });
        let edges = graph.edges.iter().map(|edge| {
            let (place, name) = edge.from;
            let node = graph.nodes.get(place);
            let mut outputs = node.into_iter().flat_map(|node| node.def.outputs.iter());
            let payload =
                outputs.nth(name.index()).map_or(("", ""), |port| (&*port.name, &*port.ty));
            let mut lines = vec![payload.0.to_owned(), payload.1.to_owned()];
            let from = end_name(graph, edge.from, afferent_graph::PortKind::Output);
            let to = end_name(graph, edge.to, afferent_graph::PortKind::Input);
            let found = figures.and_then(|report| report.edge(&from, &to));
            lines.extend(found.map(edge_figures));
            lines
        });
        Self { nodes: nodes.collect(), edges: edges.collect() }
    }
}

fn node_figures(report: &Report, node: &NodeReport) -> String {
    let share = 100.0 * node.busy_ns as f64 / report.wall_ns.max(1) as f64;
    let mut text = format!("{share:.1} % busy, call {}", time(node.call.p50_ns));
    if node.restarts + node.errors > 0 {
        let _ = write!(text, ", {} errors, {} restarts", node.errors, node.restarts);
    }
    text
}

fn edge_figures(edge: &EdgeReport) -> String {
    let dropped = edge.counts.dropped();
    match dropped {
        0 => format!("{:.1}/s", edge.rate_hz),
        _ => format!("{:.1}/s, {dropped} dropped", edge.rate_hz),
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
