//! Pictures of graphs.

use afferent_engine::{
    CheckedGraph, DrawFormat, EdgeCounts, EdgeReport, LoadOptions, NodeReport, Report, draw,
};
use afferent_graph::PortId;

use crate::catalog::check_text;

fn graph() -> CheckedGraph {
    check_text(include_str!("../data/sound.yaml"), &LoadOptions::default())
        .expect("a sound graph")
        .graph
}

#[test]
fn mermaid() {
    let text = draw(&graph(), DrawFormat::Mermaid, None);
    assert!(text.starts_with("flowchart LR\n    n0([\"<b>mic</b><br/>wav_source\"])\n"), "{text}");
    assert!(text.contains("\n    n1 -->|\"events<br/>speech/Event\"| n3\n"), "{text}");
    assert_eq!(text.lines().count(), 1 + 6 + 8);
}

#[test]
fn dot() {
    let text = draw(&graph(), DrawFormat::Dot, None);
    assert!(text.starts_with("digraph \"sound\" {\n"), "{text}");
    assert!(text.contains("    n1 -> n3 [label=\"events\\nspeech/Event\"];\n"), "{text}");
    assert!(text.ends_with("}\n"), "{text}");
}

#[test]
fn svg() {
    let text = draw(&graph(), DrawFormat::Svg, None);
    if let Some(path) = std::env::var_os("AFFERENT_DRAW_TO") {
        std::fs::write(path, &text).unwrap();
    }
    assert_eq!(text.matches("marker-end").count(), 8);
    assert_eq!(text.matches("rx=\"6\"").count(), 6);
    assert!(text.contains(">events: speech/Event</text>"), "{text}");
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    assert_eq!(text.matches('<').count(), text.matches('>').count());
    let empty = CheckedGraph { name: "<&".into(), ..CheckedGraph::default() };
    assert!(draw(&empty, DrawFormat::Svg, None).contains("<title>&lt;&amp;</title>"));
}

#[test]
fn a_cycle_is_drawn_too() {
    let mut graph = graph();
    let mut back = graph.edges[0].clone();
    (back.from, back.to) = ((5, PortId::at(0)), (1, PortId::at(0)));
    graph.edges.push(back);
    for format in [DrawFormat::Mermaid, DrawFormat::Dot, DrawFormat::Svg] {
        assert!(!draw(&graph, format, None).is_empty());
    }
}

#[test]
fn figures_of_a_run_stand_with_their_nodes_and_edges() {
    let graph = graph();
    let node = NodeReport { name: "vad".into(), busy_ns: 250_000, ..NodeReport::default() };
    let counts = EdgeCounts { dropped_full: 3, ..EdgeCounts::default() };
    let (from, to) = ("mic.audio".into(), "vad.audio".into());
    let edge = EdgeReport { from, to, rate_hz: 50.0, counts, ..EdgeReport::default() };
    let json = serde_json::json!({
        "graph": "sound", "end": "complete", "wall_ns": 1_000_000, "media_ns": 0, "busy_ns": 0,
        "real_time_factor": null, "wall_per_media": null, "nodes": [node], "edges": [edge],
        "paths": [], "pools": [], "budgets": [], "failures": [],
    });
    let report: Report = serde_json::from_value(json).unwrap();
    for format in [DrawFormat::Mermaid, DrawFormat::Dot, DrawFormat::Svg] {
        let text = draw(&graph, format, Some(&report));
        assert!(text.contains("25.0 % busy, call -"), "{text}");
        assert!(text.contains("50.0/s, 3 dropped"), "{text}");
    }
}
