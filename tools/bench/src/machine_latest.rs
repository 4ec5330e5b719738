//! Newest packets for a slow receiver on another machine, and the clock between the two.

use std::{
    net::TcpListener,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use afferent_engine::{Report, RunOptions};
use afferent_graph::{In, OnFull, Out, Timestamp};
use afferent_messages::{Image, PixelFormat};
use afferent_spec::{Machine, Partition};
use afferent_transport::{
    Transport,
    net::{Net, NetOptions},
};
use anyhow::{Context, Result, anyhow, ensure};

use crate::{
    closure_graph::{ClosureGraph, policy},
    metrics::quantile,
    table::Table,
};

/// Age of the newest packets at a slow receiver on another machine.
///
/// A source sends an image of 100 kB every 10 ms, and the receiver works 50 ms on each; the edge has
/// `on_full: latest`. Both machines are programs on this one, connected over TCP on the loopback
/// interface. Then the clock of the other machine is read while every processor is busy: as both
/// share a clock, the offset that is found is the error.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Number of images.
    #[arg(long, default_value_t = 1000)]
    images: usize,
    /// Duration of the readings of the clock, in seconds.
    #[arg(long, default_value_t = 10)]
    clock: u64,
}

/// One of the two machines, in a program of its own.
#[derive(Debug, clap::Args)]
pub(crate) struct ReceiverOptions {
    port: u16,
}

const IMAGES_OUT: Out<Image> = Out::at(0, "images");
const IMAGES_IN: In<Image> = In::at(0, "images");
const PERIOD: Duration = Duration::from_millis(10);
const WORK: Duration = Duration::from_millis(50);

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["machine-latest-receiver", &port.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let child = command.spawn()?;
    let own = start(port, 0, options.images)?;
    let sent = own.report.edges.first().context("no edge")?.counts.sent;
    let (offsets, bounds) = clock_errors(&own, options.clock)?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "the receiver failed");
    let report: Report = serde_json::from_slice(&output.stdout)?;
    let edge = report.edges.first().context("no edge")?;
    let columns = ["sent", "on the wire", "share", "age p50 ms", "p99 ms", "max ms"];
    let mut latest = Table::new("Newest images for a slow receiver", &columns);
    let ms = |ns: u64| format!("{:.1}", ns as f64 / 1e6);
    latest.row([
        sent.to_string(),
        edge.counts.sent.to_string(),
        format!("{:.0} %", edge.counts.sent as f64 * 100.0 / sent as f64),
        ms(edge.age.p50_ns),
        ms(edge.age.p99_ns),
        ms(edge.age.max_ns),
    ]);
    let mut clock = Table::new(
        "Clock of another machine, all processors busy",
        &["readings", "error p50 us", "max us", "bound p50 us", "within the bound"],
    );
    let within = offsets.iter().zip(&bounds).filter(|(offset, bound)| offset <= bound).count();
    let max = offsets.iter().copied().fold(0.0, f64::max);
    let readings = offsets.len();
    let [error, bound] = [offsets, bounds].map(|mut values| quantile(&mut values, 0.5));
    clock.row([
        readings.to_string(),
        format!("{error:.1}"),
        format!("{max:.1}"),
        format!("{bound:.1}"),
        format!("{within} of {readings}"),
    ]);
    Ok(vec![latest, clock])
}

/// One end of the graph, after its run.
struct End {
    report: Report,
    transport: Arc<Transport>,
    _net: Net,
}

/// Runs machine `here` of the graph to its end.
fn start(port: u16, here: usize, images: usize) -> Result<End> {
    let mut graph = ClosureGraph::default();
    let mut sent = 0;
    let source = graph.node("source", "source", const { &[IMAGES_OUT.port()] }, move |cx| {
        let mut image = Image::default();
        if image.reshape(PixelFormat::Rgb8, 200, 167).is_ok() {
            cx.send_at(IMAGES_OUT, cx.now(), image);
        }
        sent += 1;
        cx.resume_at(Timestamp::ZERO + PERIOD * sent);
        if sent as usize == images {
            cx.end();
        }
    });
    let work = |_: &mut afferent_graph::Cx<'_>| thread::sleep(WORK);
    let sink = graph.node("sink", "sink", const { &[IMAGES_IN.port()] }, work);
    graph.edge((source, "images"), (sink, "images"), policy(OnFull::Latest, 1));
    let mut graph = graph.0;
    graph.name = "latest".to_owned();
    let listen = Some(format!("tcp/127.0.0.1:{port}"));
    let machine = |name: &str| Machine { name: name.to_owned(), ..Machine::default() };
    graph.machines = vec![Machine { listen, ..machine("one") }, machine("two")];
    graph.partitions = [0, 1].map(|machine| Partition { machine, process: None }).to_vec();
    graph.nodes[sink].partition = 1;
    let transport = Transport::new(&graph, here, 0)?;
    let net = transport.connect_machines(&NetOptions::default())?;
    transport.agree(0).map_err(|reason| anyhow!(reason))?;
    let border = Some(transport.clone() as Arc<_>);
    let options = RunOptions { border, ..RunOptions::default() };
    let session = ClosureGraph(graph).start(options)?;
    let report = session.wait()?;
    Ok(End { report, transport, _net: net })
}

/// Errors of the offset of the other clock and their bounds in microseconds, over some time.
fn clock_errors(end: &End, seconds: u64) -> Result<(Vec<f64>, Vec<f64>)> {
    let busy = AtomicBool::new(true);
    let processors = thread::available_parallelism()?.get();
    let (mut errors, mut bounds) = (Vec::new(), Vec::new());
    thread::scope(|scope| {
        for _ in 0..processors {
            scope.spawn(|| {
                while busy.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let until = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < until {
            thread::sleep(Duration::from_millis(100));
            if let Some(clock) = end.transport.clock_of(1) {
                errors.push(clock.offset_ns.unsigned_abs() as f64 / 1e3);
                bounds.push(clock.bound_ns as f64 / 1e3);
            }
        }
        busy.store(false, Ordering::Relaxed);
    });
    ensure!(!errors.is_empty(), "the clock of the other machine is unknown");
    Ok((errors, bounds))
}

/// Runs the receiving machine, and prints its report.
pub(crate) fn receive(options: &ReceiverOptions) -> Result<()> {
    let end = start(options.port, 1, 0)?;
    println!("{}", serde_json::to_string(&end.report)?);
    // The other machine reads the clock of this one until then.
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}
