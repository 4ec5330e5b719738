//! Bursts of short calls: only a sample is timed one by one.

use std::{
    hint,
    time::{Duration, Instant},
};

use afferent_engine::{RunError, RunOptions, Threads};
use afferent_graph::NodeError;

use crate::kit::{Graph, Number, OUT};

/// More than are all timed.
const COUNT: u64 = 40_000;

fn single() -> RunOptions {
    RunOptions { threads: Threads::Single, ..RunOptions::default() }
}

fn work(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        hint::spin_loop();
    }
}

#[test]
fn busy_times_add_up_and_identify_the_busy_node() {
    let mut graph = Graph::default();
    let mut last = graph.numbers(COUNT);
    for (name, nanos) in [("light", 100), ("heavy", 10_000)] {
        let node = graph.node(name, move |number, cx| {
            work(Duration::from_nanos(nanos));
            cx.send(OUT, Number(number));
            Ok(())
        });
        graph.edge(last, node);
        last = node;
    }
    let sink = graph.node("sink", |_, _| Ok(()));
    graph.edge(last, sink);
    let report = graph.run(single()).unwrap();
    let [source, light, heavy, sink] = report.nodes.as_slice() else { panic!("four nodes") };
    for node in [light, heavy, sink] {
        assert_eq!((node.calls, node.packets_in), (COUNT + 1, COUNT), "{}, and its end", node.name);
    }
    let delivered = report.edges.iter().map(|edge| edge.counts.delivered);
    assert_eq!(delivered.collect::<Vec<_>>(), [COUNT; 3]);
    assert_eq!(report.paths[0].measured, COUNT);
    // Medians, since the system may take the processor away in any call. The difference is large,
    // since a call of the engine takes over 1 µs under AddressSanitizer.
    let (light_ns, heavy_ns) = (light.call.p50_ns, heavy.call.p50_ns);
    assert!(heavy_ns >= 9500 && heavy_ns > 2 * light_ns, "{light_ns} and {heavy_ns} ns");
    let busy_ns = source.busy_ns + light.busy_ns + heavy.busy_ns + sink.busy_ns;
    assert!((COUNT * 10_100..=report.wall_ns).contains(&busy_ns), "{busy_ns} of {report:?}");
}

#[test]
fn a_failure_in_a_row_is_counted_where_it_is() {
    for panics in [false, true] {
        let mut graph = Graph::default();
        let source = graph.numbers(COUNT);
        let first = graph.adder("first", 1);
        let bad = graph.node("bad", move |number, cx| {
            cx.send(OUT, Number(number));
            match number {
                30_000 if panics => panic!("too many"),
                30_000 => {
                    Err(NodeError::InvalidInput { port: "in".into(), reason: "too many".into() })
                }
                _ => Ok(()),
            }
        });
        let last = graph.node("last", |_, _| Ok(()));
        for (from, to) in [(source, first), (first, bad), (bad, last)] {
            graph.edge(from, to);
        }
        let Err(RunError::Failed(report)) = graph.run(single()) else { panic!("a node failed") };
        assert_eq!((report.nodes[bad].packets_in, report.nodes[bad].errors), (30_000, 1));
        assert_eq!(report.nodes[last].packets_in, 30_000, "what it sent is delivered");
        assert!(report.edges.iter().all(|edge| {
            let counts = edge.counts;
            counts.sent == counts.delivered + counts.dropped() + counts.depth as u64
        }));
    }
}
