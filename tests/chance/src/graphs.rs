//! Graphs made by chance are refused with reasons, or run to their end without losing anything.

use std::{path::Path, sync::atomic::Ordering};

use afferent_engine::{ClockKind, EdgeReport, Report, RunEnd, RunError, RunOptions, Threads, run};
use afferent_graph::{Catalog, OnFull, OpenCx};
use afferent_spec::{CheckedGraph, LoadOptions, check, parse};
use fastrand::Rng;

use crate::{
    nodes::{NODES, PACKETS, THREADS},
    seeds, written,
};

/// Graphs in an ordinary test run.
const GRAPHS: u64 = 3000;

#[test]
fn graphs_made_by_chance_are_refused_or_lose_nothing() {
    let (mut sound, mut broken, mut failed) = (0_u64, 0_u64, 0_u64);
    seeds::each(seeds::number("AFFERENT_GRAPHS").unwrap_or(GRAPHS), |seed| {
        let mut random = Rng::with_seed(seed);
        let text = written::graph(&mut random);
        let loaded = parse(&text, Path::new("chance.yaml"), &LoadOptions::default());
        match check(&loaded, &Catalog::default().with_nodes(NODES), &OpenCx::default()) {
            Ok(checked) => {
                let options = options(&mut random);
                let clock = options.clock;
                let result = run(&checked.graph, &OpenCx::default(), options);
                let (report, fails) = match result {
                    Ok(report) => (report, false),
                    Err(RunError::Failed(report)) => (*report, true),
                    Err(error) => panic!("{error}\n{text}"),
                };
                look(&checked.graph, &report, (clock, fails), &text);
                sound += 1;
                failed += u64::from(fails);
            }
            Err(faults) => {
                assert!(faults.errors() > 0 && !faults.render(false).is_empty(), "{text}");
                broken += 1;
            }
        }
    });
    println!("{sound} sound graphs, of which nodes stopped in {failed}; {broken} broken ones");
    let tried = seeds::number("AFFERENT_SEED").is_some();
    assert!(tried || sound.min(broken) * 4 > sound.max(broken), "{sound} sound, {broken} broken");
}

fn options(random: &mut Rng) -> RunOptions {
    RunOptions {
        threads: if random.u32(0..3) == 0 { Threads::Single } else { Threads::Auto },
        clock: if random.bool() { ClockKind::Real } else { ClockKind::Virtual },
        ..RunOptions::default()
    }
}

/// Looks at what became of the packets of a run.
fn look(graph: &CheckedGraph, report: &Report, (clock, fails): (ClockKind, bool), text: &str) {
    assert_eq!(THREADS.load(Ordering::SeqCst), 0, "threads are left\n{text}");
    assert_eq!(fails, !report.failures.is_empty(), "{text}");
    if !fails {
        assert_eq!(report.end, RunEnd::Complete, "{text}");
    }
    // Sources are ended where only what accompanies a stream goes on that has ended, but not on the
    // virtual clock.
    let joins = graph.edges.iter().any(|edge| edge.sync.is_some());
    let may_end = joins && clock == ClockKind::Real;
    for (node, checked) in report.nodes.iter().zip(&graph.nodes) {
        if checked.def.is_source() && !fails {
            let sent = node.packets_out + node.canceled;
            let all = u64::from(PACKETS);
            assert!(sent == all || (may_end && sent < all), "{}\n{text}", node.name);
        }
    }
    for (place, edge) in report.edges.iter().enumerate() {
        let (counts, checked) = (edge.counts, &graph.edges[place]);
        let sum = counts.delivered + counts.dropped() + counts.depth as u64;
        assert_eq!(counts.sent, sum, "{edge:?}\n{text}");
        let blocks = checked.policy.on_full == OnFull::Block && checked.policy.max_age.is_none();
        let canceled = [checked.from.0, checked.to.0].map(|end| graph.nodes[end].canceled);
        let obsolete = if canceled == [false; 2] { 0 } else { counts.dropped_epoch };
        // Once the leading stream has ended, there is nothing left to accompany.
        let useless = if checked.sync.is_some() { counts.dropped_closed } else { 0 };
        if blocks && !fails {
            let lost = counts.dropped() - obsolete - useless;
            assert_eq!((lost, counts.depth), (0, 0), "{edge:?}\n{text}");
        }
        let limit = checked.policy.queue;
        assert!(counts.peak <= limit, "{edge:?} holds {limit}\n{text}");
    }
    for (place, node) in report.nodes.iter().enumerate() {
        let into = || report.edges.iter().zip(&graph.edges).filter(|(_, edge)| edge.to.0 == place);
        let joins = into().any(|(_, edge)| edge.sync.is_some());
        let sum = |count: fn(&EdgeReport) -> u64| into().map(|(edge, _)| count(edge)).sum::<u64>();
        let taken = match joins {
            true => into().filter(|(_, edge)| edge.sync.is_none()).map(matched).sum(),
            false => sum(|edge| edge.counts.delivered),
        };
        assert_eq!(node.packets_in, taken, "{} has taken\n{text}", node.name);
    }
}

fn matched((edge, _): (&EdgeReport, &afferent_spec::Edge)) -> u64 {
    edge.join.map_or(0, |join| join.matched)
}
