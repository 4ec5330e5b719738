//! A chain on one thread: as a graph, and as plain calls.

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
    hop::{BATCH, Number, block},
    scripted::Scripted,
};

/// Nodes between the source and the sink.
const NODES: usize = 10;

/// Hops of a packet: into each of these nodes, and into the sink.
pub(super) const HOPS: usize = NODES + 1;

/// Batches that are not measured: the thread that starts the graph has work of its own meanwhile.
const WARMUP: usize = 50;

const IN: In<Number> = In::at(0, "in");
const OUT: Out<Number> = Out::at(0, "out");
const SOURCE: &[Port] = &[OUT.port()];
const PASS: &[Port] = &[IN.port(), OUT.port()];
const SINK: &[Port] = &[IN.port()];

/// When each batch had arrived, and the allocations until then.
type Marks = Vec<(Instant, u64)>;

/// Nanoseconds of a hop in each batch, and the allocations of all batches.
pub(super) fn graph(batches: usize) -> Result<(Vec<f64>, u64)> {
    let total = ((WARMUP + batches) * BATCH) as u64;
    let marks: Arc<Mutex<Marks>> = Arc::new(Mutex::new(Vec::with_capacity(WARMUP + batches)));
    let mut graph = Scripted::default();
    let mut sent = 0;
    let source = graph.node("source", "one", SOURCE, move |cx| {
        let mut number = cx.loan(OUT);
        number.0 = sent;
        cx.send_at(OUT, cx.now(), number);
        sent += 1;
        if sent == total {
            cx.end();
        }
    });
    let mut last = source;
    for place in 0..NODES {
        let pass = graph.node(&format!("pass{place}"), "one", PASS, |cx| {
            if let Some(mut number) = cx.take(IN) {
                number.0 += 1;
                cx.send(OUT, number);
            }
        });
        graph.edge((last, "out"), (pass, "in"), block());
        last = pass;
    }
    let (kept, mut received) = (marks.clone(), 0);
    let sink = graph.node("sink", "one", SINK, move |cx| {
        black_box(cx.get(IN));
        received += 1;
        if received % BATCH == 0 {
            let mark = (Instant::now(), allocations::count());
            kept.lock().unwrap_or_else(PoisonError::into_inner).push(mark);
        }
    });
    graph.edge((last, "out"), (sink, "in"), block());
    let report = graph.start(RunOptions::default())?.wait()?;
    let delivered = report.edges.iter().all(|edge| edge.counts.delivered == total);
    ensure!(delivered, "a packet of the chain was lost");
    let marks = marks.lock().unwrap_or_else(PoisonError::into_inner);
    let marks = &marks[WARMUP - 1..];
    let allocated =
        marks.last().map_or(0, |last| last.1) - marks.first().map_or(0, |first| first.1);
    Ok((marks.windows(2).map(|pair| per_hop(pair[1].0 - pair[0].0)).collect(), allocated))
}

type Step = Box<dyn FnMut(&mut u64)>;

/// The same chain as calls through `dyn`, without packets, metrics and clock.
pub(super) fn boxed_calls(batches: usize) -> Vec<f64> {
    let mut steps: Vec<Step> = Vec::new();
    for place in 0..HOPS {
        steps.push(Box::new(move |number| *number += place as u64));
    }
    let mut steps = black_box(steps);
    let batch = |_| {
        let start = Instant::now();
        for number in 0..BATCH as u64 {
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
    batch.as_nanos() as f64 / (BATCH * HOPS) as f64
}
