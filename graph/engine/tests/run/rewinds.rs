//! Streams that go back in time on purpose, and nodes that join them.

use std::time::Duration;

use afferent_engine::{JoinCounts, Report, RunOptions};
use afferent_spec::{OnTimeFault, SyncPolicy};

use crate::kit::{
    EXTRA, Gate, Graph, Joined, MORE, Number, OUT, SIDE, block, join_counts, ms, run_joined,
};

/// Packets of a source generation, and generations.
const PACKETS: u64 = 20;
const LIVES: u64 = 3;

/// A source each `period` milliseconds, whose time restarts with each generation.
fn mortal(graph: &mut Graph, period: u64, packets: u64) -> usize {
    let source = graph.source(move |call, cx| {
        let at = call % packets * period;
        cx.send_at(OUT, ms(at), Number(at));
        cx.resume_at(ms((call + 1) * period));
        call + 1 < packets * LIVES
    });
    graph.on_time_fault(source, OnTimeFault::Restart);
    source
}

/// Each packet of each life with those that it is made of, `side` as `expected` says.
fn check(seen: &[Joined], report: &Report, expected: impl Fn(u64) -> Vec<u64>) {
    let life = (0..PACKETS).map(|number| number * 10);
    let lives = (0..LIVES).flat_map(|_| life.clone());
    let expected: Vec<Joined> = lives.map(|at| (at, expected(at), vec![])).collect();
    assert_eq!(seen, expected);
    let all = JoinCounts { matched: PACKETS * LIVES, ..JoinCounts::default() };
    assert_eq!(join_counts(report, "join.in"), all);
}

/// A source whose two ways to the join are of different length: what it sends after it has begun
/// again comes by one while the other still has packets of before.
#[test]
fn both_paths_from_a_restarted_source_lead_to_the_same_call() {
    let millis = Duration::from_millis;
    for sync in [
        SyncPolicy::Exact,
        SyncPolicy::Approx { slop: millis(4) },
        SyncPolicy::Latest { max_age: Some(millis(5)) },
        SyncPolicy::Interpolate,
    ] {
        for swapped in [false, true] {
            let (seen, report) = run_joined(|graph| {
                let source = mortal(graph, 10, PACKETS);
                let (one, two) = (graph.filter("one", 1), graph.filter("two", 1));
                let (join, seen) = graph.join("join");
                graph.edge(source, one);
                graph.edge(one, two);
                let (lead, side) = if swapped { (two, source) } else { (source, two) };
                graph.edge(lead, join);
                graph.companion(side, (join, SIDE), sync, None);
                seen
            });
            check(&seen, &report, |at| vec![at]);
            assert_eq!(join_counts(&report, "join.side").matched, PACKETS * LIVES, "{sync:?}");
        }
    }
}

/// A source of 20 packets and what makes speech of them, whose times lie far ahead until it is
/// interrupted after ten, and restart then.
fn interrupted(graph: &mut Graph) -> (usize, usize) {
    // On a busy machine, a thread may be late by many milliseconds.
    let source = graph.clocked(0, 100, 20);
    let mut base = 10_000;
    let speech = graph.node("speech", move |number, cx| {
        let at = base + number;
        cx.send_at(OUT, ms(at), Number(at));
        base = if number >= 9 { 100 } else { base };
        Ok(())
    });
    let button = graph.source(|call, cx| {
        if call == 1 {
            cx.send(OUT, Number(0));
        }
        cx.resume_at(ms(950));
        call < 1
    });
    graph.canceled(speech, |_| Ok(()));
    graph.interrupted_by(button);
    (source, speech)
}

/// Calls of a synchronized node for such speech that comes to it by two ways.
fn around_the_interrupt() -> Vec<Joined> {
    let before = (0..10).map(|number| 10_000 + number);
    let times = before.chain((10..20).map(|number| 100 + number));
    times.map(|at| (at, vec![at], vec![])).collect()
}

/// The leading stream comes by the longer way, and is held up with packets from before the interrupt
/// while what accompanies it has restarted.
#[test]
fn what_leads_may_be_from_before_an_interrupt() {
    let mut graph = Graph::default();
    let (source, speech) = interrupted(&mut graph);
    let way = graph.filter("way", 1);
    let gate = Gate::default();
    let (opened, mut calls) = (gate.clone(), 0);
    graph.on_call(way, move || {
        calls += 1;
        if calls == 5 {
            gate.wait();
        }
    });
    let last = graph.node("last", move |number, _| {
        if number == 119 {
            opened.open();
        }
        Ok(())
    });
    let (join, seen) = graph.join("join");
    graph.edge_with(source, speech, block(32));
    graph.edge_with(speech, way, block(32));
    graph.edge(speech, last);
    graph.edge_with(way, join, block(32));
    graph.companion(speech, (join, SIDE), SyncPolicy::Exact, None);
    graph.all_heavy();
    let report = graph.run(RunOptions::default()).unwrap();
    assert_eq!(*seen.lock().unwrap(), around_the_interrupt());
    assert_eq!(join_counts(&report, "join.in").matched, 20);
}

/// Packets that a source sends through two outputs in one call start one generation.
#[test]
fn outputs_that_go_back_together_start_one_generation() {
    let (seen, report) = run_joined(|graph| {
        let source = graph.source(|call, cx| {
            let at = call % PACKETS * 10;
            for out in [OUT, MORE] {
                cx.send_at(out, ms(at), Number(at));
            }
            cx.resume_at(ms((call + 1) * 10));
            call + 1 < PACKETS * LIVES
        });
        graph.on_time_fault(source, OnTimeFault::Restart);
        let (join, seen) = graph.join("join");
        graph.edge(source, join);
        graph.companion(source, (join, SIDE), SyncPolicy::Exact, None);
        graph.leave_by_more();
        seen
    });
    check(&seen, &report, |at| vec![at]);
}

