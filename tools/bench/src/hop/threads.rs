//! Latency of an edge to a sleeping thread, and of a plain ring buffer.

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
    closure_graph::ClosureGraph,
    hop::{Number, block},
};

const IN: In<Number> = In::at(0, "in");
const OUT: Out<Number> = Out::at(0, "out");
const SOURCE_PORTS: &[Port] = &[OUT.port()];
const SINK_PORTS: &[Port] = &[IN.port()];

/// Packets before the measurement.
const WARMUP_PACKETS: usize = 20;

/// Time from the sender's call to the receiver's call in nanoseconds, including two clock reads.
pub(super) fn graph(packets: usize, gap: Duration) -> Result<Vec<f64>> {
    let total = packets + WARMUP_PACKETS;
    let start = Instant::now();
    let times = Arc::new(Mutex::new(Vec::with_capacity(total)));
    let mut graph = ClosureGraph::default();
    let mut sent = 0;
    let source = graph.node("source", "sender", SOURCE_PORTS, move |cx| {
        let mut number = cx.loan(OUT);
        number.0 = start.elapsed().as_nanos() as u64;
        cx.send_at(OUT, cx.now(), number);
        cx.resume_at(cx.now() + gap);
        sent += 1;
        if sent == total {
            cx.end();
        }
    });
    let sink_times = times.clone();
    let sink = graph.node("sink", "receiver", SINK_PORTS, move |cx| {
        let now = start.elapsed().as_nanos() as u64;
        if let Some(number) = cx.get(IN) {
            sink_times.lock().unwrap_or_else(PoisonError::into_inner).push((now - number.0) as f64);
        }
    });
    graph.edge((source, "out"), (sink, "in"), block());
    let report = graph.start(RunOptions::default())?.wait()?;
    ensure!(report.edges[0].counts.delivered == total as u64, "a packet was lost");
    let times = times.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(times[WARMUP_PACKETS..].to_vec())
}

/// The same through a lock-free ring buffer, with a futex wake if the receiver sleeps.
pub(super) fn ring(packets: usize, gap: Duration) -> Vec<f64> {
    let total = packets + WARMUP_PACKETS;
    let (mut sender, mut receiver) = HeapRb::<u64>::new(total).split();
    let start = Instant::now();
    let now = move || start.elapsed().as_nanos() as u64;
    let signaled = AtomicU32::new(0);
    let mut times = Vec::with_capacity(total);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..total {
                thread::sleep(gap);
                // The ring has capacity for all packets.
                let _ = sender.try_push(now());
                if signaled.swap(1, Ordering::AcqRel) == 0 {
                    atomic_wait::wake_one(&signaled);
                }
            }
        });
        while times.len() < total {
            atomic_wait::wait(&signaled, 0);
            // Reset before reading the ring, so that no wake-up is missed.
            signaled.swap(0, Ordering::AcqRel);
            while let Some(sent_ns) = receiver.try_pop() {
                times.push((now() - sent_ns) as f64);
            }
        }
    });
    times.split_off(WARMUP_PACKETS)
}
