//! Headers completed by the engine.

use std::sync::Arc;

use afferent_engine::{ClockKind, Observer, RunOptions};
use afferent_graph::{Header, Packet, Timestamp};
use afferent_spec::OnTimeFault;

use crate::kit::{Graph, Number, OUT, Seen, ms};

#[derive(Default)]
struct Headers(Seen<(String, Header)>);

impl Observer for Headers {
    fn sent(&self, node: &str, port: &str, _: Timestamp, packet: &Packet) {
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
    for (index, header) in passed.iter().enumerate() {
        let origin = sent[index / 2];
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

/// An hour in milliseconds.
const HOUR: u64 = 3_600_000;

/// Packets that a receiver gets from a source that sends at these times in one call, each with whether
/// the stream restarted; and the number of faults.
fn ahead(clock: ClockKind, policy: OnTimeFault, times: &'static [u64]) -> (Vec<(u64, bool)>, u64) {
    let mut graph = Graph::default();
    let source = graph.source(|_, cx| {
        times.iter().for_each(|at| cx.send_at(OUT, ms(*at), Number(*at)));
        false
    });
    let step = graph.adder("step", 0);
    let seen: Seen<(u64, bool)> = Seen::default();
    let kept = seen.clone();
    let sink = graph.node("sink", move |_, cx| {
        kept.lock().unwrap().push((cx.at().0 as u64 / 1_000_000, cx.restarted()));
        Ok(())
    });
    graph.on_time_fault(source, policy);
    graph.edge(source, step);
    graph.edge(step, sink);
    let report = graph.run(RunOptions { clock, ..RunOptions::default() }).unwrap();
    let seen = seen.lock().unwrap().clone();
    assert_eq!(report.nodes[1].timestamp_faults, 0);
    (seen, report.nodes[0].timestamp_faults)
}

#[test]
fn a_time_far_ahead_is_a_fault_and_what_follows_it_is_none() {
    let check = |policy, times, expected: &[(u64, bool)], faults| {
        let found = ahead(ClockKind::Real, policy, times);
        assert_eq!(found, (expected.to_vec(), faults), "{policy:?} {times:?}");
    };
    let plain = |times: &[u64]| times.iter().map(|at| (*at, false)).collect::<Vec<_>>();
    let (drop, clamp) = (OnTimeFault::Drop, OnTimeFault::Clamp);
    check(drop, &[1, 2, HOUR, 3, HOUR, 4], &plain(&[1, 2, 3, 4]), 2);
    check(clamp, &[1, 2, HOUR, 3], &plain(&[1, 2, 2, 3]), 1);
    let restarted = [(1, false), (HOUR, true), (2, true), (3, false)];
    check(OnTimeFault::Restart, &[1, HOUR, 2, 3], &restarted, 2);
    // Ten seconds more are none.
    check(drop, &[1, 9_000, 18_000], &plain(&[1, 9_000, 18_000]), 0);
    // The clock of the source was set.
    let set = [1, HOUR, HOUR + 1, HOUR + 2, HOUR + 3, HOUR + 4];
    check(
        drop,
        &[1, HOUR, HOUR + 1, HOUR + 2, HOUR + 3, HOUR + 4],
        &plain(&[1, set[4], set[5]]),
        3,
    );
    // It is another clock.
    check(drop, &[HOUR, HOUR + 1, HOUR + 2], &plain(&set[1..4]), 0);
    // The first time was wrong.
    check(drop, &[HOUR, 1, 2], &[(HOUR, false), (1, true), (2, false)], 1);
    // On the virtual clock, times are what packets say, but a replay repeats what was accepted.
    let found = ahead(ClockKind::Virtual, drop, &[1, HOUR, HOUR + 1]);
    assert_eq!(found, (plain(&[1, HOUR, HOUR + 1]), 0));
    let found = ahead(ClockKind::Virtual, drop, &[HOUR, 1, 2]);
    assert_eq!(found, (vec![(HOUR, false), (1, true), (2, false)], 1));
}

/// A node whose times are those of another clock is believed by every policy.
#[test]
fn a_node_with_a_clock_of_its_own_is_believed() {
    for policy in [OnTimeFault::Drop, OnTimeFault::Clamp] {
        let mut graph = Graph::default();
        let source = graph.source(|call, cx| {
            cx.send_at(OUT, ms(call), Number(call));
            call < 9
        });
        let decoder = graph.node("decoder", |number, cx| {
            cx.send_at(OUT, ms(HOUR + number), Number(number));
            Ok(())
        });
        graph.on_time_fault(decoder, policy);
        let (sink, seen) = graph.sink("sink");
        graph.edge(source, decoder);
        graph.edge(decoder, sink);
        let report = graph.run(RunOptions::default()).unwrap();
        assert_eq!(report.nodes[1].timestamp_faults, 3, "{policy:?}");
        assert_eq!(seen.lock().unwrap().len(), 7, "{policy:?}");
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
