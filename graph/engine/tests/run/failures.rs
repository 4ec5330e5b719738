//! Nodes that err, panic, or do not open.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use afferent_engine::{
    ClockKind, Failure, FailureKind, Observer, RunEnd, RunError, RunOptions, Threads,
};
use afferent_graph::{NodeError, OpenCx};
use afferent_spec::Partition;

use crate::kit::{Graph, Number, OUT, block};

fn fault() -> NodeError {
    NodeError::InvalidInput { port: "in".into(), reason: "three is too many".to_owned() }
}

#[derive(Default)]
struct Failures(Mutex<Vec<Failure>>);

impl Observer for Failures {
    fn failed(&self, failure: &Failure) {
        self.0.lock().unwrap().push(failure.clone());
    }
}

/// A source to a node that fails at 3 and a node that does not, each with a sink.
fn check(threads: Threads, heavy: bool, panics: bool) {
    let mut graph = Graph::default();
    let source = graph.numbers(50);
    let bad = graph.node("bad", move |number, cx| {
        cx.send(OUT, Number(number));
        match number {
            3 if panics => panic!("three is too many"),
            3 => Err(fault()),
            _ => Ok(()),
        }
    });
    let (after, after_seen) = graph.sink("after");
    let (good, good_seen) = graph.sink("good");
    let finished = Arc::new(AtomicU64::new(0));
    for (node, weight) in [(bad, 100), (after, 1), (good, 1)] {
        let finished = finished.clone();
        graph.finish(node, move |_| {
            finished.fetch_add(weight, Ordering::SeqCst);
            Ok(())
        });
    }
    graph.edge_with(source, bad, block(2));
    graph.edge(bad, after);
    graph.edge(source, good);
    if heavy {
        graph.heavy(&[bad, after, good]);
    }
    let failures = Arc::new(Failures::default());
    let options =
        RunOptions { threads, observers: vec![failures.clone()], ..RunOptions::default() };
    let Err(RunError::Failed(report)) = graph.run(options) else { panic!("a node failed") };
    let kind = if panics { FailureKind::Panic } else { FailureKind::Error };
    assert_eq!((report.failures[0].node.as_str(), report.failures[0].kind), ("bad", kind));
    assert!(report.failures[0].message.contains("three is too many"));
    assert_eq!(*failures.0.lock().unwrap(), report.failures);
    assert_eq!(*after_seen.lock().unwrap(), [0, 1, 2, 3], "what it sent before still counts");
    assert_eq!(good_seen.lock().unwrap().len(), 50, "the rest goes on");
    assert_eq!(finished.load(Ordering::SeqCst), 2, "a node that failed is not called again");
    let counts = report.edges[0].counts;
    assert_eq!((counts.sent, counts.delivered, counts.dropped_closed), (50, 4, 46));
    assert_eq!(report.nodes[bad].errors, 1);
}

#[test]
fn a_sink_that_nothing_reads_ends_the_run_without_a_failure() {
    for heavy in [false, true] {
        let mut graph = Graph::default();
        let source = graph.clocked(0, 1, u64::MAX);
        let sink = graph.node("sink", move |number, _| match number {
            0..3 => Ok(()),
            _ => Err(NodeError::Closed),
        });
        if heavy {
            graph.heavy(&[sink]);
        }
        graph.edge(source, sink);
        let report = graph.run(RunOptions::default()).unwrap();
        assert_eq!((report.end, report.nodes[1].errors), (RunEnd::Complete, 0));
        assert_eq!(report.nodes[1].packets_in, 4);
    }
}

#[test]
fn a_node_that_fails_leaves_the_rest_alone() {
    for panics in [false, true] {
        check(Threads::Single, false, panics);
        check(Threads::Auto, false, panics);
        check(Threads::Auto, true, panics);
    }
}

#[test]
fn a_graph_whose_sinks_are_gone_stops() {
    for heavy in [false, true] {
        let mut graph = Graph::default();
        let source = graph.source(|call, cx| {
            cx.send(OUT, Number(call));
            true
        });
        let step = graph.adder("step", 0);
        let sink = graph.node("sink", |_, _| Err(fault()));
        if heavy {
            graph.heavy(&[sink]);
        }
        graph.edge(source, step);
        graph.edge(step, sink);
        let Err(error) = graph.run(RunOptions::default()) else { panic!("the sink failed") };
        assert_eq!(error.to_string(), "node sink: input in: three is too many");
    }
}

#[test]
fn a_node_that_does_not_open_is_named() {
    let mut graph = Graph::default();
    graph.numbers(1);
    let sink = graph.sink("sink").0;
    let mut graph = graph.checked();
    let spec = (*graph.nodes[sink].def).clone();
    let open = |_: &afferent_graph::ParamValues, cx: &OpenCx| {
        let reason = format!("{} is not there", cx.name);
        Err(NodeError::Device { name: "lp0".to_owned(), reason })
    };
    graph.nodes[sink].def = afferent_graph::NodeDef::new(crate::kit::Whole { spec, open });
    let error = afferent_engine::run(&graph, &OpenCx::default(), RunOptions::default());
    assert_eq!(error.unwrap_err().to_string(), "node sink: device \"lp0\": sink is not there");
}

/// One that cannot look on.
struct Blind;

impl Observer for Blind {
    fn begin(&self) -> Result<(), String> {
        Err("it is dark".to_owned())
    }
}

#[test]
fn an_observer_that_cannot_begin_ends_the_run_before_it() {
    let mut graph = Graph::default();
    let source = graph.numbers(1);
    let (sink, seen) = graph.sink("sink");
    graph.edge(source, sink);
    let options = RunOptions { observers: vec![Arc::new(Blind)], ..RunOptions::default() };
    assert_eq!(graph.run(options).unwrap_err().to_string(), "it is dark");
    assert!(seen.lock().unwrap().is_empty());
}

#[test]
fn a_graph_that_cannot_be_is_refused() {
    let mut graph = Graph::default();
    let (a, b) = (graph.adder("a", 1), graph.adder("b", 1));
    graph.edge(a, b);
    graph.edge(b, a);
    let error = graph.run(RunOptions::default()).unwrap_err();
    assert!(error.to_string().starts_with("nodes a, b feed each other in a cycle"));

    let mut graph = Graph::default();
    let (a, b) = (graph.numbers(1), graph.numbers(1));
    graph.edge(a, b);
    let error = graph.run(RunOptions::default()).unwrap_err();
    assert_eq!(error.to_string(), "edge source0.out -> source1.#9: there is no such port");
}

/// A part of the graph alone would not be what the graph file says.
#[test]
fn a_graph_of_several_processes_runs_on_the_virtual_clock_only() {
    let mut graph = Graph::default();
    let source = graph.numbers(5);
    let (sink, seen) = graph.sink("sink");
    graph.edge(source, sink);
    let mut graph = graph.checked();
    graph.partitions.push(Partition { machine: 0, process: Some("gpu".to_owned()) });
    graph.nodes[sink].partition = 1;
    let run = |clock| {
        let options = RunOptions { clock, ..RunOptions::default() };
        afferent_engine::run(&graph, &OpenCx::default(), options)
    };
    let error = run(ClockKind::Real).unwrap_err();
    assert!(matches!(error, RunError::Spread { .. }), "{error}");
    assert!(error.to_string().contains("2 processes (main, gpu)"), "{error}");
    assert!(seen.lock().unwrap().is_empty());
    run(ClockKind::Virtual).unwrap();
    assert_eq!(*seen.lock().unwrap(), [0, 1, 2, 3, 4]);
}
