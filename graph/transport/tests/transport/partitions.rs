//! A graph in several partitions, all in this process: each with a transport and a session.

use std::time::Duration;

use afferent_engine::Report;
use afferent_graph::{Cx, Node, NodeDef, NodeError, OnFull, OpenCx, Port, PortId};
use afferent_messages::AudioBlock;
use afferent_spec::{CheckedGraph, CheckedNode, Edge, EdgePolicy};
use afferent_transport::{Transport, local};

use super::nodes::{AUDIO, AUDIO_IN, BLOCKS, Collected, graph, run_all};

/// Runs every partition; returns the merged report and what was collected.
fn run(graph: &CheckedGraph) -> (Report, Vec<(i64, usize, f32)>) {
    let transports: Vec<_> = (0..graph.partitions.len())
        .map(|partition| Transport::new(graph, partition, 0).unwrap())
        .collect();
    for partition in 1..transports.len() {
        let (ours, theirs) = local::pair().unwrap();
        let (main, other) = (&transports[0], &transports[partition]);
        main.connect_local(partition, ours).unwrap();
        other.connect_local(0, theirs).unwrap();
    }
    run_all(graph, &transports)
}

fn check(partitions: [usize; 3]) {
    let policy = EdgePolicy { on_full: OnFull::Block, queue: 4, max_age: None };
    let (report, collected) = run(&graph(partitions, policy));
    assert_eq!(collected.len(), BLOCKS, "{partitions:?} {:#?}", report.edges);
    for (index, found) in collected.into_iter().enumerate() {
        let len = if index.is_multiple_of(3) { 10_000 } else { 16 };
        assert_eq!(found, (index as i64, len, index as f32 + 1.0), "{partitions:?}");
    }
    let blocks = BLOCKS as u64;
    for edge in &report.edges {
        let counts = edge.counts;
        let expected = (blocks, blocks, 0, 0, 0, 0);
        let found = (
            counts.sent,
            counts.delivered,
            counts.dropped(),
            counts.depth,
            edge.in_transit,
            edge.lost,
        );
        assert_eq!(found, expected, "{partitions:?} {edge:?}");
    }
    let calls: Vec<_> = report.nodes.iter().map(|node| (node.name.as_str(), node.calls)).collect();
    // Counters and increments are called once more at their end.
    assert_eq!(calls[2].0, "collect");
    assert!(calls.iter().all(|(_, calls)| *calls >= blocks), "{partitions:?} {calls:?}");
}

#[test]
fn nothing_is_lost_whatever_the_partitions() {
    for partitions in [[0, 0, 0], [0, 1, 0], [1, 0, 1], [0, 0, 1], [1, 2, 0], [1, 1, 2], [2, 1, 2]]
    {
        check(partitions);
    }
}

/// Interrupts the graph with its tenth block.
struct Interrupter {
    number: i64,
}

impl Node for Interrupter {
    type Params = ();
    const NAME: &'static str = "interrupter";
    const SUMMARY: &'static str = "";
    const PORTS: &'static [Port] = &[AUDIO.port()];
    const LATENCY: &'static str = "none";

    fn open((): (), _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self { number: 0 })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        self.number += 1;
        match self.number {
            // Long enough for the other process to be at work.
            1 => cx.resume_at(cx.now() + Duration::from_millis(50)),
            2 => {
                cx.send_at(AUDIO, cx.now(), AudioBlock::default());
                cx.resume_at(cx.now() + Duration::from_millis(50));
            }
            _ => cx.end(),
        }
        Ok(())
    }
}

/// Counts interrupts.
struct Canceled {
    collected: Collected,
}

impl Node for Canceled {
    type Params = ();
    const NAME: &'static str = "canceled";
    const SUMMARY: &'static str = "";
    const PORTS: &'static [Port] = &[AUDIO_IN.port()];
    const LATENCY: &'static str = "none";

    fn open((): (), cx: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self { collected: cx.services.need::<Collected>()?.clone() })
    }

    fn process(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        Ok(())
    }

    fn cancel(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        self.collected.0.lock().unwrap().push((0, 0, 0.0));
        Ok(())
    }
}

#[test]
fn an_interrupt_reaches_the_nodes_of_other_partitions() {
    let policy = EdgePolicy { on_full: OnFull::Block, queue: 4, max_age: None };
    let graph = graph([1, 0, 0], policy);
    let assign = |node: CheckedNode, partition| CheckedNode { partition, ..node };
    let canceled = CheckedNode::new("canceled", NodeDef::of::<Canceled>());
    let graph = CheckedGraph {
        nodes: vec![
            assign(CheckedNode::new("interrupter", NodeDef::of::<Interrupter>()), 1),
            CheckedNode { canceled: true, ..assign(canceled, 2) },
        ],
        edges: vec![Edge::new((0, PortId::at(0)), (1, PortId::at(0)), policy)],
        interrupt: Some((0, PortId::at(0))),
        ..graph
    };
    let (report, collected) = run(&graph);
    assert_eq!(collected.len(), 1, "the interrupt began in another process");
    assert_eq!(report.node("canceled").unwrap().interrupts, 1);
}

#[test]
fn the_latest_packet_is_kept_and_the_others_are_counted() {
    let policy = EdgePolicy { on_full: OnFull::Latest, queue: 1, max_age: None };
    let (report, collected) = run(&graph([0, 1, 2], policy));
    assert_eq!(collected.last().unwrap().0, BLOCKS as i64 - 1, "the last one arrives");
    for edge in &report.edges {
        let counts = edge.counts;
        assert_eq!(counts.sent, counts.delivered + counts.dropped(), "{edge:?}");
        assert_eq!((edge.in_transit, edge.lost, counts.depth), (0, 0, 0), "{edge:?}");
    }
}
