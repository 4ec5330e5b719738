//! A fused chain on one thread, and the same work as plain function calls.

use std::{
    hint::black_box,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use afferent_engine::RunOptions;
use afferent_graph::{In, Out, Port};
use anyhow::{Result, ensure};

use crate::{
    allocations,
    closure_graph::ClosureGraph,
    hop::{BATCH_PACKETS, Number, block},
};

/// Nodes between the source and the sink.
const PASS_NODES: usize = 10;

/// Hops of a packet from the source to the sink.
pub(super) const HOPS: usize = PASS_NODES + 1;

/// Batches before the measurement. During these, the main thread still starts the graph.
const WARMUP_BATCHES: usize = 50;

const IN: In<Number> = In::at(0, "in");
const OUT: Out<Number> = Out::at(0, "out");
const SOURCE_PORTS: &[Port] = &[OUT.port()];
const PASS_PORTS: &[Port] = &[IN.port(), OUT.port()];
const SINK_PORTS: &[Port] = &[IN.port()];

/// Arrival time and number of allocations at the end of each batch.
type Marks = Vec<(Instant, u64)>;

/// Time of a hop in nanoseconds for each batch, and the number of allocations.
pub(super) fn graph(batches: usize) -> Result<(Vec<f64>, u64)> {
    let all_batches = WARMUP_BATCHES + batches;
    let total = (all_batches * BATCH_PACKETS) as u64;
    let marks: Arc<Mutex<Marks>> = Arc::new(Mutex::new(Vec::with_capacity(all_batches)));
    let mut graph = ClosureGraph::default();
    let mut sent = 0;
    let source = graph.node("source", "one", SOURCE_PORTS, move |cx| {
        let mut number = cx.loan(OUT);
        number.0 = sent;
        cx.send_at(OUT, cx.now(), number);
        sent += 1;
        if sent == total {
            cx.end();
        }
    });
    let mut last = source;
    for index in 0..PASS_NODES {
        let pass = graph.node(&format!("pass{index}"), "one", PASS_PORTS, |cx| {
            if let Some(mut number) = cx.take(IN) {
                number.0 += 1;
                cx.send(OUT, number);
            }
        });
        graph.edge((last, "out"), (pass, "in"), block());
        last = pass;
    }
    let (sink_marks, mut received) = (marks.clone(), 0);
    let sink = graph.node("sink", "one", SINK_PORTS, move |cx| {
        black_box(cx.get(IN));
        received += 1;
        if received % BATCH_PACKETS == 0 {
            let mark = (Instant::now(), allocations::count());
            sink_marks.lock().unwrap_or_else(PoisonError::into_inner).push(mark);
        }
    });
    graph.edge((last, "out"), (sink, "in"), block());
    let report = graph.start(RunOptions::default())?.wait()?;
    let delivered = report.edges.iter().all(|edge| edge.counts.delivered == total);
    ensure!(delivered, "a packet of the chain was lost");
    let marks = marks.lock().unwrap_or_else(PoisonError::into_inner);
    let marks = &marks[WARMUP_BATCHES - 1..];
    let allocated =
        marks.last().map_or(0, |last| last.1) - marks.first().map_or(0, |first| first.1);
    Ok((marks.windows(2).map(|pair| per_hop(pair[1].0 - pair[0].0)).collect(), allocated))
}

type Step = Box<dyn FnMut(&mut u64)>;

/// The same chain as calls of boxed closures, without packets, metrics and clock.
pub(super) fn boxed_calls(batches: usize) -> Vec<f64> {
    let mut steps: Vec<Step> = Vec::new();
    for index in 0..HOPS {
        steps.push(Box::new(move |number| *number += index as u64));
    }
    let mut steps = black_box(steps);
    let batch = |_| {
        let start = Instant::now();
        for number in 0..BATCH_PACKETS as u64 {
            let mut number = number;
            for step in &mut steps {
                step(black_box(&mut number));
            }
        }
        per_hop(start.elapsed())
    };
    (0..batches).map(batch).collect()
}

fn per_hop(batch: std::time::Duration) -> f64 {
    batch.as_nanos() as f64 / (BATCH_PACKETS * HOPS) as f64
}
