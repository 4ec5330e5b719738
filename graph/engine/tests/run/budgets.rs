//! Times from port to port.

use std::time::Duration;

use afferent_engine::{ClockKind, RunOptions};
use afferent_graph::{OpenCx, PortKind};
use afferent_spec::{CheckedBudget, End, SyncPolicy};

use crate::kit::{Gate, Graph, Number, OUT, SIDE};

/// The sink's thread holds every packet until the source has sent all of them.
#[test]
fn a_budget_is_measured_from_port_to_port_by_trace() {
    for limit in [Duration::ZERO, Duration::from_secs(3600)] {
        let mut graph = Graph::default();
        let source = graph.numbers(10);
        // Of three packets one goes on, twice.
        let third = graph.node("third", |number, cx| {
            (0..2).filter(|_| number % 3 == 0).for_each(|_| cx.send(OUT, Number(number)));
            Ok(())
        });
        let (sink, _) = graph.sink("sink");
        graph.heavy(&[sink]);
        graph.edge(source, third);
        graph.edge(third, sink);
        let end = |node, port, kind| End { node, port, kind };
        let mut graph = graph.checked();
        graph.budgets = vec![CheckedBudget {
            from: end(source, afferent_graph::PortId::at(0), PortKind::Output),
            to: end(sink, afferent_graph::PortId::at(0), PortKind::Input),
            limits: [None, None, None, Some(limit)],
        }];
        let report =
            afferent_engine::run(&graph, &OpenCx::default(), RunOptions::default()).unwrap();
        let budget = &report.budgets[0];
        assert_eq!((budget.measured, budget.kept), (4, !limit.is_zero()));
        assert_eq!((budget.from.as_str(), budget.to.as_str()), ("source0.out", "sink.in"));
        assert!(budget.found_ns[0] > 0 && budget.found_ns.is_sorted());
        assert!(budget.found_ns[3] <= report.wall_ns);
    }
}

/// Waiting time counts.
#[test]
fn waiting_counts() {
    let mut graph = Graph::default();
    let (held, wait) = (Gate::default(), Duration::from_millis(20));
    let open = held.clone();
    let source = graph.source(move |call, cx| {
        if call == 1 {
            std::thread::sleep(wait);
            open.open();
        }
        cx.send(OUT, Number(call));
        call < 1
    });
    let hold = graph.node("hold", move |number, cx| {
        held.wait();
        cx.send(OUT, Number(number));
        Ok(())
    });
    graph.heavy(&[hold]);
    graph.edge(source, hold);
    let end = |node| End { node, port: afferent_graph::PortId::at(0), kind: PortKind::Output };
    let mut graph = graph.checked();
    let limits = [None; 4];
    graph.budgets = vec![CheckedBudget { from: end(source), to: end(hold), limits }];
    let report = afferent_engine::run(&graph, &OpenCx::default(), RunOptions::default()).unwrap();
    assert!(Duration::from_nanos(report.budgets[0].found_ns[3]) >= wait);
}

/// A secondary packet arrives when the node is called with it, again and again.
#[test]
fn a_joined_stream_is_measured_once_for_each_trace() {
    let mut graph = Graph::default();
    let (lead, side) = (graph.clocked(0, 5, 20), graph.clocked(0, 10, 10));
    let twice = graph.node("twice", |number, cx| {
        (0..2).for_each(|_| cx.send(OUT, Number(number)));
        Ok(())
    });
    let (join, _) = graph.join("join");
    graph.edge(lead, join);
    graph.edge(side, twice);
    graph.companion(twice, (join, SIDE), SyncPolicy::Latest { max_age: None }, None);
    let end = |node, port, kind| End { node, port, kind };
    let mut graph = graph.checked();
    graph.budgets = vec![CheckedBudget {
        from: end(twice, afferent_graph::PortId::at(0), PortKind::Output),
        to: end(join, afferent_graph::PortId::at(1), PortKind::Input),
        limits: [None; 4],
    }];
    let options = RunOptions { clock: ClockKind::Virtual, ..RunOptions::default() };
    let report = afferent_engine::run(&graph, &OpenCx::default(), options).unwrap();
    assert_eq!(report.budgets[0].measured, 10);
}
