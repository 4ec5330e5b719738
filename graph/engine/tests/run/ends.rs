//! How streams end.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use afferent_engine::{ClockKind, RunEnd, RunOptions, SyncPolicy, Threads};

use crate::kit::{Graph, Number, OUT, SIDE};

/// Two sources, each to two nodes, all four to one sink.
#[test]
fn every_node_finishes_once_and_the_run_ends() {
    for (threads, heavy) in
        [(Threads::Single, false), (Threads::Auto, false), (Threads::Auto, true)]
    {
        let mut graph = Graph::default();
        let finished: Arc<[AtomicU64; 7]> = Arc::default();
        let sources = [graph.numbers(100), graph.numbers(10)];
        let steps: Vec<usize> =
            ["a", "b", "c", "d"].iter().map(|name| graph.adder(name, 0)).collect();
        let (sink, seen) = graph.sink("sink");
        for step in &steps {
            graph.edge(sources[step % 2], *step);
            graph.edge(*step, sink);
        }
        for node in 0..7 {
            let finished = finished.clone();
            graph.finish(node, move |_| {
                finished[node].fetch_add(1, Ordering::SeqCst);
                Ok(())
            });
            if heavy {
                graph.heavy(&[node]);
            }
        }
        let report = graph.run(RunOptions { threads, ..RunOptions::default() }).unwrap();
        assert_eq!(report.end, RunEnd::Complete);
        assert_eq!(seen.lock().unwrap().len(), 220);
        assert!(finished.iter().all(|count| count.load(Ordering::SeqCst) == 1));
        assert!(report.edges.iter().all(|edge| edge.counts.depth == 0));
    }
}

#[test]
fn what_finish_sends_arrives() {
    let mut graph = Graph::default();
    let source = graph.numbers(3);
    let sum = graph.node("sum", |_, _| Ok(()));
    let (sink, seen) = graph.sink("sink");
    graph.finish(sum, |cx| {
        // More than the queue takes at once.
        (0..10).for_each(|number| cx.send(OUT, Number(number)));
        Ok(())
    });
    graph.heavy(&[sink]);
    graph.edge(source, sum);
    graph.edge(sum, sink);
    graph.run(RunOptions::default()).unwrap();
    assert_eq!(*seen.lock().unwrap(), (0..10).collect::<Vec<_>>());
}

#[test]
fn a_node_without_streams_finishes() {
    let mut graph = Graph::default();
    graph.sink("alone");
    let report = graph.run(RunOptions::default()).unwrap();
    assert_eq!((report.nodes[0].calls, report.end), (1, RunEnd::Complete));
}

#[test]
fn a_graph_without_nodes_ends() {
    for threads in [Threads::Single, Threads::Auto] {
        let report = Graph::default().run(RunOptions { threads, ..RunOptions::default() }).unwrap();
        assert_eq!(report.end, RunEnd::Complete);
    }
}

/// A source that never ends accompanies one that does; it keeps time, or lets none pass.
#[test]
fn a_run_ends_with_its_last_sink() {
    for (threads, clock) in [
        (Threads::Single, ClockKind::Real),
        (Threads::Auto, ClockKind::Real),
        (Threads::Single, ClockKind::Virtual),
        (Threads::Auto, ClockKind::Virtual),
    ] {
        for hastes in [false, true] {
            let mut graph = Graph::default();
            let (lead, endless) = match hastes {
                true => (graph.numbers(5), graph.numbers(u64::MAX)),
                false => (graph.clocked(0, 2, 5), graph.clocked(0, 1, u64::MAX)),
            };
            let step = graph.adder("step", 0);
            let (join, _) = graph.join("join");
            graph.edge(lead, join);
            graph.edge(endless, step);
            let sync = SyncPolicy::Latest { max_age: None };
            graph.companion(step, (join, SIDE), sync, None);
            graph.heavy(&[endless, join]);
            let report = graph.run(RunOptions { threads, clock, ..RunOptions::default() }).unwrap();
            assert_eq!(report.end, RunEnd::Complete, "{threads:?} {clock:?} {hastes}");
            if clock == ClockKind::Virtual && !hastes {
                // From 0 to 8 ms, when the leading one ends.
                assert_eq!(report.nodes[endless].packets_out, 9, "{threads:?}");
            }
        }
    }
}

/// A call that sends much is followed packet by packet: queues within a thread stay short.
#[test]
fn one_packet_at_a_time_goes_to_the_end() {
    let mut graph = Graph::default();
    let source = graph.source(|_, cx| {
        (0..1000).for_each(|number| cx.send(OUT, Number(number)));
        false
    });
    let step = graph.adder("step", 0);
    let (sink, seen) = graph.sink("sink");
    graph.edge(source, step);
    graph.edge(step, sink);
    let report = graph.run(RunOptions::default()).unwrap();
    assert_eq!(seen.lock().unwrap().len(), 1000);
    assert!(report.edges.iter().all(|edge| edge.counts.peak == 1));
}
