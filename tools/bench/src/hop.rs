//! Latency of an edge, within a thread and between threads, and the cost of an idle graph.

mod fused;
mod idle;
mod images;
mod peers;
mod threads;

use std::{path::PathBuf, time::Duration};

use anyhow::Result;

use crate::{
    camera, closure_graph,
    metrics::{self, Metric, quantile},
    timing::median,
};

/// Latency of edges, image transport, and the startup and idle cost of a graph.
///
/// A hop is the delivery of a packet over one edge. `fused_hop` is the time of a delivery in a fused
/// chain: a source, ten nodes that increment a number, and a sink on one thread, with all metrics,
/// back to back. Times are taken per batch of packets, so the benchmark adds no clock reads per
/// delivery. `thread_hop` is the time of a delivery to another thread with 1 ms between packets, so
/// that the receiver sleeps. dora is measured once, between two processes, because it runs every
/// node in its own process. Images of 6.2 MB pass five nodes on three threads. Both sides of a
/// comparison alternate, and results are medians of the rounds. On a machine with other load, start
/// the benchmark with real-time priority (`chrt -f 1`).
///
/// Fails if a metric exceeds its limit.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Program with the other frameworks, built by `cargo build --release` in `tools/bench/peers`.
    #[arg(long, value_name = "PROGRAM")]
    peers: Option<PathBuf>,
    /// Python with `dora-rs` and `dora-rs-cli` in its environment.
    #[arg(long, value_name = "PYTHON")]
    dora: Option<PathBuf>,
    /// Number of rounds.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Number of back-to-back packets per round.
    #[arg(long, default_value_t = 500_000)]
    packets: usize,
    /// Duration of a round with sleeping receivers, in seconds.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Duration of the image benchmark and of the idle benchmark, in seconds.
    #[arg(long, default_value_t = 5.0)]
    idle_seconds: f64,
}

/// Packets per timed batch.
const BATCH_PACKETS: usize = 1000;

/// Time between packets, long enough for the receiver to sleep.
const PACKET_GAP: Duration = Duration::from_millis(1);

/// Median and 99th percentile of each round.
#[derive(Debug, Default)]
struct Rounds {
    p50: Vec<f64>,
    p99: Vec<f64>,
}

impl Rounds {
    fn add(&mut self, mut times: Vec<f64>) {
        self.p50.push(quantile(&mut times, 0.5));
        self.p99.push(quantile(&mut times, 0.99));
    }

