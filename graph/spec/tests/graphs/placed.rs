//! Machines and processes of graphs.

use std::time::Duration;

use afferent_graph::PortKind;
use afferent_spec::{CheckedGraph, LoadOptions, OnLoss, PlacementOptions};

use crate::catalog::check_text;

pub(crate) const TEXT: &str = "afferent: 1
machines:
  robot: {listen: quic/0.0.0.0:7450}
  base: {}
nodes:
  mic: {use: microphone}
  vad: {use: vad, in: mic, machine: base, process: gpu}
  mel: {use: log_mel, in: {from: vad.audio, on_loss: wait, loss_timeout: 5s}, machine: robot}
  mix: {use: mix, in: [mic, {from: vad.audio, on_loss: end}], process: gpu}
  out: {use: print, in: [mel, mix, vad.events], machine: base}
";

fn graph(text: &str) -> CheckedGraph {
    check_text(text, &LoadOptions::default()).unwrap_or_else(|faults| panic!("{faults}")).graph
}

#[test]
fn nodes_are_assigned_to_partitions() {
    let graph = graph(TEXT);
    let names: Vec<_> =
        (0..graph.partitions.len()).map(|partition| graph.partition_name(partition)).collect();
    assert_eq!(names, ["robot", "base", "base/gpu", "robot/gpu"]);
    let placed: Vec<_> = graph.nodes.iter().map(|node| node.partition).collect();
    assert_eq!(placed, [0, 2, 0, 3, 1]);
    assert_eq!(graph.machines[0].listen.as_deref(), Some("quic/0.0.0.0:7450"));
    let crossing = graph.edges.iter().map(|edge| {
        let from = graph.port_name(edge.from, PortKind::Output);
        let to = &graph.nodes[edge.to.0].name;
        format!("{from} > {to} {} {}", graph.crosses(edge), graph.crosses_machines(edge))
    });
    let mut crossing: Vec<_> = crossing.collect();
    crossing.sort();
    let expected = [
        "mel.features > out true true",
        "mic.audio > mix true false",
        "mic.audio > vad true true",
        "mix.audio > out true true",
        "vad.audio > mel true true",
        "vad.audio > mix true true",
        "vad.events > out true false",
    ];
    assert_eq!(crossing, expected);
    let loss = |to: usize, from: usize| {
        let edge = graph.edges.iter().find(|edge| edge.to.0 == to && edge.from.0 == from).unwrap();
        (edge.on_loss, edge.loss_timeout)
    };
    assert_eq!(loss(2, 1), (OnLoss::Wait, Some(Duration::from_secs(5))));
    assert_eq!(loss(3, 1), (OnLoss::End, None));
    assert_eq!(loss(3, 0), (OnLoss::Wait, None));
}

#[test]
fn a_graph_without_machines_is_one_partition() {
    let plain = graph(include_str!("../data/sound.yaml"));
    assert!(plain.machines.is_empty() && plain.nodes.iter().all(|node| node.partition == 0));
    assert_eq!((plain.partitions.len(), plain.partition_name(0)), (1, "main".to_owned()));
    assert!(!plain.edges.iter().any(|edge| plain.crosses(edge)));
    let built = CheckedGraph { edges: plain.edges, ..CheckedGraph::default() };
    assert!(!built.edges.iter().any(|edge| built.crosses(edge) || built.crosses_machines(edge)));
    let process =
        "afferent: 1\nnodes:\n  m: {use: microphone}\n  p: {use: print, process: b, in: m}\n";
    let graph = graph(process);
    assert_eq!(graph.partition_name(1), "b");
    assert!(graph.crosses(&graph.edges[0]) && !graph.crosses_machines(&graph.edges[0]));
}

#[test]
fn here_is_one_partition() {
    let placement = PlacementOptions { here: true, ..PlacementOptions::default() };
    let options = LoadOptions { placement, ..LoadOptions::default() };
    let graph = check_text(TEXT, &options).unwrap().graph;
    assert_eq!((graph.machines.len(), graph.partitions.len()), (0, 1));
    assert!(!graph.edges.iter().any(|edge| graph.crosses(edge)));
    // Names are checked nevertheless.
    assert!(check_text(&TEXT.replace("machine: base", "machine: bass"), &options).is_err());
}
