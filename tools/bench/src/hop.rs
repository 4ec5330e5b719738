//! What it costs to hand a packet from node to node, and what an idle graph costs.

mod fused;
mod idle;
mod peers;
mod pictures;
mod threads;

use std::{path::PathBuf, time::Duration};

use anyhow::Result;

use crate::{
    figures::{self, Figure, quantile},
    scripted,
    timing::median,
};

/// Time of a hop, within a thread and between threads; pictures; the start of a graph; idleness.
///
/// A fused hop is one of a chain on one thread: a source, ten nodes that change a number, a sink,
/// with all metrics, back to back; batches of packets are timed, so that there is no clock of ours
/// in it. A hop between threads is measured with 1 ms between packets, so that the receiver sleeps;
/// that of dora is between two processes, once, since it has no nodes in threads.
/// Pictures of 6.2 MB pass five nodes on three threads. What is compared takes turns, and figures
/// are medians over the rounds. On a machine with other work, start it with real-time priority
/// (`chrt -f 1`).
///
/// Fails when a figure is above its limit.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The program with the other frameworks: `cargo build --release` in `tools/bench/peers`.
    #[arg(long, value_name = "PROGRAM")]
    peers: Option<PathBuf>,
    /// A Python whose environment has `dora-rs` and `dora-rs-cli`.
    #[arg(long, value_name = "PYTHON")]
    dora: Option<PathBuf>,
    /// How often everything is measured.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Packets back to back in each round.
    #[arg(long, default_value_t = 500_000)]
    packets: usize,
    /// Seconds of each round with sleeping receivers.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Seconds of pictures, and of idleness.
    #[arg(long, default_value_t = 5.0)]
    idle_seconds: f64,
}

/// Packets in each batch that is timed.
const BATCH: usize = 1000;

