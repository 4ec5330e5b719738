//! Slow sinks for a long time: memory, and what is dropped.

use std::{
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use afferent_engine::{ClockKind, EdgeCounts, Report, RunOptions, Session};
use afferent_graph::{In, OnFull, Out, Payload, Port, Timestamp};
use anyhow::{Context, Result};

use crate::{
    figures::{self, Figure},
    process,
    scripted::{Scripted, policy},
};

/// A sink that takes a fifth of what its source sends, for each policy of an edge.
///
/// All four run at once, on the real clock for the given time; then on the virtual clock, where no
/// edge drops, for as much of its time. A packet holds 4 KiB. The sink sees from the gaps in the
/// numbers what is missing, which has to be what the edge has counted, and in the place that the
/// policy says.
///
/// Fails when a figure is above its limit.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// How long.
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
}

const SEND_PERIOD: Duration = Duration::from_millis(1);
const TAKE_TIME: Duration = Duration::from_millis(5);
const QUEUE: usize = 8;
const BYTES: usize = 4096;

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

/// What a sink has received.
#[derive(Debug, Default, Clone, Copy)]
struct Received {
    count: u64,
    /// Numbers left out before the last one.
    missing: u64,
    /// How many came before the first gap.
    unbroken: u64,
    next: u64,
}

impl Received {
    fn take(&mut self, number: u64) {
        self.missing += number - self.next;
        if self.missing == 0 {
            self.unbroken += 1;
        }
        self.count += 1;
        self.next = number + 1;
    }
}

/// The figures as text, and whether they are as they should be.
pub(crate) fn run(options: &Options, json: bool) -> Result<(String, Result<()>)> {
    let time = Duration::from_secs_f64(options.minutes * 60.0);
    let mut figures = Vec::new();
    for clock in [ClockKind::Real, ClockKind::Virtual] {
        figures.extend(soak(time, clock)?);
    }
    let title = format!("slow sinks for {} min", options.minutes);
    Ok((figures::text(title, &figures, Vec::new(), json), figures::verdict(&figures)))
}

/// The names of the figures of a clock: growth, then for each policy faults and drops.
const fn names(clock: ClockKind) -> (&'static str, [[&'static str; 2]; 4]) {
    match clock {
        ClockKind::Real => (
            "soak_growth",
            [
                ["soak_block_faults", "soak_block_drops"],
                ["soak_drop_oldest_faults", "soak_drop_oldest_drops"],
                ["soak_drop_newest_faults", "soak_drop_newest_drops"],
                ["soak_latest_faults", "soak_latest_drops"],
            ],
        ),
        ClockKind::Virtual => (
            "soak_virtual_growth",
            [
                ["soak_virtual_block_faults", "soak_virtual_block_drops"],
                ["soak_virtual_drop_oldest_faults", "soak_virtual_drop_oldest_drops"],
                ["soak_virtual_drop_newest_faults", "soak_virtual_drop_newest_drops"],
                ["soak_virtual_latest_faults", "soak_virtual_latest_drops"],
            ],
        ),
    }
}

fn soak(time: Duration, clock: ClockKind) -> Result<Vec<Figure>> {
    let mut sessions = Vec::new();
    for on_full in POLICIES {
        sessions.push(session(on_full, time, clock)?);
    }
    let ends = Instant::now() + time;
    let mut growth = Growth::default();
    let mut reports = Vec::new();
    for (session, received) in sessions {
        let waits = thread::spawn(move || session.wait());
        while !waits.is_finished() {
            thread::sleep(Duration::from_millis(100));
            let left = ends.saturating_duration_since(Instant::now());
            // Memory counts once every queue has been full, on the virtual clock from the start on.
            if clock == ClockKind::Virtual || left < time * 9 / 10 {
                growth.look()?;
            }
        }
        let report = waits.join().ok().context("the wait for a graph panicked")??;
        reports.push((report, *received.lock().unwrap_or_else(PoisonError::into_inner)));
    }
    let (growth_name, names) = names(clock);
    let mut figures = vec![Figure::new(growth_name, growth.kib(), "KiB").at_most(1024.0)];
    for ((on_full, names), (report, received)) in POLICIES.iter().zip(names).zip(&reports) {
        let counts = report.edges[0].counts;
        // On the virtual clock nothing is dropped, whatever the policy.
        let policy = if clock == ClockKind::Real { *on_full } else { OnFull::Block };
        let faults = faults(policy, report, received).len();
        figures.push(Figure::new(names[0], faults as f64, "").at_most(0.0));
        let dropped = Figure::new(names[1], counts.dropped() as f64, "packets");
        figures.push(if policy == OnFull::Block { dropped.at_most(0.0) } else { dropped });
    }
    Ok(figures)
}

