//! Drawings of graphs.

use afferent_graph::PortId;
use afferent_spec::{CheckedGraph, DrawFormat, Labels, LoadOptions, draw};

use crate::catalog::check_text;

fn graph() -> CheckedGraph {
    check_text(include_str!("../data/sound.yaml"), &LoadOptions::default())
        .expect("a sound graph")
        .graph
}

#[test]
fn mermaid() {
    let text = draw(&graph(), DrawFormat::Mermaid, &Labels::default());
    assert!(text.starts_with("flowchart LR\n    n0([\"<b>mic</b><br/>wav_source\"])\n"), "{text}");
    assert!(text.contains("\n    n1 -->|\"events<br/>speech/Event\"| n3\n"), "{text}");
    assert_eq!(text.lines().count(), 1 + 6 + 8);
}

#[test]
fn dot() {
    let text = draw(&graph(), DrawFormat::Dot, &Labels::default());
    assert!(text.starts_with("digraph \"sound\" {\n"), "{text}");
    assert!(text.contains("    n1 -> n3 [label=\"events\\nspeech/Event\"];\n"), "{text}");
    assert!(text.ends_with("}\n"), "{text}");
}

#[test]
fn svg() {
    let text = draw(&graph(), DrawFormat::Svg, &Labels::default());
    if let Some(path) = std::env::var_os("AFFERENT_DRAW_TO") {
        std::fs::write(path, &text).unwrap();
    }
    assert_eq!(text.matches("marker-end").count(), 8);
    assert_eq!(text.matches("rx=\"6\"").count(), 6);
    assert!(text.contains(">events: speech/Event</text>"), "{text}");
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    assert_eq!(text.matches('<').count(), text.matches('>').count());
    let empty = CheckedGraph { name: "<&".into(), ..CheckedGraph::default() };
    assert!(draw(&empty, DrawFormat::Svg, &Labels::default()).contains("<title>&lt;&amp;</title>"));
}

#[test]
fn a_cycle_is_drawn_too() {
    let mut graph = graph();
    let mut back = graph.edges[0].clone();
    (back.from, back.to) = ((5, PortId::at(0)), (1, PortId::at(0)));
    graph.edges.push(back);
    for format in [DrawFormat::Mermaid, DrawFormat::Dot, DrawFormat::Svg] {
        assert!(!draw(&graph, format, &Labels::default()).is_empty());
    }
}

#[test]
fn labels_follow_their_nodes_and_edges() {
    let labels = Labels {
        nodes: vec![None, Some("25.0 % busy".into())],
        edges: vec![Some("50.0/s, 3 dropped".into())],
    };
    for format in [DrawFormat::Mermaid, DrawFormat::Dot, DrawFormat::Svg] {
        let text = draw(&graph(), format, &labels);
        assert!(text.contains("25.0 % busy") && text.contains("50.0/s, 3 dropped"), "{text}");
    }
}