/// Time between packets that finds the receiver asleep.
const GAP: Duration = Duration::from_millis(1);

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

    /// Two figures in the unit, with those of `peer` where there are any, and up to `share` of
    /// them allowed.
    fn figures(
        self,
        names: [&'static str; 2],
        (unit, ns): (&'static str, f64),
        peer: Option<(&'static str, Self)>,
        share: Option<f64>,
    ) -> [Figure; 2] {
        let values = [self.p50, self.p99].map(|rounds| median(rounds) / ns);
        let peers = peer.map(|(name, rounds)| {
            [rounds.p50, rounds.p99].map(|rounds| (name, median(rounds) / ns))
        });
        [0, 1].map(|place| {
            let figure = Figure::new(names[place], values[place], unit);
            match (peers, share) {
                (Some(peers), Some(share)) => {
                    figure.peer(peers[place].0, peers[place].1).at_most(peers[place].1 * share)
                }
                (Some(peers), None) => figure.peer(peers[place].0, peers[place].1),
                (None, _) => figure,
            }
        })
    }
}

const NS: (&str, f64) = ("ns", 1.0);
const MICROS: (&str, f64) = ("us", 1e3);

/// The figures as text, and whether they are as they should be.
pub(crate) fn run(options: &Options, json: bool) -> Result<(String, Result<()>)> {
    let mut figures = Vec::new();
    figures.extend(fused_hops(options)?);
    figures.extend(thread_hops(options)?);
    figures.extend(picture_figures(options)?);
    figures.extend(idle::figures(Duration::from_secs_f64(options.idle_seconds))?);
    let mut notes = Vec::new();
    if options.peers.is_none() {
        notes.push("copper, iceoryx2: skipped (pass --peers PROGRAM)".to_owned());
    }
    if options.dora.is_none() {
        notes.push("dora: skipped (pass --dora PYTHON)".to_owned());
    }
    let title =
        format!("hops: medians of {} rounds that take turns with the peers", options.rounds);
    Ok((figures::text(title, &figures, notes, json), figures::verdict(&figures)))
}

fn fused_hops(options: &Options) -> Result<Vec<Figure>> {
    let batches = (options.packets / BATCH).max(1);
    let (mut ours, mut calls, mut copper) =
        (Rounds::default(), Rounds::default(), Rounds::default());
    let mut allocations = 0;
    for _ in 0..options.rounds.max(1) {
        let (times, allocated) = fused::graph(batches)?;
        allocations += allocated;
        ours.add(times);
        calls.add(fused::boxed_calls(batches));
        if let Some(program) = &options.peers {
            copper.add(peers::copper(program, batches)?);
        }
    }
    let peer = options.peers.is_some().then_some(("copper", copper));
    let mut figures = Vec::new();
    figures.extend(ours.figures(["fused_hop", "fused_hop_p99"], NS, peer, Some(1.0)));
    figures.push(Figure::new("fused_allocations", allocations as f64, "").at_most(0.0));
    let [boxed_call, _] = calls.figures(["boxed_call", "boxed_call_p99"], NS, None, None);
    figures.push(boxed_call);
    Ok(figures)
}

fn thread_hops(options: &Options) -> Result<Vec<Figure>> {
    let packets = (options.seconds / GAP.as_secs_f64()).max(1.0) as usize;
    let (mut ours, mut ring) = (Rounds::default(), Rounds::default());
    for _ in 0..options.rounds.max(1) {
        ours.add(threads::graph(packets, GAP)?);
        ring.add(threads::ring(packets, GAP));
    }
    let peer = Some(("ringbuf and a futex", ring));
    let mut figures: Vec<_> =
        ours.figures(["thread_hop", "thread_hop_p99"], MICROS, peer, Some(1.1)).into();
    if let Some(python) = &options.dora {
        let mut dora = Rounds::default();
        dora.add(peers::dora(python, packets, size_of::<Number>(), GAP)?);
        figures.extend(dora.figures(["dora_hop", "dora_hop_p99"], MICROS, None, None));
    }
    Ok(figures)
}

fn picture_figures(options: &Options) -> Result<Vec<Figure>> {
    let seen = pictures::run(options.idle_seconds)?;
    let (mut ours, mut iceoryx) = (Rounds::default(), Rounds::default());
    let packets = seen.pictures;
    ours.add(seen.hops);
    if let Some(program) = &options.peers {
        iceoryx.add(peers::iceoryx(program, packets, pictures::BYTES, pictures::PERIOD)?);
    }
    let peer = options.peers.is_some().then_some(("iceoryx2", iceoryx));
    let mut figures = Vec::new();
    figures.extend(ours.figures(["picture_hop", "picture_hop_p99"], MICROS, peer, None));
    let each = seen.allocations as f64 / packets as f64;
    figures.push(Figure::new("picture_allocations", each, "per picture").at_most(0.0));
    figures.push(Figure::new("picture_copies", seen.copies as f64, "").at_most(0.0));
    figures.push(Figure::new("picture_drops", seen.dropped as f64, "").at_most(0.0));
    Ok(figures)
}

/// A number on its way.
#[derive(Debug, Clone, Default)]
struct Number(u64);

impl afferent_graph::Payload for Number {
    const TYPE: &'static str = "bench/Number";
}

/// Packets that wait at most, where nothing else is at stake.
fn block() -> afferent_spec::EdgePolicy {
    scripted::policy(afferent_graph::OnFull::Block, afferent_spec::EdgePolicy::QUEUE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_batch_and_every_packet_is_timed() {
        let (times, _) = fused::graph(3).unwrap();
        assert_eq!((times.len(), fused::boxed_calls(3).len()), (3, 3));
        assert!(times.iter().all(|time| *time > 0.0));
        let gap = Duration::from_micros(100);
        assert_eq!(threads::graph(20, gap).unwrap().len(), 20);
        assert_eq!(threads::ring(20, gap).len(), 20);
    }

    #[test]
    fn pictures_arrive_uncopied() {
        let seen = pictures::run(0.1).unwrap();
        assert_eq!((seen.copies, seen.dropped), (0, 0));
        assert_eq!(seen.hops.len(), seen.pictures * 2, "two edges lead to another thread");
    }
}
