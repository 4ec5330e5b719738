//! Latency of a connection between two processes.

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use afferent_core::ForeignBytes;
use afferent_graph::{Header, Timestamp};
use afferent_transport::{
    frame::{self, Head, PacketHead},
    link::{Inbox, Link, LinkError},
    local::{self, LocalLink},
    monotonic_ns,
};
use anyhow::{Context, Result, ensure};

use crate::{metrics::quantile, table::Table};

/// Latency of a packet from one process to another whose receiver sleeps.
///
/// The time from just before a packet is sent until the receiver has read its last byte, with a
/// pause after each packet. 1 kB travels in the message; an image of 6.2 MB in shared memory, once
/// with a copy of the sender and once written in place. The peer is iceoryx2 with an event, between
/// two processes. Rounds of both alternate, and results are medians of the rounds. On a machine with
/// other load, start the benchmark with real-time priority (`chrt -f 1`).
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Program with the other frameworks, built by `cargo build --release` in `tools/bench/peers`.
    #[arg(long, value_name = "PROGRAM")]
    peers: Option<PathBuf>,
    /// Number of rounds.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Packets per round.
    #[arg(long, default_value_t = 400)]
    packets: usize,
    /// Time between packets, in microseconds.
    #[arg(long, default_value_t = 3000)]
    gap_us: u64,
}

/// Receiver of the benchmark, in a process of its own: standard input is the link.
#[derive(Debug, clap::Args)]
pub(crate) struct ReceiverOptions {
    packets: usize,
}

/// Bytes of a color image of 1920 × 1080.
const IMAGE: usize = 1920 * 1080 * 3;

/// Size of the packets, and whether the sender copies them.
const CASES: [(&str, usize, bool); 3] =
    [("1 kB", 1000, true), ("6.2 MB, copied", IMAGE, true), ("6.2 MB, in place", IMAGE, false)];

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    let mut table = Table::new(
        "Process hop, sleeping receiver",
        &["packet", "p50 µs", "p99 µs", "iceoryx2 p50 µs", "iceoryx2 p99 µs", "ratio p50"],
    );
    for (name, bytes, copies) in CASES {
        let (mut own, mut peer) = (Vec::new(), Vec::new());
        for _ in 0..options.rounds {
            own.push(quantiles(hops(options, bytes, copies)?));
            if let Some(program) = &options.peers {
                peer.push(quantiles(iceoryx(program, options, bytes, copies)?));
            }
        }
        let median = |rounds: &[(f64, f64)], at: fn(&(f64, f64)) -> f64| {
            let values: Vec<f64> = rounds.iter().map(at).collect();
            (!values.is_empty()).then(|| crate::timing::median(values))
        };
        let text =
            |value: Option<f64>| value.map_or("skipped".to_owned(), |value| format!("{value:.1}"));
        let [own_p50, own_p99] = [median(&own, |round| round.0), median(&own, |round| round.1)];
        let [peer_p50, peer_p99] = [median(&peer, |round| round.0), median(&peer, |round| round.1)];
        let ratio = own_p50.zip(peer_p50).map(|(own, peer)| own / peer);
        let ratio = ratio.map_or("skipped".to_owned(), |ratio| format!("{ratio:.2}"));
        table.row([
            name.to_owned(),
            text(own_p50),
            text(own_p99),
            text(peer_p50),
            text(peer_p99),
            ratio,
        ]);
    }
    Ok(vec![table])
}

/// Median and 99th percentile in microseconds.
fn quantiles(mut times_ns: Vec<f64>) -> (f64, f64) {
    (quantile(&mut times_ns, 0.5) / 1e3, quantile(&mut times_ns, 0.99) / 1e3)
}

/// Latency of each packet, in nanoseconds.
fn hops(options: &Options, bytes: usize, copies: bool) -> Result<Vec<f64>> {
    let (ours, theirs) = local::pair()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("process-hop-receiver").arg(options.packets.to_string());
    let mut child = command.stdin(Stdio::from(theirs)).stdout(Stdio::piped()).spawn()?;
    drop(command);
    let mut output = BufReader::new(child.stdout.take().context("the receiver has no output")?);
    let mut line = String::new();
    output.read_line(&mut line)?;
    ensure!(line == "ready\n", "the receiver did not start");
    let link = LocalLink::start(ours, "receiver", Arc::new(Ignore))?;
    let source = vec![7; bytes];
    let mut message = Vec::new();
    for post in 1..=options.packets as u64 {
        thread::sleep(Duration::from_micros(options.gap_us));
        loop {
            let header = Header { at: Timestamp(monotonic_ns()), ..Header::default() };
            frame::begin_packet(
                &mut message,
                &PacketHead { post, header, ..PacketHead::default() },
            );
            let sent = match copies {
                true => {
                    link.send_in_place(&mut message, bytes, |slot| slot.copy_from_slice(&source))
                }
                false => link.send_in_place(&mut message, bytes, |slot| slot[bytes - 1] = 7),
            };
            match sent {
                Err(LinkError::Full) => thread::sleep(Duration::from_micros(100)),
                sent => break sent?,
            }
        }
    }
    line.clear();
    output.read_line(&mut line)?;
    ensure!(child.wait()?.success(), "the receiver failed");
    Ok(serde_json::from_str(&line)?)
}

/// Latency of each packet in iceoryx2, in nanoseconds.
fn iceoryx(program: &Path, options: &Options, bytes: usize, copies: bool) -> Result<Vec<f64>> {
    let args = [options.packets.to_string(), bytes.to_string(), options.gap_us.to_string()];
    let fill = if copies { "copied" } else { "in-place" };
    let output = Command::new(program).arg("iceoryx2-process").args(args).arg(fill).output();
    let output = output.with_context(|| format!("cannot start {}", program.display()))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {stderr}", program.display());
    serde_json::from_slice(&output.stdout).context("the peer printed no list")
}

/// Inbox of the sender.
struct Ignore;

impl Inbox for Ignore {
    fn receive(&self, _: &[u8], _: ForeignBytes) -> Result<(), String> {
        Ok(())
    }

    fn has_memory(&self) {}

    fn gone(&self, _: &str) {}
}

/// Inbox of the receiver: measures on arrival.
struct Measure(mpsc::Sender<u64>);

impl Inbox for Measure {
    fn receive(&self, message: &[u8], bulk: ForeignBytes) -> Result<(), String> {
        let head = Head::read(message).map_err(|error| error.to_string())?;
        std::hint::black_box(bulk.as_slice().last());
        if let Head::Packet(head) = head {
            let took = monotonic_ns() - head.header.at.0;
            let _ = self.0.send(u64::try_from(took).unwrap_or(0));
        }
        Ok(())
    }

    fn has_memory(&self) {}

    fn gone(&self, _: &str) {}
}

/// Receives packets and prints the latency of each.
pub(crate) fn receive(options: &ReceiverOptions) -> Result<()> {
    let socket = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 3)?;
    let (measured, times) = mpsc::channel();
    println!("ready");
    std::io::stdout().flush()?;
    let link = LocalLink::start(socket, "sender", Arc::new(Measure(measured)))?;
    let times: Vec<u64> = times.iter().take(options.packets).collect();
    println!("{}", serde_json::to_string(&times)?);
    link.close();
    Ok(())
}
