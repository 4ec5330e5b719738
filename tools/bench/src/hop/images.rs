//! Images through five nodes on three threads.

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
    camera::{IMAGE_BYTES, IMAGE_PERIOD},
    closure_graph::{ClosureGraph, policy},
};

/// Queue depth of the edges, in images.
const QUEUE_DEPTH: usize = 2;

/// Images before the measurement. More than fit into the graph while the sink sleeps, so that the
/// pool allocates all its memory.
const WARMUP_IMAGES: usize = 32;

/// Time that the sink sleeps on the first image. The source then waits twice as long.
const SETTLE_TIME: Duration = Duration::from_millis(300);

#[derive(Debug, Clone, Default)]
struct Image {
    pixels: Vec<u8>,
    /// Address of the pixels in the source.
    address: usize,
    /// Time of sending by the upstream node, in nanoseconds since the start.
    sent_ns: u64,
}

impl Payload for Image {
    const TYPE: &'static str = "bench/Image";
}

const IN: In<Image> = In::at(0, "in");
const OUT: Out<Image> = Out::at(0, "out");
const SOURCE_PORTS: &[Port] = &[OUT.port()];
const PASS_PORTS: &[Port] = &[IN.port(), OUT.port()];
const SINK_PORTS: &[Port] = &[IN.port()];

/// Results of the image benchmark.
pub(super) struct ImageStats {
    pub(super) images: usize,
    /// Latency between threads, in nanoseconds.
    pub(super) hops: Vec<f64>,
    pub(super) copies: u64,
    pub(super) dropped: u64,
    pub(super) allocations: u64,
}

/// Sends images for `seconds`.
pub(super) fn run(seconds: f64) -> Result<ImageStats> {
    let images = (seconds / IMAGE_PERIOD.as_secs_f64()).max(1.0) as usize;
    let last = WARMUP_IMAGES + images;
    let start = Instant::now();
    let now = move || start.elapsed().as_nanos() as u64;
    let hops = Arc::new(Mutex::new(Vec::with_capacity(2 * (last + 1))));
    let (copies, began, ended) =
        (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));

    let mut graph = ClosureGraph::default();
    let (mut sent, mut first) = (0, Timestamp::ZERO);
    let mark = began.clone();
    let source = graph.node("source", "camera", SOURCE_PORTS, move |cx| {
        if sent == WARMUP_IMAGES && cx.now() < first {
            return cx.resume_at(first);
        }
        if sent == WARMUP_IMAGES {
            mark.store(allocations::count(), Ordering::SeqCst);
        }
        let mut image = cx.loan(OUT);
        image.pixels.resize(IMAGE_BYTES, 0);
        image.pixels[..1920 * 3].fill(sent as u8);
        (image.address, image.sent_ns) = (image.pixels.as_ptr().addr(), now());
        cx.send_at(OUT, cx.now(), image);
        sent += 1;
        match sent {
            WARMUP_IMAGES => first = cx.now() + 2 * SETTLE_TIME,
            _ if sent == last => cx.end(),
            _ if sent > WARMUP_IMAGES => {
                let number = u32::try_from(sent - WARMUP_IMAGES).unwrap_or(u32::MAX);
                cx.resume_at(first + IMAGE_PERIOD * number);
            }
            _ => {}
        }
    });
    let mut upstream = source;
    for (name, thread, crosses_threads) in
        [("first", "middle", true), ("second", "middle", false), ("third", "end", true)]
    {
        let (hops, copies) = (hops.clone(), copies.clone());
        let pass = graph.node(name, thread, PASS_PORTS, move |cx| {
            let arrived_ns = now();
            let Some(mut image) = cx.take(IN) else { return };
            if crosses_threads {
                let hop = (arrived_ns - image.sent_ns) as f64;
                hops.lock().unwrap_or_else(PoisonError::into_inner).push(hop);
            }
            let is_copy = image.address != image.pixels.as_ptr().addr();
            copies.fetch_add(u64::from(is_copy), Ordering::Relaxed);
            image.pixels[0] += 1;
            image.sent_ns = now();
            cx.send(OUT, image);
        });
        graph.edge((upstream, "out"), (pass, "in"), policy(OnFull::Block, QUEUE_DEPTH));
        upstream = pass;
    }
    let (sink_copies, mark, mut received) = (copies.clone(), ended.clone(), 0);
    let sink = graph.node("sink", "end", SINK_PORTS, move |cx| {
        if let Some(image) = cx.get(IN) {
            let is_copy = image.address != image.pixels.as_ptr().addr();
            sink_copies.fetch_add(u64::from(is_copy), Ordering::Relaxed);
        }
        if received == 0 {
            thread::sleep(SETTLE_TIME);
        }
        received += 1;
        // A thread ends after the last image, which is not steady state.
        if received + 1 == last {
            mark.store(allocations::count(), Ordering::SeqCst);
        }
    });
    graph.edge((upstream, "out"), (sink, "in"), policy(OnFull::Block, QUEUE_DEPTH));

    let report = graph.start(RunOptions::default())?.wait()?;
    let hops = hops.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(ImageStats {
        images,
        hops: hops[2 * WARMUP_IMAGES..].to_vec(),
        copies: copies.load(Ordering::SeqCst),
        dropped: report.edges.iter().map(|edge| edge.counts.dropped()).sum(),
        allocations: ended.load(Ordering::SeqCst) - began.load(Ordering::SeqCst),
    })
}
