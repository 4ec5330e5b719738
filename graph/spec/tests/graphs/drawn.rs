//! Drawings of graphs.

use afferent_graph::PortId;
use afferent_spec::{CheckedGraph, DrawFormat, Labels, LoadOptions, draw};

use crate::{catalog::check_text, diagram::Diagram, placed::TEXT};

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
fn machines_and_processes_enclose_their_nodes() {
    let graph = check_text(TEXT, &LoadOptions::default()).expect("a sound graph").graph;
    let text = draw(&graph, DrawFormat::Mermaid, &Labels::default());
    let nodes = text.lines().filter(|line| !line.contains("-->"));
    // Without the kinds.
    let nodes: Vec<_> = nodes.map(|line| line.split("<br/>").next().unwrap_or("")).collect();
    let expected = [
        "flowchart LR",
        "    subgraph p0[\"robot\"]",
        "        n0([\"<b>mic</b>",
        "        n2[\"<b>mel</b>",
        "        subgraph p3[\"gpu\"]",
        "            n3[\"<b>mix</b>",
        "        end",
        "    end",
        "    subgraph p7[\"base\"]",
        "        n4[\"<b>out</b>",
        "        subgraph p9[\"gpu\"]",
        "            n1[\"<b>vad</b>",
        "        end",
        "    end",
    ];
    assert_eq!(nodes, expected);
    let text = draw(&graph, DrawFormat::Dot, &Labels::default());
    let robot = "    subgraph cluster_0 {\n        label=\"robot\"; labeljust=l; style=rounded; fontname=\"sans-serif\";\n        n0 [label=\"mic\\nmicrophone\"];\n";
    assert!(text.contains(robot), "{text}");
    assert!(text.contains("            n1 [label=\"vad\\nvad\"];\n        }\n    }\n"), "{text}");
    assert_eq!(text.matches('{').count(), text.matches('}').count());
    let text = draw(&graph, DrawFormat::Svg, &Labels::default());
    let diagram = Diagram::parse(&text);
    assert_eq!(diagram.faults(), Vec::<String>::new());
    let titles: Vec<_> = diagram.titles.iter().map(|(title, _)| title.as_str()).collect();
    assert_eq!(titles, ["robot", "base", "gpu", "gpu"]);
    // The main process of a graph without machines needs no frame.
    let text =
        "afferent: 1\nnodes:\n  m: {use: microphone}\n  p: {use: print, in: m, process: b}\n";
    let graph = check_text(text, &LoadOptions::default()).expect("a sound graph").graph;
    let text = draw(&graph, DrawFormat::Mermaid, &Labels::default());
    assert!(text.contains("\n    n0([") && text.contains("\n        n1["), "{text}");
}

#[test]
fn svg() {
    let text = draw(&graph(), DrawFormat::Svg, &Labels::default());
    assert_eq!(Diagram::parse(&text).faults(), Vec::<String>::new());
    assert_eq!(text.matches("marker-end").count(), 8);
    assert_eq!(text.matches("rx=\"6\"").count(), 6);
    assert!(text.contains(">events</text>") && text.contains(">speech/Event</text>"), "{text}");
    assert!(text.contains("<title>mic.audio -&gt; vad.audio</title>"), "{text}");
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
    let texts = DrawFormat::WORDS
        .map(|word| draw(&graph, word.parse().expect("a format"), &Labels::default()));
    assert!(texts[2].contains("stroke-dasharray"), "{}", texts[2]);
    assert_eq!(Diagram::parse(&texts[2]).faults(), Vec::<String>::new());
    // Only marked edges are feedback.
    assert!(!texts[0].contains("-.->") && !texts[1].contains("dashed"));
}

#[test]
fn feedback_is_dashed() {
    let mut graph = graph();
    graph.edges[0].feedback = true;
    let texts = [DrawFormat::Mermaid, DrawFormat::Dot, DrawFormat::Svg]
        .map(|format| draw(&graph, format, &Labels::default()));
    for (text, dashed) in texts.iter().zip(["-.->", "style=dashed", "stroke-dasharray"]) {
        assert_eq!(text.matches(dashed).count(), 1, "{text}");
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
        assert!(text.contains("25.0 % busy"), "{text}");
        // An image breaks lines.
        let edge = if format == DrawFormat::Svg { ">3 dropped<" } else { "50.0/s, 3 dropped" };
        assert!(text.contains(edge), "{text}");
    }
}
