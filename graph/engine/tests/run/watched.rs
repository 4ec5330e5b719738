//! Figures that are read while a graph runs.

use std::time::Duration;

use afferent_engine::{ClockKind, RunEnd, RunOptions, Session, Threads};
use afferent_graph::OpenCx;

use crate::kit::{Gate, Graph, Number, OUT, ms};

const PATIENCE: Duration = Duration::from_secs(600);

/// Three numbers at once, then none for ever.
fn three(heavy: bool) -> Graph {
    let mut graph = Graph::default();
    let source = graph.source(|call, cx| {
        if call < 3 {
            cx.send(OUT, Number(call));
        } else {
            cx.resume_at(ms(1_000_000_000));
        }
        true
    });
    let step = graph.adder("step", 1);
    let (sink, _) = graph.sink("sink");
    graph.edge(source, step);
    graph.edge(step, sink);
    if heavy {
        graph.all_heavy();
    }
    graph
}

#[test]
fn figures_are_there_while_the_graph_rests() {
    for (threads, heavy) in [(Threads::Single, false), (Threads::Auto, true)] {
        let options = RunOptions { threads, ..RunOptions::default() };
        let graph = three(heavy).checked();
        let session = Session::start(&graph, &OpenCx::default(), options).unwrap();
        let watch = session.watch_handle();
        let report = loop {
            let report = watch.read(PATIENCE);
            // Threads answer one after the other: at first, some have not seen the last packet.
            let pool = &report.pools[0];
            if report.nodes[2].packets_in == 3 && pool.free == pool.allocated {
                break report;
            }
        };
        assert_eq!(report.end, RunEnd::Running);
        assert_eq!(report.edges.iter().map(|edge| edge.counts.delivered).sum::<u64>(), 6);
        assert!(report.edges[0].rate_hz > 0.0 && report.edges[0].age.max_ns > 0);
        let path = &report.paths[0];
        assert_eq!((&*path.from, &*path.to, path.measured), ("source0", "sink", 3));
        let pool = &report.pools[0];
        assert_eq!(pool.output, "source0.out");
        assert!((1..=pool.values).contains(&pool.allocated));
        session.stop_handle().stop();
        let end = session.wait().unwrap();
        assert_eq!((end.end, end.paths), (RunEnd::Stopped, report.paths));
        assert_eq!(watch.read(PATIENCE).nodes, end.nodes, "the last figures stay");
    }
}

#[test]
fn a_thread_in_a_call_is_not_waited_for() {
    let mut graph = Graph::default();
    let source = graph.numbers(2);
    let (reached, go_on) = (Gate::default(), Gate::default());
    let (in_call, end) = (reached.clone(), go_on.clone());
    let sink = graph.node("sink", move |number, _| {
        if number == 1 {
            in_call.open();
            end.wait();
        }
        Ok(())
    });
    graph.edge(source, sink);
    graph.heavy(&[sink]);
    let session =
        Session::start(&graph.checked(), &OpenCx::default(), RunOptions::default()).unwrap();
    reached.wait();
    let report = session.watch_handle().read(Duration::ZERO);
    assert_eq!(report.nodes[1].name, "sink");
    go_on.open();
    assert_eq!(session.wait().unwrap().nodes[1].calls, 3);
}

#[test]
fn looking_changes_nothing_on_the_virtual_clock() {
    let mut graph = Graph::default();
    let source = graph.clocked(0, 10, 500);
    let step = graph.adder("step", 1);
    let (sink, seen) = graph.sink("sink");
    graph.edge(source, step);
    graph.edge(step, sink);
    graph.all_heavy();
    let options = RunOptions { clock: ClockKind::Virtual, ..RunOptions::default() };
    let session = Session::start(&graph.checked(), &OpenCx::default(), options).unwrap();
    let watch = session.watch_handle();
    while watch.read(PATIENCE).nodes[2].packets_in < 500 {}
    let report = session.wait().unwrap();
    assert_eq!((report.end, report.media_ns), (RunEnd::Complete, 4_990_000_000));
    assert_eq!(*seen.lock().unwrap(), (1..=500).collect::<Vec<_>>());
}
