//! What the engine writes into headers.

use std::sync::Arc;

use afferent_engine::{Observer, OnTimeFault, RunOptions};
use afferent_graph::{Header, Packet, Timestamp};

use crate::kit::{Graph, Number, OUT, Seen, ms};

#[derive(Default)]
struct Headers(Seen<(String, Header)>);

impl Observer for Headers {
    fn sent(&self, node: &str, port: &'static str, _: Timestamp, packet: &Packet) {
        assert_eq!(port, "out");
        self.0.lock().unwrap().push((node.to_owned(), packet.header));
    }
}

#[test]
fn headers_tell_where_a_packet_comes_from() {
    let mut graph = Graph::default();
    let source = graph.numbers(3);
    let twice = graph.node("twice", |number, cx| {
        cx.send(OUT, Number(number));
        cx.send(OUT, Number(number));
        Ok(())
    });
    graph.edge(source, twice);
    let headers = Arc::new(Headers::default());
    graph.run(RunOptions { observers: vec![headers.clone()], ..RunOptions::default() }).unwrap();
    let seen = headers.0.lock().unwrap();
    let of = |name: &str| -> Vec<Header> {
        seen.iter().filter(|(node, _)| node == name).map(|(_, header)| *header).collect()
    };
    let (sent, passed) = (of("source0"), of("twice"));
    let numbers =
        |headers: &[Header]| headers.iter().map(|header| header.sequence).collect::<Vec<_>>();
    assert_eq!((numbers(&sent), numbers(&passed)), (vec![0, 1, 2], vec![0, 1, 2, 3, 4, 5]));
    for (place, header) in passed.iter().enumerate() {
        let origin = sent[place / 2];
        assert_eq!((header.trace, header.at), (origin.trace, origin.at));
        assert_eq!(header.entered_ns, origin.entered_ns);
    }
    assert!(sent[0].trace != sent[1].trace && sent[0].entered_ns > 0);
}

#[test]
fn packets_that_go_back_in_time_are_dropped_and_counted() {
    let mut graph = Graph::default();
    let source = graph.source(|_, cx| {
        for at in [1, 2, 2, 1, 3] {
            cx.send_at(OUT, ms(at), Number(at));
        }
        false
    });
    let (sink, seen) = graph.sink("sink");
    graph.edge(source, sink);
    let report = graph.run(RunOptions::default()).unwrap();
    assert_eq!(*seen.lock().unwrap(), [1, 2, 2, 3], "events may share a time");
    assert_eq!((report.nodes[0].timestamp_faults, report.nodes[0].packets_out), (1, 4));
    assert_eq!(report.media_ns, 2_000_000);
}

#[test]
fn times_that_go_back_are_handled_by_policy() {
    for (policy, expected) in [
        (OnTimeFault::Clamp, vec![(10, false), (20, false), (20, false), (30, false)]),
        (OnTimeFault::Restart, vec![(10, false), (20, false), (5, true), (30, false)]),
    ] {
        let mut graph = Graph::default();
        let source = graph.source(|_, cx| {
            [10, 20, 5, 30].iter().for_each(|at| cx.send_at(OUT, ms(*at), Number(*at)));
            false
        });
        let seen: Seen<(i64, bool)> = Seen::default();
        let kept = seen.clone();
        let sink = graph.node("sink", move |_, cx| {
            kept.lock().unwrap().push((cx.at().0 / 1_000_000, cx.restarted()));
            Ok(())
        });
        graph.on_time_fault(source, policy);
        graph.edge(source, sink);
        let report = graph.run(RunOptions::default()).unwrap();
        assert_eq!(*seen.lock().unwrap(), expected);
        assert_eq!((report.nodes[0].timestamp_faults, report.nodes[0].packets_out), (1, 4));
    }
}

#[test]
fn times_before_the_session_are_times_too() {
    let mut graph = Graph::default();
    let source = graph.source(|_, cx| {
        cx.send_at(OUT, Timestamp(-5), Number(1));
        false
    });
    let (sink, seen) = graph.sink("sink");
    graph.edge(source, sink);
    graph.run(RunOptions::default()).unwrap();
    assert_eq!(*seen.lock().unwrap(), [1]);
}
