//! Graphs without faults.

use std::{path::PathBuf, time::Duration};

use afferent_graph::{OnFull, OpenCx, ParamValue, PortId, PortKind};
use afferent_spec::{
    Checked, EdgePolicy, Graph, InputConfig, LoadOptions, Loaded, NodeConfig, OnError, PortRef,
    Restart, Schedule, check, parse,
};

use crate::catalog::{catalog, check_text};

const TEXT: &str = include_str!("../data/sound.yaml");

/// Nodes and edges of a graph, one per line.
fn outline(checked: &Checked) -> Vec<String> {
    let graph = &checked.graph;
    let nodes = graph.nodes.iter().map(|node| {
        let thread = node.schedule.thread.as_deref().unwrap_or("-");
        let params: Vec<_> =
            node.params.iter().map(|(key, value)| format!("{key}={value}")).collect();
        format!("{}: {} on {thread} {}", node.name, node.def.name, params.join(" "))
    });
    let edges = graph.edges.iter().map(|edge| {
        let EdgePolicy { on_full, queue, max_age } = edge.policy;
        let from = graph.port_name(edge.from, PortKind::Output);
        let to = graph.port_name(edge.to, PortKind::Input);
        let age = max_age.map_or_else(String::new, |age| format!(" {age:?}"));
        format!("{from} > {to} {on_full:?} {queue}{age}")
    });
    nodes.chain(edges).collect()
}

fn options(profile: &str, set: &[&str]) -> LoadOptions {
    let profile = Some(profile).filter(|name| !name.is_empty()).map(str::to_owned);
    let set = set.iter().map(|set| (*set).to_owned()).collect();
    LoadOptions { profile, set, ..LoadOptions::default() }
}

#[test]
fn threads_and_limits_are_read() {
    let text = "afferent: 1\nnodes:\n m: {use: microphone, cpu: 0, priority: 99, spin: 50us}\n p: {use: print, in: {from: m, on_full: latest}}\n q: {use: print, in: {from: m, on_full: latest, in_flight: unlimited}}\n r: {use: print, in: {from: m, in_flight: 3}}\n";
    let graph = check_text(text, &LoadOptions::default()).unwrap().graph;
    let schedule = Schedule {
        thread: None,
        cpu: Some(0),
        priority: Some(99),
        spin: Some(Duration::from_micros(50)),
    };
    assert_eq!(graph.nodes[0].schedule, schedule);
    let limits: Vec<_> = graph.edges.iter().map(|edge| edge.in_flight).collect();
    assert_eq!(limits, [Some(2), None, Some(3)]);
}

#[test]
fn a_file_becomes_a_graph() {
    let checked = check_text(TEXT, &LoadOptions::default()).unwrap();
    assert_eq!(checked.graph.name, "sound");
    assert!(checked.warnings.is_empty(), "{}", checked.warnings);
    let expected = [
        "mic: wav_source on - pace=max path=graphs/in.wav",
        "vad: vad on ears min_silence=300ms model=graphs/models/vad threshold=0.5",
        "mel: log_mel on - ",
        "asr: asr on - language=en",
        "mix: mix on - ",
        "out: print on - ",
        "mic.audio > vad.audio Block 16",
        "vad.audio > mel.audio DropOldest 4 50ms",
        "mel.features > asr.features Block 16",
        "vad.events > asr.events Latest 1",
        "mic.audio > mix.audio Block 16",
        "vad.audio > mix.audio Block 16",
        "asr.words > out.in Block 16",
        "mix.audio > out.in Block 2",
    ];
    assert_eq!(outline(&checked), expected);
}

