//! A graph on two machines, with a wire between them that has faults.

use std::time::Duration;

use afferent_engine::Report;
use afferent_graph::OnFull;
use afferent_spec::{CheckedGraph, EdgePolicy};
use afferent_transport::{
    Transport, local,
    remote::{RemoteConfig, RemoteLink},
};

use super::{
    faulty::{Faults, Pair},
    nodes::{BLOCKS, on_machines, run_all},
};

const NONE: Faults = Faults { lost: 0, repeated: 0, delayed: 0, interruptions: None };

/// Runs every partition; returns the report of the first machine and what was collected.
fn run(graph: &CheckedGraph, faults: Faults, seed: u64) -> (Report, Vec<(i64, usize, f32)>) {
    let transports: Vec<_> = (0..graph.partitions.len())
        .map(|partition| Transport::new(graph, partition, 0).unwrap())
        .collect();
    let (ours, theirs) = local::pair().unwrap();
    transports[1].connect_local(2, ours).unwrap();
    transports[2].connect_local(1, theirs).unwrap();
    let pair = Pair::new();
    let is_volatile: Vec<_> =
        graph.edges.iter().map(|edge| edge.policy.on_full != OnFull::Block).collect();
    let links = [0, 1].map(|here: usize| {
        let there = 1 - here;
        let config = RemoteConfig {
            peer: there.to_string(),
            instance: 100 + here as u64,
            is_volatile: is_volatile.clone(),
            patience: Duration::from_millis(10),
        };
        let inbox = transports[here].inbox(there);
        let wire = pair.wires[here].clone();
        let link = RemoteLink::start(config, wire, inbox).unwrap();
        transports[here].connect_link(there, link.clone());
        link
    });
    pair.start(links, faults, seed);
    run_all(graph, &transports)
}

fn check_accounts(report: &Report) {
    for edge in &report.edges {
        let counts = edge.counts;
        let all = counts.delivered + counts.dropped() + counts.depth as u64 + edge.lost;
        assert_eq!((counts.sent, edge.in_transit), (all, 0), "{edge:?}");
    }
}

const FAULTS: Faults =
    Faults { lost: 20, repeated: 20, delayed: 20, interruptions: Some(Duration::from_millis(300)) };

/// Breaks often, so that messages become due without a link.
const BREAKS: Faults = Faults { interruptions: Some(Duration::from_millis(10)), ..NONE };

#[test]
fn nothing_is_lost_whatever_the_wire_does() {
    let policy = EdgePolicy { on_full: OnFull::Block, queue: 16, max_age: None };
    for (seed, faults) in [(1, NONE), (2, FAULTS), (3, BREAKS)] {
        for partitions in [[0, 1, 0], [2, 0, 2], [0, 2, 1]] {
            let (report, collected) = run(&on_machines(partitions, policy), faults, seed);
            assert_eq!(collected.len(), BLOCKS, "{partitions:?} {faults:?} {:#?}", report.edges);
            for (index, found) in collected.into_iter().enumerate() {
                let len = if index.is_multiple_of(3) { 10_000 } else { 16 };
                assert_eq!(found, (index as i64, len, index as f32 + 1.0), "{partitions:?}");
            }
            check_accounts(&report);
            assert!(report.edges.iter().all(|edge| edge.lost == 0), "{:?}", report.edges);
        }
    }
}

#[test]
fn the_latest_packets_are_not_sent_again_and_are_accounted_for() {
    let policy = EdgePolicy { on_full: OnFull::Latest, queue: 1, max_age: None };
    for (seed, faults) in [(1, NONE), (2, FAULTS)] {
        let (report, collected) = run(&on_machines([0, 1, 2], policy), faults, seed);
        assert!(collected.is_sorted_by(|one, next| one.0 < next.0), "in their order");
        check_accounts(&report);
        let delivered = report.edges[1].counts.delivered;
        assert_eq!(collected.len() as u64, delivered, "{:?}", report.edges);
    }
}
