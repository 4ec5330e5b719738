//! Random graphs: each is rejected with diagnostics, or runs to its end without losing packets.

use std::{path::Path, sync::atomic::Ordering};

use afferent_engine::{ClockKind, EdgeReport, Report, RunEnd, RunError, RunOptions, Threads, run};
use afferent_graph::{Catalog, OnFull, OpenCx};
use afferent_spec::{CheckedGraph, LoadOptions, check, parse};
use fastrand::Rng;

use crate::{
    graph_file,
    nodes::{NODES, SERIAL, SOURCE_PACKETS, THREADS},
    seeds,
};

/// Default number of graphs.
const DEFAULT_GRAPHS: u64 = 3000;

#[test]
fn random_graphs_are_rejected_or_lose_no_packets() {
    let _serial = SERIAL.lock();
    let (mut valid, mut invalid, mut failed) = (0_u64, 0_u64, 0_u64);
    seeds::for_each(seeds::env_number("AFFERENT_GRAPHS").unwrap_or(DEFAULT_GRAPHS), |seed| {
        let mut random = Rng::with_seed(seed);
        let text = graph_file::generate(&mut random);
        let loaded = parse(&text, Path::new("random.yaml"), &LoadOptions::default());
        match check(&loaded, &Catalog::default().with_nodes(NODES), &OpenCx::default()) {
            Ok(checked) => {
                let options = options(&mut random);
                let clock = options.clock;
                let result = run(&checked.graph, &OpenCx::default(), options);
                let (report, has_failed) = match result {
                    Ok(report) => (report, false),
                    Err(RunError::Failed(report)) => (*report, true),
                    Err(error) => panic!("{error}\n{text}"),
                };
                check_report(&checked.graph, &report, (clock, has_failed), &text);
                valid += 1;
                failed += u64::from(has_failed);
            }
            Err(diagnostics) => {
                let rendered = diagnostics.render(false);
                assert!(diagnostics.errors() > 0 && !rendered.is_empty(), "{text}");
                invalid += 1;
            }
        }
    });
    println!("{valid} valid graphs, {failed} with failed nodes; {invalid} invalid graphs");
    let is_single = seeds::env_number("AFFERENT_SEED").is_some();
    let is_balanced = valid.min(invalid) * 4 > valid.max(invalid);
    assert!(is_single || is_balanced, "{valid} valid, {invalid} invalid");
}

fn options(random: &mut Rng) -> RunOptions {
    RunOptions {
        threads: if random.u32(0..3) == 0 { Threads::Single } else { Threads::Auto },
        clock: if random.bool() { ClockKind::Real } else { ClockKind::Virtual },
        ..RunOptions::default()
    }
}

/// Checks the packet counts of a run.
pub(crate) fn check_report(
    graph: &CheckedGraph,
    report: &Report,
    (clock, has_failed): (ClockKind, bool),
    text: &str,
) {
    assert_eq!(THREADS.load(Ordering::SeqCst), 0, "node threads are still running\n{text}");
    assert_eq!(has_failed, !report.failures.is_empty(), "{text}");
    if !has_failed {
        assert_eq!(report.end, RunEnd::Complete, "{text}");
    }
    // On the real clock, the engine ends a source of a secondary input when the primary input of the
    // synchronizer has ended.
    let has_sync = graph.edges.iter().any(|edge| edge.sync.is_some());
    let may_end_early = has_sync && clock == ClockKind::Real;
    for (node, checked) in report.nodes.iter().zip(&graph.nodes) {
        if checked.def.is_source() && !has_failed {
            let sent = node.packets_out + node.canceled;
            let all = u64::from(SOURCE_PACKETS);
            assert!(sent == all || (may_end_early && sent < all), "{}\n{text}", node.name);
        }
    }
    for (index, edge) in report.edges.iter().enumerate() {
        let (counts, checked) = (edge.counts, &graph.edges[index]);
        let sum = counts.delivered + counts.dropped() + counts.depth as u64;
        assert_eq!(counts.sent, sum + edge.lost, "{edge:?}\n{text}");
        let blocks = checked.policy.on_full == OnFull::Block && checked.policy.max_age.is_none();
        let canceled = [checked.from.0, checked.to.0].map(|end| graph.nodes[end].canceled);
        let obsolete = if canceled == [false; 2] { 0 } else { counts.dropped_epoch };
        // Packets of a secondary input are dropped after the primary input has ended.
        let unmatched = if checked.sync.is_some() { counts.dropped_closed } else { 0 };
        if blocks && !has_failed {
            let lost = counts.dropped() + edge.lost - obsolete - unmatched;
            assert_eq!((lost, counts.depth), (0, 0), "{edge:?}\n{text}");
        }
        let limit = checked.policy.queue;
        assert!(counts.peak <= limit, "{edge:?} exceeds its queue depth {limit}\n{text}");
    }
    for (index, node) in report.nodes.iter().enumerate() {
        let inputs =
            || report.edges.iter().zip(&graph.edges).filter(|(_, edge)| edge.to.0 == index);
        let has_sync = inputs().any(|(_, edge)| edge.sync.is_some());
        let sum =
            |count: fn(&EdgeReport) -> u64| inputs().map(|(edge, _)| count(edge)).sum::<u64>();
        let received = match has_sync {
            true => inputs().filter(|(_, edge)| edge.sync.is_none()).map(matched).sum(),
            false => sum(|edge| edge.counts.delivered),
        };
        assert_eq!(node.packets_in, received, "packets received by {}\n{text}", node.name);
    }
}

fn matched((edge, _): (&EdgeReport, &afferent_spec::Edge)) -> u64 {
    edge.join.map_or(0, |join| join.matched)
}
