//! Layout of SVG drawings: nothing overlaps, and lines pass between the boxes.

use std::collections::BTreeMap;

use afferent_graph::{NodeDef, NodeError, NodeSpec, OnFull, PortId, PortKind, PortSpec};
use afferent_spec::{
    CheckedGraph, CheckedNode, DrawFormat, Edge, EdgePolicy, Labels, Machine, Partition, draw,
};

use crate::diagram::{Diagram, contains};

/// A dialogue agent: sender, payload type and receiver of each edge, `~` for feedback.
const AGENT: &str = "
    sound.audio audio/Block resample.audio
    resample.audio audio/Block vad.audio
    vad.speech audio/Block asr.audio
    vad.events speech/Event asr.events
    vad.events speech/Event turns.events
    asr.transcript speech/Transcript turns.transcript
    speaker.played audio/Played turns.played ~
    turns.text text/Text llm.text
    tool.results text/Tool llm.results ~
    tts.words speech/Word llm.words ~
    speaker.played audio/Played llm.played ~
    llm.calls text/Tool tool.calls
    llm.answer text/Text sentences.text
    tool.alarms text/Text sentences.notices
    sentences.text text/Text tts.text
    tts.audio audio/Block speaker.audio
    barge.gain audio/Gain speaker.gain
    vad.events speech/Event barge.events
    asr.transcript speech/Transcript barge.transcript
    turns.turns speech/Turn barge.turns
    speaker.played audio/Played barge.played ~
    asr.transcript speech/Transcript log.events
    turns.text text/Text log.events
    llm.calls text/Tool log.events
    tool.results text/Tool log.events
    sentences.text text/Text log.events
    barge.interrupt graph/Interruption log.events";

/// An edge: sender and output, payload type, receiver and input, feedback.
type Line = ((String, String), String, (String, String), bool);

fn lines(text: &str) -> Vec<Line> {
    let end = |text: &str| {
        let (node, port) = text.split_once('.').expect("node.port");
        (node.to_owned(), port.to_owned())
    };
    let line = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        (end(words[0]), words[1].to_owned(), end(words[2]), words.len() == 4)
    };
    text.lines().filter(|text| !text.trim().is_empty()).map(line).collect()
}

fn port(kind: PortKind, name: &str, ty: &str) -> PortSpec {
    PortSpec {
        id: PortId::at(0),
        kind,
        name: name.into(),
        ty: ty.into(),
        on_full: OnFull::Block,
        optional: true,
        many: true,
        interpolates: false,
        in_step: false,
        codec: None,
        wire: None,
        help: "".into(),
    }
}

/// Graph of these edges. Nodes are in the order in which they occur.
fn graph(lines: &[Line]) -> CheckedGraph {
    let mut ports: Vec<(&str, [BTreeMap<&str, PortSpec>; 2])> = Vec::new();
    for ((from, output), ty, (to, input), _) in lines {
        for (node, name, kind) in [(from, output, PortKind::Output), (to, input, PortKind::Input)] {
            let at = ports.iter().position(|(known, _)| known == node).unwrap_or(ports.len());
            if at == ports.len() {
                ports.push((node, Default::default()));
            }
            ports[at].1[usize::from(kind == PortKind::Output)].insert(name, port(kind, name, ty));
        }
    }
    let end_of = |node: &str, name: &str, output: usize| {
        let at = ports.iter().position(|(known, _)| *known == node).unwrap_or(0);
        let port = ports[at].1[output].keys().position(|known| *known == name);
        (at, PortId::at(port.unwrap_or(0)))
    };
    let policy = EdgePolicy { on_full: OnFull::Block, queue: 1, max_age: None };
    let edges = lines.iter().map(|((from, output), _, (to, input), feedback)| Edge {
        feedback: *feedback,
        ..Edge::new(end_of(from, output, 1), end_of(to, input, 0), policy)
    });
    let nodes = ports.iter().map(|(name, [inputs, outputs])| {
        let mut spec = NodeSpec::new(&format!("{name}_node"), &[]);
        spec.inputs = inputs.values().cloned().collect();
        spec.outputs = outputs.values().cloned().collect();
        let failed = |_: &_| Err(NodeError::Device { name: String::new(), reason: String::new() });
        CheckedNode::new(*name, NodeDef::from_fn(spec, failed))
    });
    let (nodes, edges) = (nodes.collect(), edges.collect());
    CheckedGraph { name: "drawn".into(), nodes, edges, ..CheckedGraph::default() }
}

/// Draws without and with figures, and checks both.
fn check(name: &str, graph: &CheckedGraph) -> Diagram {
    let figures = Labels {
        nodes: vec![
            Some("100.0 % busy, call 1234 us, 3 errors, 2 restarts".into());
            graph.nodes.len()
        ],
        edges: vec![Some("1234.5/s, 67890 dropped".into()); graph.edges.len()],
    };
    for (suffix, labels) in [(".figures", figures), ("", Labels::default())] {
        let svg = draw(graph, DrawFormat::Svg, &labels);
        if let Some(folder) = std::env::var_os("AFFERENT_DRAW_TO") {
            let path = std::path::Path::new(&folder).join(format!("{name}{suffix}.svg"));
            std::fs::write(path, &svg).expect("a writable folder");
        }
        let diagram = Diagram::parse(&svg);
        assert_eq!(diagram.faults(), Vec::<String>::new(), "{name}{suffix}");
        assert_eq!(diagram.boxes.len(), graph.nodes.len());
        assert_eq!(diagram.edges.len(), graph.edges.len());
        // Columns of processes need the width of their widest nodes.
        let limit = if graph.partitions.len() > 1 { 2000.0 } else { 1200.0 };
        assert!(diagram.width <= limit, "{name}{suffix}: {}", diagram.width);
        check_frames(graph, &diagram, name);
    }
    Diagram::parse(&draw(graph, DrawFormat::Svg, &Labels::default()))
}

