//! Pictures through five nodes on three threads.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use afferent_engine::RunOptions;
use afferent_graph::{In, OnFull, Out, Payload, Port, Timestamp};
use anyhow::Result;

use crate::{
    allocations,
    scripted::{Scripted, policy},
};

/// A picture of 1920 by 1080 points in three colours.
pub(super) const BYTES: usize = 1920 * 1080 * 3;

/// Sixty in a second.
pub(super) const PERIOD: Duration = Duration::from_nanos(16_666_667);

/// Pictures that wait on an edge at most.
const QUEUE: usize = 2;

/// Pictures before those that are measured: more than fit into the graph while its sink sleeps, so
/// that the pool has all its memory.
const WARMUP: usize = 32;

/// How long the sink keeps the first picture, and half of what the source then waits.
const SETTLE: Duration = Duration::from_millis(300);

#[derive(Debug, Clone, Default)]
struct Picture {
    pixels: Vec<u8>,
    /// Where the pixels were when it left the source.
    address: usize,
    /// When it left the node before, in nanoseconds since the start.
    left: u64,
}

impl Payload for Picture {
    const TYPE: &'static str = "bench/Picture";
}

const IN: In<Picture> = In::at(0, "in");
const OUT: Out<Picture> = Out::at(0, "out");
const SOURCE: &[Port] = &[OUT.port()];
const PASS: &[Port] = &[IN.port(), OUT.port()];
const SINK: &[Port] = &[IN.port()];

/// What became of the pictures.
pub(super) struct Seen {
    pub(super) pictures: usize,
    /// Nanoseconds from thread to thread.
    pub(super) hops: Vec<f64>,
    pub(super) copies: u64,
    pub(super) dropped: u64,
    pub(super) allocations: u64,
}

/// Sends pictures for so many seconds.
pub(super) fn run(seconds: f64) -> Result<Seen> {
    let pictures = (seconds / PERIOD.as_secs_f64()).max(1.0) as usize;
    let last = WARMUP + pictures;
    let start = Instant::now();
    let now = move || start.elapsed().as_nanos() as u64;
    let hops = Arc::new(Mutex::new(Vec::with_capacity(2 * (last + 1))));
    let (copies, began, ended) =
        (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));

    let mut graph = Scripted::default();
    let (mut sent, mut first) = (0, Timestamp::ZERO);
    let mark = began.clone();
    let source = graph.node("source", "camera", SOURCE, move |cx| {
        if sent == WARMUP && cx.now() < first {
            return cx.resume_at(first);
        }
        if sent == WARMUP {
            mark.store(allocations::count(), Ordering::SeqCst);
        }
        let mut picture = cx.loan(OUT);
        picture.pixels.resize(BYTES, 0);
        picture.pixels[..1920 * 3].fill(sent as u8);
        (picture.address, picture.left) = (picture.pixels.as_ptr().addr(), now());
        cx.send_at(OUT, cx.now(), picture);
        sent += 1;
        match sent {
            WARMUP => first = cx.now() + 2 * SETTLE,
            _ if sent == last => cx.end(),
            _ if sent > WARMUP => {
                cx.resume_at(first + PERIOD * u32::try_from(sent - WARMUP).unwrap_or(u32::MAX));
            }
            _ => {}
        }
    });
    let mut before = source;
    for (name, thread, crosses) in
        [("first", "middle", true), ("second", "middle", false), ("third", "end", true)]
    {
        let (hops, copies) = (hops.clone(), copies.clone());
        let pass = graph.node(name, thread, PASS, move |cx| {
            let arrived = now();
            let Some(mut picture) = cx.take(IN) else { return };
            if crosses {
                let hop = (arrived - picture.left) as f64;
                hops.lock().unwrap_or_else(PoisonError::into_inner).push(hop);
            }
            let is_copy = picture.address != picture.pixels.as_ptr().addr();
            copies.fetch_add(u64::from(is_copy), Ordering::Relaxed);
            picture.pixels[0] += 1;
            picture.left = now();
            cx.send(OUT, picture);
        });
        graph.edge((before, "out"), (pass, "in"), policy(OnFull::Block, QUEUE));
        before = pass;
    }
    let (seen, mark, mut received) = (copies.clone(), ended.clone(), 0);
    let sink = graph.node("sink", "end", SINK, move |cx| {
        if let Some(picture) = cx.get(IN) {
            let is_copy = picture.address != picture.pixels.as_ptr().addr();
            seen.fetch_add(u64::from(is_copy), Ordering::Relaxed);
        }
        if received == 0 {
            thread::sleep(SETTLE);
        }
        received += 1;
        // After the last one a thread ends, which is not the steady state.
        if received + 1 == last {
            mark.store(allocations::count(), Ordering::SeqCst);
        }
    });
    graph.edge((before, "out"), (sink, "in"), policy(OnFull::Block, QUEUE));

    let report = graph.start(RunOptions::default())?.wait()?;
    let hops = hops.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(Seen {
        pictures,
        hops: hops[2 * WARMUP..].to_vec(),
        copies: copies.load(Ordering::SeqCst),
        dropped: report.edges.iter().map(|edge| edge.counts.dropped()).sum(),
        allocations: ended.load(Ordering::SeqCst) - began.load(Ordering::SeqCst),
    })
}
