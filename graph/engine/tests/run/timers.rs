//! Calls without a packet, and streams that lead back.

use std::time::Duration;

use afferent_engine::{ClockKind, Report, RunOptions, Threads};
use afferent_graph::Timestamp;

use crate::kit::{Graph, Number, OUT, Seen, block, ms};

fn on_virtual_clock() -> RunOptions {
    RunOptions { clock: ClockKind::Virtual, ..RunOptions::default() }
}

fn both(check: impl Fn(RunOptions)) {
    for clock in [ClockKind::Virtual, ClockKind::Real] {
        for threads in [Threads::Single, Threads::Auto] {
            check(RunOptions { clock, threads, ..RunOptions::default() });
        }
    }
}

#[test]
fn what_a_node_still_has_to_say_goes_before_its_next_packet() {
    both(|options| {
        let mut graph = Graph::default();
        let numbers = graph.numbers(20);
        let mut left = 0;
        // Each number n is sent as 10 n, 10 n + 1, 10 n + 2, one a call.
        let node = graph.timed("chunks", move |number, cx| {
            left = number.map_or(left, |number| number * 10);
            cx.send(OUT, Number(left));
            left += 1;
            if left % 10 < 3 {
                cx.resume();
            }
        });
        let (sink, seen) = graph.sink("sink");
        graph.edge(numbers, node);
        graph.edge(node, sink);
        graph.heavy(&[node, sink]);
        graph.run(options.clone()).unwrap();
        let expected: Vec<u64> = (0..20).flat_map(|n| [10 * n, 10 * n + 1, 10 * n + 2]).collect();
        assert_eq!(*seen.lock().unwrap(), expected, "{:?} {:?}", options.clock, options.threads);
    });
}

#[test]
fn packets_wait_while_a_node_rests() {
    let mut graph = Graph::default();
    let numbers = graph.clocked(0, 1, 3);
    let seen: Seen<(Option<u64>, Timestamp)> = Seen::default();
    let kept = seen.clone();
    let node = graph.timed("rests", move |number, cx| {
        kept.lock().unwrap().push((number, cx.now()));
        if number.is_some() {
            cx.resume_at(cx.now() + Duration::from_millis(10));
        }
    });
    graph.edge(numbers, node);
    graph.run(on_virtual_clock()).unwrap();
    let calls = seen.lock().unwrap().clone();
    let expected = [(Some(0), 0), (None, 10), (Some(1), 10), (None, 20), (Some(2), 20), (None, 30)];
    assert_eq!(calls, expected.map(|(number, at)| (number, ms(at))));
}

#[test]
fn a_node_is_woken_while_packets_continue_and_ends_after_it() {
    let mut graph = Graph::default();
    let numbers = graph.clocked(0, 4, 3);
    let seen: Seen<(Option<u64>, Timestamp)> = Seen::default();
    let kept = seen.clone();
    let node = graph.timed("wakes", move |number, cx| {
        kept.lock().unwrap().push((number, cx.now()));
        match number {
            Some(0) => cx.wake_at(ms(6)),
            Some(2) => cx.wake_at(ms(30)),
            _ => cx.send(OUT, Number(cx.now().0.unsigned_abs())),
        }
    });
    let (sink, sent) = graph.sink("sink");
    graph.edge(numbers, node);
    graph.edge(node, sink);
    graph.run(on_virtual_clock()).unwrap();
    let calls = seen.lock().unwrap().clone();
    let expected = [(Some(0), 0), (Some(1), 4), (None, 6), (Some(2), 8), (None, 30)];
    assert_eq!(calls, expected.map(|(number, at)| (number, ms(at))));
    assert_eq!(*sent.lock().unwrap(), [4_000_000, 6_000_000, 30_000_000]);
}

#[test]
fn an_interrupt_forgets_what_a_node_asked_for() {
    let mut graph = Graph::default();
    let numbers = graph.clocked(0, 1, 1);
    let barge = graph.clocked(0, 5, 2);
    let seen: Seen<Timestamp> = Seen::default();
    let kept = seen.clone();
    let node = graph.timed("wakes", move |_, cx| {
        kept.lock().unwrap().push(cx.now());
        cx.wake_at(ms(9));
        cx.resume_at(ms(7));
    });
    graph.edge(numbers, node);
    graph.canceled(node, |_| Ok(()));
    let (sink, _) = graph.sink("sink");
    graph.edge(barge, sink);
    graph.interrupted_by(barge);
    graph.run(on_virtual_clock()).unwrap();
    // The first interrupt comes at 0, after the number, the second at 5.
    assert_eq!(*seen.lock().unwrap(), [ms(0)]);
}

/// Numbers that a node sends round until they are 1,000 or more; what came out, in order.
fn round(options: RunOptions) -> (Vec<u64>, Report) {
    let mut graph = Graph::default();
    let numbers = graph.clocked(1, 1, 20);
    let first = graph.node("first", |number, cx| {
        cx.send(OUT, Number(number * 7));
        Ok(())
    });
    let second = graph.node("second", |number, cx| {
        if number < 1000 {
            cx.send(OUT, Number(number + 1));
        }
        Ok(())
    });
    let (sink, seen) = graph.sink("sink");
    graph.edge(numbers, first);
    graph.edge(first, second);
    graph.edge(second, sink);
    graph.feedback(second, first, 64);
    graph.all_heavy();
    let report = graph.run(options).unwrap();
    let seen = seen.lock().unwrap().clone();
    (seen, report)
}

#[test]
fn a_stream_leads_back_and_the_graph_ends() {
    let expected = |start: u64| {
        let steps = std::iter::successors(Some(start * 7 + 1), |number| Some(number * 7 + 1));
        steps.take_while(|number| number - 1 < 1000).collect::<Vec<_>>()
    };
    let mut all: Vec<u64> = (1..=20).flat_map(expected).collect();
    all.sort_unstable();
    for threads in [Threads::Single, Threads::Auto] {
        let (first, report) = round(RunOptions { threads, ..on_virtual_clock() });
        let (again, _) = round(RunOptions { threads: Threads::Single, ..on_virtual_clock() });
        assert_eq!(first, again, "{threads:?}");
        let mut sorted = first;
        sorted.sort_unstable();
        assert_eq!(sorted, all);
        assert!(report.failures.is_empty());
    }
    // On the real clock the last of what comes back may find the graph ended.
    let (seen, _) = round(RunOptions::default());
    assert!(seen.len() >= 20 && seen.iter().all(|number| all.contains(number)), "{seen:?}");
}

#[test]
fn the_way_through_a_feedback_edge_is_not_latency() {
    let mut graph = Graph::default();
    let numbers = graph.clocked(1, 250, 4);
    let first = graph.node("first", |number, cx| {
        cx.send(OUT, Number(number));
        Ok(())
    });
    let slow = graph.node("slow", |number, cx| {
        std::thread::sleep(Duration::from_millis(100));
        if number < 100 {
            cx.send(OUT, Number(number + 100));
        }
        Ok(())
    });
    graph.edge(numbers, first);
    graph.edge_with(first, slow, block(64));
    graph.feedback(slow, first, 64);
    graph.all_heavy();
    let report = graph.run(RunOptions::default()).unwrap();
    let first = report.node("first").unwrap();
    assert!(first.packets_in > 4, "{first:?}");
    assert!(first.latency.max_ns < 100_000_000, "{first:?}");
}
