//! Pictures of graphs.

use afferent_engine::{CheckedGraph, DrawFormat, LoadOptions, draw};

use crate::catalogue::check_text;

fn graph() -> CheckedGraph {
    check_text(include_str!("../data/sound.yaml"), &LoadOptions::default())
        .expect("a sound graph")
        .graph
}

#[test]
fn mermaid() {
    let text = draw(&graph(), DrawFormat::Mermaid);
    assert!(text.starts_with("flowchart LR\n    n0([\"<b>mic</b><br/>wav_source\"])\n"), "{text}");
    assert!(text.contains("\n    n1 -->|\"events<br/>speech/Event\"| n3\n"), "{text}");
    assert_eq!(text.lines().count(), 1 + 6 + 8);
}

#[test]
fn dot() {
    let text = draw(&graph(), DrawFormat::Dot);
    assert!(text.starts_with("digraph \"sound\" {\n"), "{text}");
    assert!(text.contains("    n1 -> n3 [label=\"events\\nspeech/Event\"];\n"), "{text}");
    assert!(text.ends_with("}\n"), "{text}");
}

#[test]
fn svg() {
    let text = draw(&graph(), DrawFormat::Svg);
    if let Some(path) = std::env::var_os("AFFERENT_DRAW_TO") {
        std::fs::write(path, &text).unwrap();
    }
    assert_eq!(text.matches("marker-end").count(), 8);
    assert_eq!(text.matches("rx=\"6\"").count(), 6);
    assert!(text.contains(">events: speech/Event</text>"), "{text}");
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    assert_eq!(text.matches('<').count(), text.matches('>').count());
    let empty = CheckedGraph { name: "<&".into(), ..CheckedGraph::default() };
    assert!(draw(&empty, DrawFormat::Svg).contains("<title>&lt;&amp;</title>"));
}

#[test]
fn a_cycle_is_drawn_too() {
    let mut graph = graph();
    let mut back = graph.edges[0].clone();
    (back.from, back.to) = ((5, "words"), (1, "audio"));
    graph.edges.push(back);
    for format in [DrawFormat::Mermaid, DrawFormat::Dot, DrawFormat::Svg] {
        assert!(!draw(&graph, format).is_empty());
    }
}