    /// Metrics for p50 and p99 in `unit`, with the values of `peer`. The limit is `max_ratio` times
    /// the value of the peer.
    fn metrics(
        self,
        names: [&'static str; 2],
        (unit, ns): (&'static str, f64),
        peer: Option<(&'static str, Self)>,
        max_ratio: Option<f64>,
    ) -> [Metric; 2] {
        let values = [self.p50, self.p99].map(|rounds| median(rounds) / ns);
        let peers = peer.map(|(name, rounds)| {
            [rounds.p50, rounds.p99].map(|rounds| (name, median(rounds) / ns))
        });
        [0, 1].map(|index| {
            let metric = Metric::new(names[index], values[index], unit);
            match (peers, max_ratio) {
                (Some(peers), Some(ratio)) => {
                    metric.peer(peers[index].0, peers[index].1).at_most(peers[index].1 * ratio)
                }
                (Some(peers), None) => metric.peer(peers[index].0, peers[index].1),
                (None, _) => metric,
            }
        })
    }
}

const NS: (&str, f64) = ("ns", 1.0);
const MICROS: (&str, f64) = ("us", 1e3);

/// Returns the metrics as text, and an error if a metric exceeds its limit.
pub(crate) fn run(options: &Options, json: bool) -> Result<(String, Result<()>)> {
    let mut metrics = Vec::new();
    metrics.extend(fused_hops(options)?);
    metrics.extend(thread_hops(options)?);
    metrics.extend(image_metrics(options)?);
    metrics.extend(idle::metrics(Duration::from_secs_f64(options.idle_seconds))?);
    let mut notes = Vec::new();
    if options.peers.is_none() {
        notes.push("copper, iceoryx2: skipped (pass --peers PROGRAM)".to_owned());
    }
    if options.dora.is_none() {
        notes.push("dora: skipped (pass --dora PYTHON)".to_owned());
    }
    let title = format!("hops: medians of {} rounds, alternating with the peers", options.rounds);
    Ok((metrics::text(title, &metrics, notes, json), metrics::verdict(&metrics)))
}

fn fused_hops(options: &Options) -> Result<Vec<Metric>> {
    let batches = (options.packets / BATCH_PACKETS).max(1);
    let (mut own, mut calls, mut copper) =
        (Rounds::default(), Rounds::default(), Rounds::default());
    let mut allocations = 0;
    for _ in 0..options.rounds.max(1) {
        let (times, allocated) = fused::graph(batches)?;
        allocations += allocated;
        own.add(times);
        calls.add(fused::boxed_calls(batches));
        if let Some(program) = &options.peers {
            copper.add(peers::copper(program, batches)?);
        }
    }
    let peer = options.peers.is_some().then_some(("copper", copper));
    let mut metrics = Vec::new();
    metrics.extend(own.metrics(["fused_hop", "fused_hop_p99"], NS, peer, Some(1.0)));
    metrics.push(Metric::new("fused_allocations", allocations as f64, "").at_most(0.0));
    let [boxed_call, _] = calls.metrics(["boxed_call", "boxed_call_p99"], NS, None, None);
    metrics.push(boxed_call);
    Ok(metrics)
}

fn thread_hops(options: &Options) -> Result<Vec<Metric>> {
    let packets = (options.seconds / PACKET_GAP.as_secs_f64()).max(1.0) as usize;
    let (mut own, mut ring) = (Rounds::default(), Rounds::default());
    for _ in 0..options.rounds.max(1) {
        own.add(threads::graph(packets, PACKET_GAP)?);
        ring.add(threads::ring(packets, PACKET_GAP));
    }
    let peer = Some(("ringbuf and a futex", ring));
    let mut metrics: Vec<_> =
        own.metrics(["thread_hop", "thread_hop_p99"], MICROS, peer, Some(1.1)).into();
    if let Some(python) = &options.dora {
        let mut dora = Rounds::default();
        dora.add(peers::dora(python, packets, size_of::<Number>(), PACKET_GAP)?);
        metrics.extend(dora.metrics(["dora_hop", "dora_hop_p99"], MICROS, None, None));
    }
    Ok(metrics)
}

fn image_metrics(options: &Options) -> Result<Vec<Metric>> {
    let result = images::run(options.idle_seconds)?;
    let (mut own, mut iceoryx) = (Rounds::default(), Rounds::default());
    let packets = result.images;
    own.add(result.hops);
    if let Some(program) = &options.peers {
        iceoryx.add(peers::iceoryx(program, packets, camera::IMAGE_BYTES, camera::IMAGE_PERIOD)?);
    }
    let peer = options.peers.is_some().then_some(("iceoryx2", iceoryx));
    let mut metrics = Vec::new();
    metrics.extend(own.metrics(["image_hop", "image_hop_p99"], MICROS, peer, None));
    let allocations = result.allocations as f64 / packets as f64;
    metrics.push(Metric::new("image_allocations", allocations, "per image").at_most(0.0));
    metrics.push(Metric::new("image_copies", result.copies as f64, "").at_most(0.0));
    metrics.push(Metric::new("image_drops", result.dropped as f64, "").at_most(0.0));
    Ok(metrics)
}

/// Payload of the hop benchmarks.
#[derive(Debug, Clone, Default)]
struct Number(u64);

impl afferent_graph::Payload for Number {
    const TYPE: &'static str = "bench/Number";
}

/// Edge policy `block` with the default queue depth.
fn block() -> afferent_spec::EdgePolicy {
    closure_graph::policy(afferent_graph::OnFull::Block, afferent_spec::EdgePolicy::QUEUE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_batches_and_packets_are_timed() {
        let (times, _) = fused::graph(3).unwrap();
        assert_eq!((times.len(), fused::boxed_calls(3).len()), (3, 3));
        assert!(times.iter().all(|time| *time > 0.0));
        let gap = Duration::from_micros(100);
        assert_eq!(threads::graph(20, gap).unwrap().len(), 20);
        assert_eq!(threads::ring(20, gap).len(), 20);
    }

    #[test]
    fn images_are_not_copied() {
        let result = images::run(0.1).unwrap();
        assert_eq!((result.copies, result.dropped), (0, 0));
        assert_eq!(result.hops.len(), result.images * 2, "two edges cross threads");
    }
}
