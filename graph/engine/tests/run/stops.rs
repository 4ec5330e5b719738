//! Runs that are ended from outside.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use afferent_engine::{
    ClockKind, FailureKind, RunEnd, RunError, RunOptions, Session, StopHandle, Threads,
};
use afferent_graph::OpenCx;

use crate::kit::{Gate, Graph, Number, OUT, block};

type Handle = Arc<OnceLock<StopHandle>>;

/// A source without end to a sink that stops the run at packet 10.
fn endless(per_call: u64) -> (Graph, Handle, Arc<AtomicU64>) {
    let mut graph = Graph::default();
    let source = graph.source(move |call, cx| {
        (0..per_call).for_each(|_| cx.send(OUT, Number(call)));
        true
    });
    let step = graph.adder("step", 0);
    let (handle, finished) = (Handle::default(), Arc::new(AtomicU64::new(0)));
    let (stop, mut seen) = (handle.clone(), 0);
    let sink = graph.node("sink", move |_, _| {
        seen += 1;
        if seen == 10 {
            stop.wait().stop();
        }
        Ok(())
    });
    for node in [source, step, sink] {
        let finished = finished.clone();
        graph.finish(node, move |_| {
            finished.fetch_add(1, Ordering::SeqCst);
            Ok(())
        });
    }
    graph.edge_with(source, step, block(8));
    graph.edge_with(step, sink, block(8));
    (graph, handle, finished)
}

fn session(graph: Graph, handle: &Handle, options: RunOptions) -> Session {
    let session = Session::start(&graph.checked(), &OpenCx::default(), options).unwrap();
    assert!(handle.set(session.stop_handle()).is_ok());
    session
}

#[test]
fn a_stop_drains_the_queues() {
    for (threads, heavy) in [(Threads::Single, false), (Threads::Auto, true)] {
        let (mut graph, handle, finished) = endless(3);
        if heavy {
            graph.heavy(&[1, 2]);
        }
        let options =
            RunOptions { threads, drain: Duration::from_secs(600), ..RunOptions::default() };
        let report = session(graph, &handle, options).wait().unwrap();
        assert_eq!(report.end, RunEnd::Stopped);
        assert_eq!(finished.load(Ordering::SeqCst), 3);
        assert_eq!(report.nodes[2].packets_in, report.nodes[0].packets_out);
        assert!(report.edges.iter().all(|edge| edge.counts.dropped() == 0));
    }
}

#[test]
fn a_cut_drops_and_counts_what_is_under_way() {
    let (graph, handle, finished) = endless(100);
    let options = RunOptions {
        threads: Threads::Single,
        drain: Duration::ZERO,
        grace: Duration::from_secs(600),
        ..RunOptions::default()
    };
    let report = session(graph, &handle, options).wait().unwrap();
    assert_eq!(report.end, RunEnd::Cut);
    assert_eq!(finished.load(Ordering::SeqCst), 3);
    let counts = report.edges[0].counts;
    assert_eq!((counts.sent, counts.delivered, counts.dropped_closed), (100, 10, 90));
}

#[test]
fn a_hanging_node_is_abandoned_by_name() {
    let mut graph = Graph::default();
    let source = graph.numbers(10);
    let (taken, never) = (Gate::default(), Gate::default());
    let in_call = taken.clone();
    let sink = graph.node("sink", move |_, _| {
        in_call.open();
        never.wait();
        Ok(())
    });
    graph.edge(source, sink);
    let (drain, grace) = (Duration::ZERO, Duration::ZERO);
    let options = RunOptions { threads: Threads::Single, drain, grace, ..RunOptions::default() };
    let session = Session::start(&graph.checked(), &OpenCx::default(), options).unwrap();
    taken.wait();
    session.stop_handle().stop();
    let Err(RunError::Failed(report)) = session.wait() else { panic!("the sink hangs") };
    let failure = &report.failures[0];
    assert_eq!((failure.node.as_str(), failure.kind), ("sink", FailureKind::Stuck));
}

#[test]
fn the_end_of_a_run_does_not_wait_for_a_hanging_node() {
    for threads in [Threads::Single, Threads::Auto] {
        let mut graph = Graph::default();
        let source = graph.numbers(10);
        let never = Gate::default();
        let sink = graph.node("sink", move |_, _| {
            never.wait();
            Ok(())
        });
        graph.edge(source, sink);
        // Long enough that the sink is in its call.
        let duration = Some(Duration::from_millis(300));
        let (drain, grace) = (Duration::from_millis(20), Duration::from_millis(20));
        let options = RunOptions { threads, duration, drain, grace, ..RunOptions::default() };
        let Err(RunError::Failed(report)) = graph.run(options) else { panic!("the sink hangs") };
        let failure = &report.failures[0];
        assert_eq!((failure.node.as_str(), failure.kind), ("sink", FailureKind::Stuck));
        let text = failure.to_string();
        assert!(text.starts_with("node sink is stuck: it has been in a call for "), "{text}");
        assert!(text.ends_with(" s; its thread is abandoned"), "{text}");
    }
}

#[test]
fn a_run_lasts_as_long_as_it_should() {
    for (threads, heavy) in [(Threads::Single, false), (Threads::Auto, true)] {
        let mut graph = Graph::default();
        let source = graph.clocked(0, 10, u64::MAX);
        let (sink, seen) = graph.sink("sink");
        if heavy {
            graph.heavy(&[sink]);
        }
        graph.edge(source, sink);
        let duration = Some(Duration::from_millis(95));
        let clock = ClockKind::Virtual;
        let report =
            graph.run(RunOptions { threads, clock, duration, ..RunOptions::default() }).unwrap();
        assert_eq!(*seen.lock().unwrap(), (0..10).collect::<Vec<_>>());
        assert_eq!((report.end, report.media_ns), (RunEnd::Stopped, 90_000_000));
    }
}

#[test]
fn the_real_clock_ends_a_run_too() {
    let mut graph = Graph::default();
    let source = graph.source(|_, cx| {
        // Far beyond the end: only the end wakes the thread.
        cx.resume_at(crate::kit::ms(1_000_000));
        true
    });
    let (sink, _) = graph.sink("sink");
    graph.edge(source, sink);
    let duration = Some(Duration::from_millis(1));
    let report = graph.run(RunOptions { duration, ..RunOptions::default() }).unwrap();
    assert_eq!(report.end, RunEnd::Stopped);
}
