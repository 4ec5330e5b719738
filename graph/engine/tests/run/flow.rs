//! Limits of what is in flight downstream of an edge.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use afferent_engine::{RunOptions, Threads};
use afferent_graph::OnFull;
use afferent_spec::{EdgePolicy, SyncPolicy};

use crate::kit::{Graph, IN, Number, OUT, SIDE, block, ms};

const LATEST: EdgePolicy = EdgePolicy { on_full: OnFull::Latest, queue: 1, max_age: None };

/// A camera that is faster than `slow`, the last of three nodes; most that was ever between them.
fn slow(limit: Option<usize>, threads: Threads) -> (u64, u64, u64) {
    let mut graph = Graph::default();
    let camera = graph.clocked(0, 1, 200);
    let (inside, most) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (entered, peak) = (inside.clone(), most.clone());
    let first = graph.node("first", move |number, cx| {
        peak.fetch_max(entered.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        cx.send(OUT, Number(number));
        Ok(())
    });
    let middle = graph.adder("middle", 0);
    let left = inside.clone();
    let last = graph.node("last", move |_, _| {
        std::thread::sleep(Duration::from_millis(4));
        left.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    });
    graph.edge_with(camera, first, LATEST);
    if let Some(limit) = limit {
        graph.in_flight(limit);
    }
    graph.edge_with(first, middle, block(64));
    graph.edge_with(middle, last, block(64));
    graph.all_heavy();
    let report = graph.run(RunOptions { threads, ..RunOptions::default() }).unwrap();
    let counts = report.edges[0].counts;
    assert_eq!((counts.sent, counts.depth), (200, 0));
    assert_eq!(counts.delivered + counts.dropped_full, 200);
    assert_eq!(report.nodes[3].packets_in, counts.delivered, "what was let in is finished");
    (counts.delivered, counts.dropped_full, most.load(Ordering::SeqCst))
}

#[test]
fn a_limit_holds_back_work_that_cannot_be_used_yet() {
    for limit in [1, 2, 5] {
        let (delivered, dropped, most) = slow(Some(limit), Threads::Auto);
        assert!(most <= limit as u64, "{most} under way with a limit of {limit}");
        assert!(delivered > 10 && dropped > 10, "{delivered} delivered, {dropped} dropped");
    }
    let (.., most) = slow(None, Threads::Auto);
    assert!(most > 5, "without a limit the queues fill: {most}");
    assert_eq!(slow(Some(1), Threads::Single).2, 1);
}

#[test]
fn what_waits_in_a_join_is_not_under_way() {
    // Each packet of the leading branch waits for one that is let in after it.
    let mut graph = Graph::default();
    let source = graph.clocked(0, 1, 50);
    let first = graph.adder("first", 0);
    let (join, seen) = graph.join("join");
    graph.edge_with(source, first, LATEST);
    graph.in_flight(1);
    graph.edge_with(first, join, block(32));
    let after = Duration::from_millis(5);
    let window = SyncPolicy::Window { before: Duration::ZERO, after };
    graph.companion(first, (join, SIDE), window, None);
    graph.heavy(&[first, join]);
    let report = graph.run(RunOptions::default()).unwrap();
    let counts = report.edges[0].counts;
    assert_eq!(counts.delivered + counts.dropped_full, 50);
    assert_eq!(seen.lock().unwrap().len() as u64, counts.delivered);
    assert!(counts.delivered > 5, "{counts:?}");
}

#[test]
fn a_node_that_keeps_its_packet_does_not_hold_the_next_one_back() {
    let mut graph = Graph::default();
    let source = graph.source(|call, cx| {
        cx.send(OUT, Number(call));
        cx.resume_at(ms((call + 1) * 2));
        call < 20
    });
    let mut kept = Vec::new();
    let calls = Arc::new(AtomicU64::new(0));
    let counted = calls.clone();
    let hoarder = graph.node("hoarder", move |_, cx| {
        kept.extend(cx.packet().cloned());
        kept.extend(cx.take(IN).map(|loan| loan.into_packet(afferent_graph::Header::default())));
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(())
    });
    graph.edge_with(source, hoarder, LATEST);
    graph.in_flight(1);
    graph.heavy(&[hoarder]);
    let report = graph.run(RunOptions::default()).unwrap();
    assert!(report.edges[0].counts.delivered > 5);
    assert_eq!(calls.load(Ordering::SeqCst), report.edges[0].counts.delivered);
}