#[test]
fn profiles_and_settings_change_it() {
    let set = ["vad.threshold=0.25", "asr.language=de", "vad.min_silence=~"];
    let checked = check_text(TEXT, &options("live", &set)).unwrap();
    let outline = outline(&checked);
    let expected = [
        "mic: microphone on - ",
        "vad: vad on ears limit=3 model=graphs/models/vad threshold=0.25",
        "asr: asr on - language=de",
        "out: print on - ",
        "front: log_mel on front ",
    ];
    assert_eq!(outline[..5], expected);
    for edge in ["mic.audio > vad.audio Block 16", "front.features > asr.features Block 16"] {
        assert!(outline.contains(&edge.to_owned()), "{outline:?}");
    }
    let checked = check_text(TEXT, &options("limited", &[])).unwrap();
    let expected = "vad: vad on ears limit=3 min_silence=300ms model=graphs/models/vad";
    assert_eq!(self::outline(&checked)[1], expected);
}

#[test]
fn the_graph_keeps_budget_interrupt_and_supervision() {
    let checked = check_text(TEXT, &LoadOptions::default()).unwrap().graph;
    assert_eq!(checked.interrupt, Some((1, PortId::at(1))));
    let canceled = checked.nodes.iter().filter(|node| node.canceled);
    assert_eq!(canceled.map(|node| node.name.as_str()).collect::<Vec<_>>(), ["asr", "out"]);
    let (from, to) = (checked.budgets[0].from, checked.budgets[0].to);
    assert_eq!((from.node, from.port, to.node, to.port), (1, PortId::at(1), 5, PortId::at(0)));
    assert_eq!((from.kind, to.kind), (PortKind::Output, PortKind::Input));
    let mix = &checked.nodes[4];
    let restart = Restart { limit: 3, ..Restart::default() };
    assert_eq!(mix.on_error, OnError::Restart(restart));
    assert_eq!(mix.deadline, Some(Duration::from_millis(50)));
    let graph = parse(TEXT, "graphs/g.yaml".as_ref(), &LoadOptions::default()).graph;
    assert_eq!(graph.folder, PathBuf::from("graphs"));
    assert_eq!(graph.budgets[0].p95, Some(Duration::from_millis(1200)));
    let interrupt = graph.interrupt.unwrap();
    assert_eq!(interrupt.on, PortRef { node: "vad".into(), port: "events".into() });
    assert_eq!(interrupt.cancels, ["asr", "out"]);
}

#[test]
fn a_graph_can_be_built_in_rust() {
    let node = |name: &str, kind: &str, from: &str| NodeConfig {
        name: name.to_owned(),
        kind: kind.to_owned(),
        inputs: Some(from)
            .filter(|from| !from.is_empty())
            .map(|from| InputConfig { from_node: from.to_owned(), ..InputConfig::default() })
            .into_iter()
            .collect(),
        ..NodeConfig::default()
    };
    let mut graph = Graph {
        nodes: vec![node("mic", "microphone", ""), node("out", "wav_sink", "mic")],
        folder: "f".into(),
        ..Graph::default()
    };
    let check = |graph: &Graph| check(&Loaded::from(graph.clone()), &catalog(), &OpenCx::default());
    let faults = check(&graph).unwrap_err();
    let message = "error: node \"out\" needs the parameter \"path\"";
    assert!(faults.to_string().starts_with(message), "{faults}");
    graph.nodes[1].params.insert("path".into(), ParamValue::Path("o.wav".into()));
    graph.nodes[1].params.insert("gain_db".into(), ParamValue::Int(-3));
    graph.nodes[1].inputs[0].on_full = Some(OnFull::Latest);
    let expected = [
        "mic: microphone on - ",
        "out: wav_sink on - gain_db=-3 path=f/o.wav",
        "mic.audio > out.audio Latest 1",
    ];
    assert_eq!(outline(&check(&graph).unwrap()), expected);
    graph.nodes[0].kind = "microphon".into();
    graph.nodes[1].params.insert("gain_db".into(), ParamValue::Int(30));
    let expected = "\
error: unknown kind \"microphon\" of node \"mic\"
 |
 = help: did you mean \"microphone\"?

error: parameter \"gain_db\" of node \"out\": 30 is out of range: -60 to 20 dB

2 errors";
    assert_eq!(check(&graph).unwrap_err().to_string(), expected);
    assert_eq!(
        check(&Graph::default()).unwrap_err().to_string(),
        "error: the graph has no nodes\n\n1 error"
    );
}
