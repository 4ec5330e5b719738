//! Random graphs in several partitions: all in this process, each with a session and a transport.

use std::{path::Path, sync::Arc, thread};

use afferent_engine::{ClockKind, Report, RunError, RunOptions, Session};
use afferent_graph::{Catalog, OpenCx};
use afferent_spec::{CheckedGraph, LoadOptions, Partition, check, parse};
use afferent_transport::{Transport, local::pair};
use fastrand::Rng;

use crate::{
    graph_file,
    nodes::{NODES, SERIAL},
    random_graphs::check_report,
    seeds,
};

/// Default number of graphs.
const DEFAULT_GRAPHS: u64 = 400;

#[test]
fn random_graphs_in_partitions_lose_no_packets() {
    let _serial = SERIAL.lock();
    let (mut valid, mut crossing) = (0_u64, 0);
    seeds::for_each(seeds::env_number("AFFERENT_GRAPHS").unwrap_or(DEFAULT_GRAPHS), |seed| {
        let mut random = Rng::with_seed(seed);
        let text = graph_file::generate(&mut random);
        let loaded = parse(&text, Path::new("random.yaml"), &LoadOptions::default());
        let catalog = Catalog::default().with_nodes(NODES);
        let Ok(checked) = check(&loaded, &catalog, &OpenCx::default()) else { return };
        let mut graph = checked.graph;
        let partitions = random.usize(2..4);
        graph.partitions = (0..partitions)
            .map(|index| Partition {
                machine: 0,
                process: (index > 0).then(|| format!("process{index}")),
            })
            .collect();
        for node in &mut graph.nodes {
            node.partition = random.usize(0..partitions);
        }
        let text = format!(
            "{text}partitions: {:?}",
            graph.nodes.iter().map(|node| (&node.name, node.partition)).collect::<Vec<_>>()
        );
        let (report, has_failed) = run(&graph, &text);
        check_report(&graph, &report, (ClockKind::Real, has_failed), &text);
        valid += 1;
        crossing += graph.edges.iter().filter(|edge| graph.crosses(edge)).count();
    });
    println!("{valid} graphs with {crossing} edges between partitions");
    let is_single = seeds::env_number("AFFERENT_SEED").is_some();
    assert!(is_single || crossing > 100, "{valid} graphs, {crossing} edges");
}

/// Runs every partition; returns the report of all, and true if a node has failed.
fn run(graph: &CheckedGraph, text: &str) -> (Report, bool) {
    let transports: Vec<_> = (0..graph.partitions.len())
        .map(|partition| Transport::new(graph, partition, 0).expect("every payload has a codec"))
        .collect();
    for (partition, other) in transports.iter().enumerate().skip(1) {
        let (ours, theirs) = pair().expect("sockets");
        let main = &transports[0];
        main.connect_local(partition, ours).expect("a thread");
        other.connect_local(0, theirs).expect("a thread");
    }
    let run = |transport: &Arc<Transport>| {
        let border = Some(transport.clone() as Arc<_>);
        let options = RunOptions { border, ..RunOptions::default() };
        let session = Session::start(graph, &OpenCx::default(), options);
        let report = match session.and_then(Session::wait) {
            Ok(report) => report,
            Err(RunError::Failed(report)) => *report,
            Err(error) => panic!("{error}\n{text}"),
        };
        transport.finish(report)
    };
    let mut reports: Vec<Report> = thread::scope(|scope| {
        let threads: Vec<_> =
            transports.iter().map(|transport| scope.spawn(|| run(transport))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let report = reports.swap_remove(0);
    let has_failed = !report.failures.is_empty();
    (report, has_failed)
}
