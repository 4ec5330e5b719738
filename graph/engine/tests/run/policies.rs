//! Queue policies with a slow receiver.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use afferent_engine::{ClockKind, RunOptions};
use afferent_graph::OnFull;
use afferent_spec::EdgePolicy;

use crate::kit::{Gate, Graph, Number, OUT, block, ms};

/// The receiver holds packet 0 while 1 to 9 arrive; returns what it got, and what was dropped.
fn check(on_full: OnFull, queue: usize) -> (Vec<u64>, u64) {
    let mut graph = Graph::default();
    let (taken, sent) = (Gate::default(), Gate::default());
    let (first_taken, all_sent) = (taken.clone(), sent.clone());
    let source = graph.source(move |call, cx| match call {
        0..10 => {
            if call == 1 {
                first_taken.wait();
            }
            cx.send_at(OUT, ms(call), Number(call));
            true
        }
        _ => {
            all_sent.open();
            false
        }
    });
    let (sink, seen) = graph.sink("sink");
    let hold = graph.node("hold", move |number, cx| {
        taken.open();
        sent.wait();
        cx.send(OUT, Number(number));
        Ok(())
    });
    graph.heavy(&[hold]);
    graph.edge_with(source, hold, EdgePolicy { on_full, queue, max_age: None });
    graph.edge(hold, sink);
    let report = graph.run(RunOptions::default()).unwrap();
    let counts = report.edges[0].counts;
    assert!(report.edges[0].crosses);
    assert_eq!(counts.sent, 10);
    assert_eq!(counts.sent, counts.delivered + counts.dropped());
    assert_eq!(counts.dropped(), counts.dropped_full);
    let seen = seen.lock().unwrap().clone();
    (seen, counts.dropped_full)
}

#[test]
fn drop_oldest_keeps_the_newest() {
    assert_eq!(check(OnFull::DropOldest, 3), (vec![0, 7, 8, 9], 6));
}

#[test]
fn drop_newest_keeps_the_oldest() {
    assert_eq!(check(OnFull::DropNewest, 3), (vec![0, 1, 2, 3], 6));
}

#[test]
fn latest_keeps_one() {
    assert_eq!(check(OnFull::Latest, 3), (vec![0, 9], 8));
}

#[test]
fn block_holds_the_source_back_and_loses_nothing() {
    for heavy in [false, true] {
        let mut graph = Graph::default();
        let made = Arc::new(AtomicU64::new(0));
        let making = made.clone();
        let source = graph.source(move |call, cx| {
            making.store(call + 1, Ordering::SeqCst);
            cx.send_at(OUT, ms(call), Number(call));
            call + 1 < 500
        });
        let step = graph.adder("step", 0);
        let mut seen = 0;
        let sink = graph.node("sink", move |number, _| {
            assert_eq!(number, seen, "in order, without gaps");
            // In each of two queues three, at each of two senders one, and the one in hand.
            assert!(made.load(Ordering::SeqCst) - seen <= 3 + 3 + 2 + 1);
            seen += 1;
            Ok(())
        });
        if heavy {
            graph.heavy(&[step, sink]);
        }
        graph.edge_with(source, step, block(3));
        graph.edge_with(step, sink, block(3));
        let report = graph.run(RunOptions::default()).unwrap();
        assert_eq!(report.nodes[2].packets_in, 500);
        for edge in &report.edges {
            assert_eq!((edge.counts.delivered, edge.counts.dropped()), (500, 0));
            assert!(edge.counts.peak <= 3);
        }
    }
}

#[test]
fn a_slow_receiver_holds_up_no_other_edge() {
    let mut graph = Graph::default();
    let source = graph.numbers(100);
    let slow = Gate::default();
    let open = slow.clone();
    let blocked = graph.node("blocked", move |_, _| {
        slow.wait();
        Ok(())
    });
    let latest = graph.node("latest", move |_, _| {
        // The other cannot go on before this one is served.
        open.open();
        Ok(())
    });
    graph.heavy(&[blocked, latest]);
    graph.edge_with(source, blocked, block(2));
    graph.edge_with(source, latest, EdgePolicy { on_full: OnFull::Latest, ..block(1) });
    let report = graph.run(RunOptions::default()).unwrap();
    assert_eq!(report.edges[0].counts.delivered, 100);
    let counts = report.edges[1].counts;
    assert_eq!(counts.delivered + counts.dropped_full, 100);
}

#[test]
fn packets_beyond_their_age_are_dropped_when_their_turn_comes() {
    for heavy in [false, true] {
        let mut graph = Graph::default();
        let source = graph.source(|call, cx| {
            if call == 1 {
                for at in [5, 10, 15, 20] {
                    cx.send_at(OUT, ms(at), Number(at));
                }
            }
            cx.resume_at(ms(20));
            call == 0
        });
        let (sink, seen) = graph.sink("sink");
        if heavy {
            graph.heavy(&[sink]);
        }
        let max_age = Some(Duration::from_millis(10));
        graph.edge_with(source, sink, EdgePolicy { max_age, ..block(8) });
        let options = RunOptions { clock: ClockKind::Virtual, ..RunOptions::default() };
        let report = graph.run(options).unwrap();
        assert_eq!(*seen.lock().unwrap(), [10, 15, 20]);
        assert_eq!(report.edges[0].counts.dropped_age, 1);
    }
}