/// How far resident memory has grown.
#[derive(Debug, Default)]
struct Growth(Option<(u64, u64)>);

impl Growth {
    fn look(&mut self) -> Result<()> {
        let now = process::resident_bytes()?;
        let (first, largest) = self.0.unwrap_or((now, now));
        self.0 = Some((first, largest.max(now)));
        Ok(())
    }

    fn kib(&self) -> f64 {
        self.0.map_or(0.0, |(first, largest)| (largest - first) as f64 / 1024.0)
    }
}

/// What is not as the policy says, each as a sentence.
fn faults(on_full: OnFull, report: &Report, received: &Received) -> Vec<String> {
    let EdgeCounts { sent, delivered, dropped_full, depth, peak, .. } = report.edges[0].counts;
    let dropped = report.edges[0].counts.dropped();
    let unseen = sent - received.next;
    let queue = if on_full == OnFull::Latest { 1 } else { QUEUE };
    let lossless = on_full == OnFull::Block;
    let keeps_newest = matches!(on_full, OnFull::DropOldest | OnFull::Latest);
    let rules = [
        (sent == delivered + dropped + depth as u64, "sent is delivered, dropped and waiting"),
        (depth == 0, "nothing is left at the end"),
        (delivered == received.count, "what is delivered is received"),
        (dropped == dropped_full, "packets are dropped because the queue is full"),
        (dropped == received.missing + unseen, "what is missing is what was dropped"),
        (!lossless || dropped == 0, "nothing is dropped"),
        (lossless || dropped > 0, "a slow sink cannot take everything"),
        (!keeps_newest || unseen == 0, "the newest packet is never dropped"),
        (on_full != OnFull::DropNewest || received.unbroken >= queue as u64, "the oldest is not"),
        (peak <= queue, "no more wait than the queue holds"),
    ];
    rules.into_iter().filter(|(holds, _)| !holds).map(|(_, rule)| rule.to_owned()).collect()
}

type Running = (Session, Arc<Mutex<Received>>);

fn session(on_full: OnFull, time: Duration, clock: ClockKind) -> Result<Running> {
    const SOURCE: &[Port] = &[OUT.port()];
    const SINK: &[Port] = &[IN.port()];
    let end = Timestamp::ZERO + time;
    let mut graph = Scripted::default();
    let mut sent = 0;
    let source = graph.node("source", "source", SOURCE, move |cx| {
        let mut block = cx.loan(OUT);
        block.bytes.resize(BYTES, 0);
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
    let kept = received.clone();
    let sink = graph.node("sink", "sink", SINK, move |cx| {
        if let Some(block) = cx.get(IN) {
            kept.lock().unwrap_or_else(PoisonError::into_inner).take(block.number);
        }
        if clock == ClockKind::Real {
            thread::sleep(TAKE_TIME);
        }
    });
    graph.edge((source, "out"), (sink, "in"), policy(on_full, QUEUE));
    Ok((graph.start(RunOptions { clock, ..RunOptions::default() })?, received))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_does_what_it_says() {
        for on_full in POLICIES {
            for clock in [ClockKind::Real, ClockKind::Virtual] {
                let time = Duration::from_millis(150);
                let (session, received) = session(on_full, time, clock).unwrap();
                let report = session.wait().unwrap();
                let policy = if clock == ClockKind::Real { on_full } else { OnFull::Block };
                let received = received.lock().unwrap();
                assert_eq!(faults(policy, &report, &received), [""; 0], "{on_full:?} {clock:?}");
                assert!(!faults(policy, &report, &Received::default()).is_empty());
            }
        }
    }
}