/// Nothing waits for a companion that was left out in the new life, and none is taken from before.
#[test]
fn watermarks_restart() {
    let (seen, report) = run_joined(|graph| {
        let source = mortal(graph, 10, PACKETS);
        let (some, also) = (graph.filter("some", 20), graph.filter("also", 1));
        let (join, seen) = graph.join("join");
        graph.edge(source, some);
        graph.edge(some, also);
        graph.edge(source, join);
        graph.companion(also, (join, EXTRA), SyncPolicy::Exact, None);
        seen
    });
    let life = (0..PACKETS).map(|number| number * 10);
    let extra = |at: u64| if at.is_multiple_of(20) { vec![at] } else { vec![] };
    let expected: Vec<Joined> =
        (0..LIVES).flat_map(|_| life.clone()).map(|at| (at, vec![], extra(at))).collect();
    assert_eq!(seen, expected);
    assert_eq!(join_counts(&report, "join.in").late, 0);
}

/// In a thread of its own, a branch that is held up has not heard yet that its source has begun
/// again, and reports that.
#[test]
fn a_branch_that_still_works_on_the_old_time_is_waited_for() {
    let mut graph = Graph::default();
    let sent = Gate::default();
    let all_sent = sent.clone();
    let source = graph.source(move |call, cx| {
        let times: &[u64] = if call == 0 { &[1000, 1010] } else { &[0, 10, 20] };
        times.iter().for_each(|at| cx.send_at(OUT, ms(*at), Number(*at)));
        if call == 1 {
            // After this, the short path has delivered everything.
            cx.resume_at(cx.now() + Duration::from_millis(20));
        } else if call == 2 {
            all_sent.open();
        }
        call < 2
    });
    graph.on_time_fault(source, OnTimeFault::Restart);
    let long = graph.filter("long", 1);
    let mut calls = 0;
    graph.on_call(long, move || {
        calls += 1;
        if calls == 2 {
            sent.wait();
        }
    });
    let (join, seen) = graph.join("join");
    graph.edge_with(source, long, block(16));
    graph.edge_with(source, join, block(16));
    graph.companion(long, (join, SIDE), SyncPolicy::Exact, None);
    graph.all_heavy();
    let report = graph.run(RunOptions::default()).unwrap();
    // The third call repeats the times of the second.
    let times = [1000, 1010, 0, 10, 20, 0, 10, 20];
    assert_eq!(*seen.lock().unwrap(), times.map(|at| (at, vec![at], vec![])));
    assert_eq!(join_counts(&report, "join.in").matched, 8);
}

/// Two sources that restart at the same time.
#[test]
fn streams_of_two_restarted_sources_are_interpolated() {
    let (seen, report) = run_joined(|graph| {
        let (camera, imu) = (mortal(graph, 10, PACKETS), mortal(graph, 4, PACKETS * 10 / 4));
        let (join, seen) = graph.join("join");
        graph.edge(camera, join);
        graph.companion(imu, (join, SIDE), SyncPolicy::Interpolate, None);
        seen
    });
    check(&seen, &report, |at| vec![at]);
}

/// Only what accompanies restarts: nothing belongs to the leading stream until it has caught up,
/// and nothing waits for that.
#[test]
fn a_secondary_stream_that_restarts_alone_catches_up() {
    let (seen, report) = run_joined(|graph| {
        let lead = graph.clocked(0, 10, PACKETS * 2);
        let side = graph.source(|call, cx| {
            let at = if call < PACKETS { call * 10 } else { call * 10 - 50 };
            cx.send_at(OUT, ms(at), Number(at));
            cx.resume_at(ms((call + 1) * 10));
            call + 1 < PACKETS * 2
        });
        graph.on_time_fault(side, OnTimeFault::Restart);
        let (join, seen) = graph.join("join");
        graph.edge(lead, join);
        graph.companion(side, (join, SIDE), SyncPolicy::Exact, Some(Duration::from_millis(100)));
        seen
    });
    let (lead, side) = (join_counts(&report, "join.in"), join_counts(&report, "join.side"));
    assert_eq!(lead.matched, seen.len() as u64);
    // Four while it catches up, and the last five, which it does not come to.
    assert_eq!((lead.matched, lead.dropped), (PACKETS * 2 - 9, 9));
    assert_eq!(side.matched + side.dropped + side.late, PACKETS * 2);
}

/// Sound that was made ahead is never reached: after the interrupt, times begin before it.
#[test]
fn joins_match_again_after_an_interrupt() {
    for cancels_join in [false, true] {
        let (seen, report) = run_joined(|graph| {
            let (source, speech) = interrupted(graph);
            let way = graph.filter("way", 1);
            let (join, seen) = graph.join("join");
            if cancels_join {
                graph.canceled(join, |_| Ok(()));
            }
            graph.edge(source, speech);
            graph.edge(speech, way);
            graph.edge(speech, join);
            graph.companion(way, (join, SIDE), SyncPolicy::Exact, None);
            seen
        });
        assert_eq!(seen, around_the_interrupt(), "cancels_join: {cancels_join}");
        assert!(report.nodes.iter().all(|node| node.timestamp_faults == 0));
    }
}
