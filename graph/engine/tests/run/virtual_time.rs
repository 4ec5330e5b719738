//! Runs on the virtual clock: no waiting, and the same result every time.

use afferent_engine::{ClockKind, RunOptions, Threads};
use afferent_graph::OnFull;
use afferent_spec::EdgePolicy;

use crate::kit::{Graph, Number, OUT, Seen, block, ms};

/// Packets at the end of a graph with every feature: sources of several rates and one
/// without pace, a diamond, merges of merges, edges that would drop on the real clock.
fn check(threads: Threads, heavy: &[usize]) -> Vec<(u64, i64, i64)> {
    let mut graph = Graph::default();
    let (fast, slow, free) =
        (graph.clocked(1000, 7, 60), graph.clocked(2000, 20, 25), graph.numbers(300));
    let (left, right) = (graph.adder("left", 10_000), graph.adder("right", 20_000));
    let merge = graph.adder("merge", 0);
    let burst = graph.node("burst", |number, cx| {
        (0..3).for_each(|copy| cx.send(OUT, Number(number * 10 + copy)));
        Ok(())
    });
    let seen: Seen<(u64, i64, i64)> = Seen::default();
    let kept = seen.clone();
    let sink = graph.node("sink", move |number, cx| {
        kept.lock().unwrap().push((number, cx.at().0, cx.now().0));
        Ok(())
    });
    let latest = EdgePolicy { on_full: OnFull::Latest, ..block(1) };
    graph.edge_with(fast, left, latest);
    graph.edge(fast, right);
    graph.edge_with(left, merge, block(1));
    graph.edge(right, merge);
    graph.edge(slow, merge);
    graph.edge_with(merge, burst, EdgePolicy { on_full: OnFull::DropOldest, ..block(2) });
    graph.edge(burst, sink);
    graph.edge(free, sink);
    graph.edge(slow, sink);
    graph.heavy(heavy);
    let clock = ClockKind::Virtual;
    let report = graph.run(RunOptions { threads, clock, ..RunOptions::default() }).unwrap();
    assert!(report.edges.iter().all(|edge| edge.counts.dropped() == 0));
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen.len(), (60 * 2 + 25) * 3 + 300 + 25);
    seen
}

#[test]
fn the_result_is_the_same_on_one_thread_and_on_many() {
    let single = check(Threads::Single, &[]);
    for _ in 0..5 {
        assert_eq!(check(Threads::Single, &[]), single);
        assert_eq!(check(Threads::Auto, &[]), single);
        assert_eq!(check(Threads::Auto, &[3, 7]), single);
        assert_eq!(check(Threads::Auto, &[3, 4, 5, 6, 7]), single);
    }
}

#[test]
fn a_merge_takes_packets_in_the_order_of_their_times() {
    for heavy in [false, true] {
        let mut graph = Graph::default();
        // The second branch has a step more, so its packets arrive last.
        let source = graph.clocked(0, 10, 20);
        let (one, two) = (graph.adder("one", 1000), graph.adder("two", 2000));
        let also = graph.adder("also", 0);
        let other = graph.clocked(5000, 15, 10);
        let seen: Seen<i64> = Seen::default();
        let kept = seen.clone();
        let sink = graph.node("sink", move |_, cx| {
            kept.lock().unwrap().push(cx.at().0);
            Ok(())
        });
        graph.edge(source, one);
        graph.edge(source, two);
        graph.edge(two, also);
        graph.edge(one, sink);
        graph.edge(also, sink);
        graph.edge(other, sink);
        if heavy {
            graph.heavy(&[one, two, also, sink]);
        }
        let clock = ClockKind::Virtual;
        graph.run(RunOptions { clock, ..RunOptions::default() }).unwrap();
        let seen = seen.lock().unwrap();
        assert_eq!(seen.len(), 50);
        assert!(seen.is_sorted());
    }
}

#[test]
fn an_hour_takes_no_time_and_the_clock_shows_it() {
    let mut graph = Graph::default();
    let source = graph.clocked(0, 60_000, 61);
    let times: Seen<i64> = Seen::default();
    let kept = times.clone();
    let sink = graph.node("sink", move |_, cx| {
        assert_eq!(cx.now(), cx.at());
        kept.lock().unwrap().push(cx.now().0);
        Ok(())
    });
    graph.edge(source, sink);
    let clock = ClockKind::Virtual;
    let report = graph.run(RunOptions { clock, ..RunOptions::default() }).unwrap();
    assert_eq!(times.lock().unwrap().last(), Some(&ms(3_600_000).0));
    assert_eq!(report.media_ns, 3_600_000_000_000);
    assert!(report.real_time_factor.is_some());
}
