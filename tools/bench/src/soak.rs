//! Long runs with slow sinks: memory growth and dropped packets.

use std::{
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use afferent_engine::{ClockKind, EdgeCounts, Report, RunOptions, Session};
use afferent_graph::{In, OnFull, Out, Payload, Port, Timestamp};
use anyhow::{Context, Result};

use crate::{
    closure_graph::{ClosureGraph, policy},
    metrics::{self, Metric},
    process,
};

/// Runs a sink at a fifth of the rate of its source, for each queue policy.
///
/// All four policies run concurrently, first on the real clock and then for the same duration on the
/// virtual clock, where no edge drops packets. A packet has 4 KiB. The sink finds missing packets by
/// gaps in the packet numbers. Missing packets must equal the drops counted by the edge and be those
/// that the policy drops.
///
/// Fails if a metric exceeds its limit.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Duration in minutes.
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
}

const SEND_PERIOD: Duration = Duration::from_millis(1);
const PROCESSING_TIME: Duration = Duration::from_millis(5);
const QUEUE_DEPTH: usize = 8;
const PAYLOAD_BYTES: usize = 4096;

#[derive(Debug, Clone, Default)]
struct Block {
    bytes: Vec<u8>,
    number: u64,
}

impl Payload for Block {
    const TYPE: &'static str = "bench/Numbered";
}

const IN: In<Block> = In::at(0, "in");
const OUT: Out<Block> = Out::at(0, "out");

const POLICIES: [OnFull; 4] =
    [OnFull::Block, OnFull::DropOldest, OnFull::DropNewest, OnFull::Latest];

/// Packets received by a sink.
#[derive(Debug, Default, Clone, Copy)]
struct Received {
    count: u64,
    /// Missing packets before the last received one.
    missing: u64,
    /// Packets before the first gap.
    unbroken: u64,
    /// Number of the next packet.
    next: u64,
}

impl Received {
    fn add(&mut self, number: u64) {
        self.missing += number - self.next;
        if self.missing == 0 {
            self.unbroken += 1;
        }
        self.count += 1;
        self.next = number + 1;
    }
}

/// Returns the metrics as text, and an error if a metric exceeds its limit.
pub(crate) fn run(options: &Options, json: bool) -> Result<(String, Result<()>)> {
    let time = Duration::from_secs_f64(options.minutes * 60.0);
    let mut metrics = Vec::new();
    for clock in [ClockKind::Real, ClockKind::Virtual] {
        metrics.extend(soak(time, clock)?);
    }
    let title = format!("slow sinks for {} min", options.minutes);
    Ok((metrics::text(title, &metrics, Vec::new(), json), metrics::verdict(&metrics)))
}

/// Metric names for a clock: memory growth, then violations and drops of each policy.
const fn names(clock: ClockKind) -> (&'static str, [[&'static str; 2]; 4]) {
    match clock {
        ClockKind::Real => (
            "soak_growth",
            [
                ["soak_block_violations", "soak_block_drops"],
                ["soak_drop_oldest_violations", "soak_drop_oldest_drops"],
                ["soak_drop_newest_violations", "soak_drop_newest_drops"],
                ["soak_latest_violations", "soak_latest_drops"],
            ],
        ),
        ClockKind::Virtual => (
            "soak_virtual_growth",
            [
                ["soak_virtual_block_violations", "soak_virtual_block_drops"],
                ["soak_virtual_drop_oldest_violations", "soak_virtual_drop_oldest_drops"],
                ["soak_virtual_drop_newest_violations", "soak_virtual_drop_newest_drops"],
                ["soak_virtual_latest_violations", "soak_virtual_latest_drops"],
            ],
        ),
    }
}

fn soak(time: Duration, clock: ClockKind) -> Result<Vec<Metric>> {
    let mut sessions = Vec::new();
    for on_full in POLICIES {
        sessions.push(session(on_full, time, clock)?);
    }
    let end = Instant::now() + time;
    let mut growth = MemoryGrowth::default();
    let mut reports = Vec::new();
    for (session, received) in sessions {
        let waiter = thread::spawn(move || session.wait());
        while !waiter.is_finished() {
            thread::sleep(Duration::from_millis(100));
            let remaining = end.saturating_duration_since(Instant::now());
            // On the real clock, start when every queue has been full.
            if clock == ClockKind::Virtual || remaining < time * 9 / 10 {
                growth.sample()?;
            }
        }
        let report = waiter.join().ok().context("the thread that waits for a graph panicked")??;
        reports.push((report, *received.lock().unwrap_or_else(PoisonError::into_inner)));
    }
    let (growth_name, names) = names(clock);
    let mut metrics = vec![Metric::new(growth_name, growth.kib(), "KiB").at_most(1024.0)];
    for ((on_full, names), (report, received)) in POLICIES.iter().zip(names).zip(&reports) {
        let counts = report.edges[0].counts;
        // On the virtual clock no policy drops packets.
        let policy = if clock == ClockKind::Real { *on_full } else { OnFull::Block };
        let violations = violations(policy, report, received).len();
        metrics.push(Metric::new(names[0], violations as f64, "").at_most(0.0));
        let dropped = Metric::new(names[1], counts.dropped() as f64, "packets");
        metrics.push(if policy == OnFull::Block { dropped.at_most(0.0) } else { dropped });
    }
    Ok(metrics)
}