/// Each frame holds the nodes of its machine or process and no others.
fn check_frames(graph: &CheckedGraph, diagram: &Diagram, name: &str) {
    let machines = graph.machines.iter().enumerate().map(|(machine, found)| {
        let nodes = (0..graph.nodes.len()).filter(|node| graph.machine_of(*node) == machine);
        (found.name.clone(), nodes.collect::<Vec<_>>())
    });
    let processes = graph.partitions.iter().enumerate().filter_map(|(index, partition)| {
        let nodes = (0..graph.nodes.len()).filter(|node| graph.partition_of(*node) == index);
        Some((partition.process.clone()?, nodes.collect()))
    });
    let mut expected: Vec<_> = machines.chain(processes).collect();
    expected.retain(|(_, nodes)| !nodes.is_empty());
    let found = diagram.titles.iter().zip(&diagram.frames).map(|((title, _), frame)| {
        let nodes = 0..diagram.boxes.len();
        let nodes = nodes.filter(|node| contains(*frame, diagram.boxes[*node]));
        (title.clone(), nodes.collect::<Vec<_>>())
    });
    let mut found: Vec<_> = found.collect();
    expected.sort();
    found.sort();
    assert_eq!(found, expected, "{name}");
}

/// Assigns the nodes to `machines`, each with a main process and one named process more.
fn assign(graph: &mut CheckedGraph, machines: &[&str], partition: impl Fn(usize) -> usize) {
    graph.machines = machines
        .iter()
        .map(|name| Machine { name: (*name).to_owned(), ..Machine::default() })
        .collect();
    let count = machines.len().max(1);
    let processes = ["gpu", "a_longer_name", "io"];
    let main = (0..count).map(|machine| Partition { machine, process: None });
    let named = (0..count).map(|machine| {
        let process = processes[machine % processes.len()].to_owned();
        Partition { machine, process: Some(process) }
    });
    graph.partitions = main.chain(named).collect();
    for (index, node) in graph.nodes.iter_mut().enumerate() {
        node.partition = partition(index);
    }
}

#[test]
fn machines_and_processes_have_frames() {
    let mut agent = graph(&lines(AGENT));
    let speech = ["llm", "tts", "sentences", "tool", "asr"];
    let is_speech: Vec<_> =
        agent.nodes.iter().map(|node| speech.contains(&node.name.as_str())).collect();
    let is_llm: Vec<_> = agent.nodes.iter().map(|node| node.name == "llm").collect();
    assign(&mut agent, &["robot", "base"], |node| match (is_llm[node], is_speech[node]) {
        (true, _) => 3,
        (_, true) => 1,
        _ => 0,
    });
    let diagram = check("agent_machines", &agent);
    assert_eq!(diagram.frames.len(), 3);
    assert!(diagram.width < 1200.0 && diagram.height < 1500.0, "{diagram:?}");
    assign(&mut agent, &[], |node| usize::from(is_llm[node]));
    assert_eq!(check("agent_process", &agent).frames.len(), 1);
}

#[test]
fn random_partitions_have_frames_without_overlaps() {
    for seed in 0..60 {
        let nodes = 2 + seed % 11;
        let mut graph = random(seed, nodes, nodes + seed % 7);
        let machines = &["robot", "base", "c"][..(seed % 4) as usize];
        let partitions = 2 * machines.len().max(1);
        assign(&mut graph, machines, |node| (node * 7 + seed as usize) % 5 % partitions);
        check(&format!("partitions{seed}"), &graph);
    }
}

#[test]
fn an_agent_is_drawn_from_top_to_bottom() {
    let diagram = check("agent", &graph(&lines(AGENT)));
    assert!(diagram.width < 900.0 && diagram.height < 1300.0, "{diagram:?}");
}

/// Random edges between `nodes` nodes; feedback and cycles included.
fn random(seed: u64, nodes: u64, edges: u64) -> CheckedGraph {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % below
    };
    let types = ["audio/Block", "speech/Transcript", "vision/Image"];
    let names = ["audio", "transcript", "i", "events"];
    let mut lines: Vec<Line> = Vec::new();
    for _ in 0..edges {
        let (from, to) = (next(nodes), next(nodes));
        let output = format!("{}{}", names[next(4) as usize], next(2));
        let input = format!("{}{}", names[next(4) as usize], lines.len());
        let ty = types[(output.len() + from as usize) % 3].to_owned();
        let feedback = from >= to && next(4) > 0;
        lines.push(((format!("node{from}"), output), ty, (format!("node{to}"), input), feedback));
    }
    graph(&lines)
}

#[test]
fn random_graphs_have_no_overlaps() {
    for seed in 0..60 {
        let nodes = 2 + seed % 11;
        check(&format!("random{seed}"), &random(seed, nodes, nodes + seed % 7));
    }
}

#[test]
fn a_layer_of_many_nodes_is_divided() {
    let lines: Vec<String> = (0..40)
        .map(|number| format!("camera.images vision/Image detector{number}.images"))
        .collect();
    let diagram = check("fan", &graph(&self::lines(&lines.join("\n"))));
    assert!(diagram.width > 600.0, "{}", diagram.width);
}
