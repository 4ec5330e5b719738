//! One packet at a time to another thread that sleeps: as a graph, and as a bare ring.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use afferent_engine::RunOptions;
use afferent_graph::{In, Out, Port};
use anyhow::{Result, ensure};
use ringbuf::{
    HeapRb,
    traits::{Consumer, Producer, Split},
};

use crate::{
    hop::{Number, block},
    scripted::Scripted,
};

const IN: In<Number> = In::at(0, "in");
const OUT: Out<Number> = Out::at(0, "out");
const SOURCE: &[Port] = &[OUT.port()];
const SINK: &[Port] = &[IN.port()];

/// Packets that are not measured.
const WARMUP: usize = 20;

/// Nanoseconds from the call of the sender to that of the receiver, each by their own clock read.
pub(super) fn graph(packets: usize, gap: Duration) -> Result<Vec<f64>> {
    let total = packets + WARMUP;
    let start = Instant::now();
    let times = Arc::new(Mutex::new(Vec::with_capacity(total)));
    let mut graph = Scripted::default();
    let mut sent = 0;
    let source = graph.node("source", "sender", SOURCE, move |cx| {
        let mut number = cx.loan(OUT);
        number.0 = start.elapsed().as_nanos() as u64;
        cx.send_at(OUT, cx.now(), number);
        cx.resume_at(cx.now() + gap);
        sent += 1;
        if sent == total {
            cx.end();
        }
    });
    let kept = times.clone();
    let sink = graph.node("sink", "receiver", SINK, move |cx| {
        let now = start.elapsed().as_nanos() as u64;
        if let Some(number) = cx.get(IN) {
            kept.lock().unwrap_or_else(PoisonError::into_inner).push((now - number.0) as f64);
        }
    });
    graph.edge((source, "out"), (sink, "in"), block());
    let report = graph.start(RunOptions::default())?.wait()?;
    ensure!(report.edges[0].counts.delivered == total as u64, "a packet was lost");
    let times = times.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(times[WARMUP..].to_vec())
}

/// The same through a lock-free ring, with a wake of the operating system if the receiver sleeps.
pub(super) fn ring(packets: usize, gap: Duration) -> Vec<f64> {
    let total = packets + WARMUP;
    let (mut sender, mut receiver) = HeapRb::<u64>::new(total).split();
    let start = Instant::now();
    let now = move || start.elapsed().as_nanos() as u64;
    let rung = AtomicU32::new(0);
    let mut times = Vec::with_capacity(total);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..total {
                thread::sleep(gap);
                // There is room for all of them.
                let _ = sender.try_push(now());
                if rung.swap(1, Ordering::AcqRel) == 0 {
                    atomic_wait::wake_one(&rung);
                }
            }
        });
        while times.len() < total {
            atomic_wait::wait(&rung, 0);
            // Before the ring is looked at, so that no wake is missed.
            rung.swap(0, Ordering::AcqRel);
            while let Some(left) = receiver.try_pop() {
                times.push((now() - left) as f64);
            }
        }
    });
    times.split_off(WARMUP)
}