/// Growth of the resident memory: first and maximum sample in bytes.
#[derive(Debug, Default)]
struct MemoryGrowth(Option<(u64, u64)>);

impl MemoryGrowth {
    fn sample(&mut self) -> Result<()> {
        let now = process::resident_bytes()?;
        let (first, largest) = self.0.unwrap_or((now, now));
        self.0 = Some((first, largest.max(now)));
        Ok(())
    }

    fn kib(&self) -> f64 {
        self.0.map_or(0.0, |(first, largest)| (largest - first) as f64 / 1024.0)
    }
}

/// Violated rules of the queue policy.
fn violations(on_full: OnFull, report: &Report, received: &Received) -> Vec<String> {
    let EdgeCounts { sent, delivered, dropped_full, depth, peak, .. } = report.edges[0].counts;
    let dropped = report.edges[0].counts.dropped();
    let unseen = sent - received.next;
    let depth_limit = if on_full == OnFull::Latest { 1 } else { QUEUE_DEPTH };
    let lossless = on_full == OnFull::Block;
    let keeps_newest = matches!(on_full, OnFull::DropOldest | OnFull::Latest);
    let rules = [
        (sent == delivered + dropped + depth as u64, "sent = delivered + dropped + queued"),
        (depth == 0, "the queue is empty at the end"),
        (delivered == received.count, "delivered = received"),
        (dropped == dropped_full, "packets are dropped only because the queue is full"),
        (dropped == received.missing + unseen, "missing = dropped"),
        (!lossless || dropped == 0, "`block` drops no packet"),
        (lossless || dropped > 0, "a slow sink causes drops"),
        (!keeps_newest || unseen == 0, "the newest packet is never dropped"),
        (
            on_full != OnFull::DropNewest || received.unbroken >= depth_limit as u64,
            "the oldest packets are not dropped",
        ),
        (peak <= depth_limit, "the queue never exceeds its depth"),
    ];
    rules.into_iter().filter(|(holds, _)| !holds).map(|(_, rule)| rule.to_owned()).collect()
}

type Running = (Session, Arc<Mutex<Received>>);

fn session(on_full: OnFull, time: Duration, clock: ClockKind) -> Result<Running> {
    const SOURCE_PORTS: &[Port] = &[OUT.port()];
    const SINK_PORTS: &[Port] = &[IN.port()];
    let end = Timestamp::ZERO + time;
    let mut graph = ClosureGraph::default();
    let mut sent = 0;
    let source = graph.node("source", "source", SOURCE_PORTS, move |cx| {
        let mut block = cx.loan(OUT);
        block.bytes.resize(PAYLOAD_BYTES, 0);
        block.bytes.fill(sent as u8);
        block.number = u64::from(sent);
        cx.send_at(OUT, cx.now(), block);
        sent += 1;
        cx.resume_at(Timestamp::ZERO + SEND_PERIOD * sent);
        if cx.now() >= end {
            cx.end();
        }
    });
    let received = Arc::new(Mutex::new(Received::default()));
    let sink_received = received.clone();
    let sink = graph.node("sink", "sink", SINK_PORTS, move |cx| {
        if let Some(block) = cx.get(IN) {
            sink_received.lock().unwrap_or_else(PoisonError::into_inner).add(block.number);
        }
        if clock == ClockKind::Real {
            thread::sleep(PROCESSING_TIME);
        }
    });
    graph.edge((source, "out"), (sink, "in"), policy(on_full, QUEUE_DEPTH));
    Ok((graph.start(RunOptions { clock, ..RunOptions::default() })?, received))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_drop_the_right_packets() {
        for on_full in POLICIES {
            for clock in [ClockKind::Real, ClockKind::Virtual] {
                let time = Duration::from_millis(150);
                let (session, received) = session(on_full, time, clock).unwrap();
                let report = session.wait().unwrap();
                let policy = if clock == ClockKind::Real { on_full } else { OnFull::Block };
                let received = received.lock().unwrap();
                let violations = |received| violations(policy, &report, received);
                assert_eq!(violations(&received), [""; 0], "{on_full:?} {clock:?}");
                assert!(!violations(&Received::default()).is_empty());
            }
        }
    }
}
