//! Streams that are joined: what belongs to one time comes in one call.

use std::time::Duration;

use afferent_engine::{ClockKind, JoinCounts, RunOptions, Threads};
use afferent_spec::SyncPolicy;

use crate::kit::{
    EXTRA, Graph, Joined, Number, OUT, SIDE, Seen, block, join_counts, ms, run_joined,
};

const fn time(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A source of each 10 ms with one of each millisecond, whose numbers are their times.
#[test]
fn a_fast_stream_is_interpolated_at_the_times_of_a_slow_one() {
    let (seen, report) = run_joined(|graph| {
        let camera = graph.clocked(0, 10, 50);
        // At 0, 3, 6, … ms: never at the time of an image but at each third.
        let imu = graph.source(|call, cx| {
            cx.send(OUT, Number(call * 3000));
            cx.resume_at(ms((call + 1) * 3));
            call < 200
        });
        let (join, seen) = graph.join("join");
        graph.edge(camera, join);
        graph.companion(imu, (join, SIDE), SyncPolicy::Interpolate, None);
        seen
    });
    let expected: Vec<Joined> =
        (0..50).map(|number| (number, vec![number * 10_000], vec![])).collect();
    assert_eq!(seen, expected);
    assert_eq!(join_counts(&report, "join.in"), JoinCounts { matched: 50, late: 0, dropped: 0 });
}

/// A branch that says nothing for most packets does not hold the join up: it is in step.
#[test]
fn a_silent_branch_does_not_block_the_synchronizer() {
    let (seen, report) = run_joined(|graph| {
        let source = graph.clocked(0, 10, 20);
        let (some, few) = (graph.filter("some", 2), graph.filter("few", 3));
        let (join, seen) = graph.join("join");
        let also = graph.filter("also", 1);
        graph.edge(source, some);
        graph.edge(some, few);
        graph.edge(few, also);
        graph.edge(source, join);
        graph.companion(some, (join, SIDE), SyncPolicy::Exact, None);
        graph.companion(also, (join, EXTRA), SyncPolicy::Exact, None);
        seen
    });
    // Without `side` there is no call, `extra` is optional.
    let extra = |number: u64| if number.is_multiple_of(6) { vec![number] } else { vec![] };
    let expected: Vec<Joined> =
        (0..20).step_by(2).map(|number| (number, vec![number], extra(number))).collect();
    assert_eq!(seen, expected);
    assert_eq!(join_counts(&report, "join.in"), JoinCounts { matched: 10, late: 0, dropped: 10 });
    assert_eq!(join_counts(&report, "join.side"), JoinCounts { matched: 10, late: 0, dropped: 0 });
}

/// The bound alone lets a packet go on: the source sends no more until the join was called.
#[test]
fn bounds_move_without_packets() {
    let mut graph = Graph::default();
    let called = crate::kit::Gate::default();
    let wait = called.clone();
    let source = graph.source(move |call, cx| {
        if call == 1 {
            wait.wait();
            return false;
        }
        cx.send_at(OUT, ms(1), Number(1));
        true
    });
    let (none, more) = (graph.filter("none", 2), graph.filter("more", 1));
    let (join, seen) = graph.join("join");
    graph.on_call(join, move || called.open());
    graph.edge(source, join);
    graph.edge(source, none);
    graph.edge(none, more);
    graph.companion(more, (join, EXTRA), SyncPolicy::Exact, None);
    graph.all_heavy();
    graph.run(RunOptions::default()).unwrap();
    assert_eq!(*seen.lock().unwrap(), [(1, vec![], vec![])]);
}

#[test]
fn a_window_gives_all_that_is_near() {
    let (seen, _) = run_joined(|graph| {
        let (slow, fast) = (graph.clocked(0, 20, 4), graph.clocked(100, 5, 20));
        let (join, seen) = graph.join("join");
        graph.edge(slow, join);
        let window = SyncPolicy::Window { before: time(5), after: time(10) };
        graph.companion(fast, (join, SIDE), window, None);
        seen
    });
    let expected = [
        (0, vec![100, 101, 102], vec![]),
        (1, vec![103, 104, 105, 106], vec![]),
        (2, vec![107, 108, 109, 110], vec![]),
        (3, vec![111, 112, 113, 114], vec![]),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_late_match_is_skipped() {
    let (seen, report) = run_joined(|graph| {
        let lead = graph.clocked(0, 10, 10);
        // Its packets come 25 ms after their time.
        let tardy = graph.source(|call, cx| {
            if call > 0 {
                cx.send_at(OUT, ms(call * 10 - 10), Number(call - 1));
            }
            cx.resume_at(ms(call * 10 + 25));
            call < 10
        });
        let (join, seen) = graph.join("join");
        graph.edge(lead, join);
        graph.companion(tardy, (join, EXTRA), SyncPolicy::Exact, Some(time(12)));
        seen
    });
    assert_eq!(seen.len(), 10);
    assert!(seen.iter().all(|(_, _, extra)| extra.is_empty()), "{seen:?}");
    assert_eq!(join_counts(&report, "join.in").late, 10);
    // The last packet goes on at 102 ms, and with it the join ends.
    assert_eq!(join_counts(&report, "join.extra"), JoinCounts { matched: 0, late: 8, dropped: 0 });
}

/// A diamond whose one side is longer than all queues together does not lock up.
#[test]
fn a_join_never_blocks_the_graph() {
    for clock in [ClockKind::Real, ClockKind::Virtual] {
        for swapped in [false, true] {
            let mut graph = Graph::default();
            let source = graph.numbers(500);
            let mut kept = Vec::new();
            let late = graph.node("late", move |number, cx| {
                kept.push((cx.at(), number));
                if kept.len() == 100 {
                    kept.drain(..).for_each(|(at, number)| cx.send_at(OUT, at, Number(number)));
                }
                Ok(())
            });
            let (join, seen) = graph.join("join");
            let (lead, side) = if swapped { (late, source) } else { (source, late) };
            graph.edge_with(source, late, block(2));
            graph.edge_with(lead, join, block(2));
            graph.companion(side, (join, SIDE), SyncPolicy::Exact, None);
            graph.all_heavy();
            let report = graph.run(RunOptions { clock, ..RunOptions::default() }).unwrap();
            let lead = join_counts(&report, "join.in");
            assert_eq!(lead.matched, seen.lock().unwrap().len() as u64);
            assert_eq!(lead.matched + lead.dropped, 500, "{clock:?} {swapped}: {lead:?}");
            if clock == ClockKind::Virtual && swapped {
                assert_eq!(lead.matched, 500);
            }
        }
    }
}

/// On the real clock; within one thread what a source sends in one call comes to the join at once.
fn run_real(build: impl Fn(&mut Graph) -> Seen<Joined>) -> Vec<Joined> {
    let mut graph = Graph::default();
    let seen = build(&mut graph);
    graph.run(RunOptions { threads: Threads::Single, ..RunOptions::default() }).unwrap();
    let seen = seen.lock().unwrap();
    seen.clone()
}

/// Numbers from 0 to 4, one each `period` milliseconds from `first` on, sent all together.
fn burst(graph: &mut Graph, first: u64, period: u64) -> usize {
    graph.source(move |_, cx| {
        (0..5).for_each(|n| cx.send_at(OUT, ms(first + n * period), Number(n)));
        false
    })
}

#[test]
fn streams_of_the_newest_packet_alone_are_joined() {
    for swapped in [false, true] {
        let seen = run_real(|graph| {
            // The one that is first is far ahead.
            let streams = [burst(graph, 0, 10), burst(graph, 0, 10)];
            let [lead, side] = if swapped { [streams[1], streams[0]] } else { streams };
            let (join, seen) = graph.join("join");
            graph.edge(lead, join);
            graph.keep(None);
            graph.companion(side, (join, SIDE), SyncPolicy::Exact, None);
            graph.keep(None);
            seen
        });
        let expected: Vec<Joined> = (0..5).map(|n| (n, vec![n], vec![])).collect();
        assert_eq!(seen, expected, "{swapped}");
    }
}

#[test]
fn two_packets_are_kept_to_interpolate() {
    for queue in [None, Some(1)] {
        let seen = run_real(|graph| {
            let side = graph.source(|_, cx| {
                [10, 20].iter().for_each(|at| cx.send_at(OUT, ms(*at), Number(*at)));
                false
            });
            let lead = graph.source(|_, cx| {
                cx.send_at(OUT, ms(15), Number(0));
                false
            });
            let (join, seen) = graph.join("join");
            graph.edge(lead, join);
            graph.companion(side, (join, SIDE), SyncPolicy::Interpolate, None);
            graph.keep(queue);
            seen
        });
        assert_eq!(seen, [(0, vec![15], vec![])], "{queue:?}");
    }
}

/// A node that is called at times of its own joins streams whose packets are waited for.
#[test]
fn a_join_is_called_when_it_is_time_too() {
    for clock in [ClockKind::Virtual, ClockKind::Real] {
        let mut graph = Graph::default();
        let lead = graph.clocked(0, 10, 3);
        let silent = graph.source(|call, cx| {
            cx.resume_at(ms(100));
            call < 1
        });
        let seen: Seen<(Option<u64>, i64)> = Seen::default();
        let kept = seen.clone();
        let join = graph.timed_join("join", move |number, cx| {
            kept.lock().unwrap().push((number, cx.now().0 / 1_000_000));
            match number {
                Some(0) => cx.wake_at(ms(25)),
                Some(1) => cx.resume_at(ms(33)),
                Some(_) => cx.resume(),
                None => {}
            }
        });
        graph.edge(lead, join);
        graph.companion(silent, (join, EXTRA), SyncPolicy::Exact, Some(time(20)));
        graph.run(RunOptions { clock, ..RunOptions::default() }).unwrap();
        let seen = seen.lock().unwrap();
        if clock == ClockKind::Virtual {
            let expected =
                [(Some(0), 20), (None, 25), (Some(1), 30), (None, 33), (Some(2), 40), (None, 40)];
            assert_eq!(*seen, expected);
        }
        assert_eq!(seen.iter().filter(|(number, _)| number.is_none()).count(), 3);
    }
}
