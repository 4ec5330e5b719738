//! Ends of streams.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use afferent_engine::{ClockKind, RunEnd, RunOptions, Threads};
use afferent_spec::SyncPolicy;

use crate::kit::{Gate, Graph, Number, OUT, SIDE};

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
    for threads in [Threads::Single, Threads::Auto] {
        for hastes in [false, true] {
            let mut graph = Graph::default();
            let (lead, endless) = match hastes {
                true => (graph.numbers(5), graph.numbers(u64::MAX)),
                // An hour passes before it is called again.
                false => (graph.clocked(0, 2, 5), graph.clocked(0, 3_600_000, u64::MAX)),
            };
            join_by_a_step(&mut graph, lead, endless);
            let report = graph.run(RunOptions { threads, ..RunOptions::default() }).unwrap();
            assert_eq!(report.end, RunEnd::Complete, "{threads:?} {hastes}");
        }
    }
}

/// Only sources end: a step still sends what it holds back.
#[test]
fn what_is_under_way_at_the_end_takes_its_time() {
    for clock in [ClockKind::Real, ClockKind::Virtual] {
        let mut graph = Graph::default();
        let (lead, short) = (graph.numbers(1), graph.numbers(1));
        // The leading stream ends when something is under way beside it.
        let begun = Gate::default();
        graph.on_call(lead, {
            let begun = begun.clone();
            move || begun.wait()
        });
        let slow = graph.timed("slow", move |number, cx| match number {
            Some(_) => {
                cx.wake_at(cx.now() + Duration::from_millis(50));
                begun.open();
            }
            None => cx.send(OUT, Number(7)),
        });
        graph.edge(short, slow);
        graph.heavy(&[lead]);
        join_by_a_step(&mut graph, lead, slow);
        let report = graph.run(RunOptions { clock, ..RunOptions::default() }).unwrap();
        assert_eq!(report.end, RunEnd::Complete, "{clock:?}");
        assert_eq!(report.nodes[slow].packets_out, 1, "{clock:?}");
    }
}

/// On the virtual clock what a source sends does not depend on when others end.
#[test]
fn virtual_sources_come_to_their_ends() {
    for threads in [Threads::Single, Threads::Auto] {
        for hastes in [false, true] {
            let mut graph = Graph::default();
            let (lead, long) = match hastes {
                true => (graph.numbers(5), graph.numbers(500)),
                false => (graph.clocked(0, 2, 5), graph.clocked(0, 1, 50)),
            };
            let step = join_by_a_step(&mut graph, lead, long);
            let clock = ClockKind::Virtual;
            let report = graph.run(RunOptions { threads, clock, ..RunOptions::default() }).unwrap();
            let sent = report.nodes[step].packets_out;
            assert_eq!(sent, if hastes { 500 } else { 50 }, "{threads:?}");
        }
    }
}

/// Joins `lead` with what a step makes of `side`; the step.
fn join_by_a_step(graph: &mut Graph, lead: usize, side: usize) -> usize {
    let step = graph.adder("step", 0);
    let (join, _) = graph.join("join");
    graph.edge(lead, join);
    graph.edge(side, step);
    graph.companion(step, (join, SIDE), SyncPolicy::Latest { max_age: None }, None);
    graph.heavy(&[side, join]);
    step
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
