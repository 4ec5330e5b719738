//! Latency of a connection between two machines.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    process::{Command, Stdio},
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use afferent_core::ForeignBytes;
use afferent_graph::{Header, In, OnFull, Out, Timestamp};
use afferent_messages::Image;
use afferent_spec::{CheckedGraph, Machine, Partition};
use afferent_transport::{
    frame::{self, Head, PacketHead},
    link::{BulkBytes, Inbox, Link},
    monotonic_ns,
    net::{Net, NetOptions},
    remote::RemoteLink,
};
use anyhow::{Context, Result, anyhow, ensure};
use zenoh::{
    Wait,
    bytes::ZBytes,
    qos::{CongestionControl, Priority, Reliability},
    sample::Sample,
};

use crate::{
    closure_graph::{ClosureGraph, policy},
    metrics::quantile,
    table::Table,
};

/// Latency of a packet from one machine to another.
///
/// Both are programs on this machine, connected over TCP on the loopback interface. The time from
/// just before a packet is sent until the receiver has all its bytes in one piece of memory, with a
/// pause after each packet. The peer is a put of the same bytes with zenoh alone, with the same
/// settings. Rounds of both alternate, and results are medians of the rounds. On a machine with
/// other load, start the benchmark with real-time priority (`chrt -f 1`).
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Number of rounds.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Packets per round.
    #[arg(long, default_value_t = 400)]
    packets: usize,
    /// Time between packets, in microseconds.
    #[arg(long, default_value_t = 10_000)]
    gap_us: u64,
}

/// Receiver of the benchmark, in a program of its own.
#[derive(Debug, clap::Args)]
pub(crate) struct ReceiverOptions {
    way: Way,
    port: u16,
    packets: usize,
}

/// Way of the packets.
#[derive(Debug, Clone, Copy, PartialEq, clap::ValueEnum)]
enum Way {
    /// The link between machines.
    Link,
    /// zenoh alone.
    Put,
}

/// Bytes of a color image of 1920 × 1080.
const IMAGE: usize = 1920 * 1080 * 3;

const CASES: [(&str, usize); 2] = [("1 kB", 1000), ("6.2 MB", IMAGE)];

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    let columns = ["packet", "p50 µs", "p99 µs", "zenoh p50 µs", "zenoh p99 µs", "ratio p50"];
    let mut table = Table::new("Machine hop, loopback", &columns);
    for (name, bytes) in CASES {
        let [mut link, mut put] = [Way::Link, Way::Put].map(|_| [Vec::new(), Vec::new()]);
        for _ in 0..options.rounds {
            for (way, found) in [(Way::Link, &mut link), (Way::Put, &mut put)] {
                let mut times = hops(options, bytes, way)?;
                for (found, q) in found.iter_mut().zip([0.5, 0.99]) {
                    found.push(quantile(&mut times, q) / 1e3);
                }
            }
        }
        let [link, put] = [link, put].map(|found| found.map(crate::timing::median));
        let texts = [link[0], link[1], put[0], put[1]].map(|value| format!("{value:.1}"));
        let ratio = format!("{:.2}", link[0] / put[0]);
        table.row([vec![name.to_owned()], texts.to_vec(), vec![ratio]].concat());
    }
    Ok(vec![table])
}

/// Latency of each packet, in nanoseconds.
fn hops(options: &Options, bytes: usize, way: Way) -> Result<Vec<f64>> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let sender = Sender::start(way, port)?;
    let mut command = Command::new(std::env::current_exe()?);
    let way_name = if way == Way::Link { "link" } else { "put" };
    let numbers = [port.to_string(), options.packets.to_string()];
    command.args(["machine-hop-receiver", way_name]).args(numbers).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let mut output = BufReader::new(child.stdout.take().context("the receiver has no output")?);
    let mut line = String::new();
    output.read_line(&mut line)?;
    ensure!(line == "ready\n", "the receiver did not start");
    sender.await_receiver()?;
    // The first packets find connections that have just been made.
    thread::sleep(Duration::from_millis(300));
    let source = ForeignBytes::from(vec![7; bytes]);
    for post in 1..=options.packets as u64 {
        thread::sleep(Duration::from_micros(options.gap_us));
        sender.send(post, &source)?;
    }
    line.clear();
    output.read_line(&mut line)?;
    ensure!(child.wait()?.success(), "the receiver failed");
    Ok(serde_json::from_str(&line)?)
}

const IMAGES_OUT: Out<Image> = Out::at(0, "images");
const IMAGES_IN: In<Image> = In::at(0, "images");

/// Two machines with one edge between them.
fn graph(port: u16) -> CheckedGraph {
    let mut graph = ClosureGraph::default();
    let from = graph.node("source", "source", const { &[IMAGES_OUT.port()] }, |_| {});
    let to = graph.node("sink", "sink", const { &[IMAGES_IN.port()] }, |_| {});
    graph.edge((from, "images"), (to, "images"), policy(OnFull::Block, 16));
    let listen = format!("tcp/127.0.0.1:{port}");
    let machine = |name: &str| Machine { name: name.to_owned(), ..Machine::default() };
    let mut graph = graph.0;
    graph.name = "hop".to_owned();
    graph.machines = vec![Machine { listen: Some(listen), ..machine("one") }, machine("two")];
    graph.partitions = [0, 1].map(|machine| Partition { machine, process: None }).to_vec();
    graph.nodes[to].partition = 1;
    graph
}

fn connect(port: u16, here: usize, inbox: &Arc<dyn Inbox>) -> Result<(Net, Arc<RemoteLink>)> {
    let (net, links) = Net::connect(&graph(port), here, &NetOptions::default(), |_| inbox.clone())?;
    let (_, link) = links.into_iter().next().context("no link")?;
    Ok((net, link))
}

/// A session like that of [`Net`].
fn open(port: u16, listens: bool) -> Result<zenoh::Session> {
    let mut config = zenoh::Config::default();
    let address = format!("[\"tcp/127.0.0.1:{port}\"]");
    let (listen, connect) = if listens { (&*address, "[]") } else { ("[]", &*address) };
    let settings = [
        ("mode", "\"peer\""),
        ("listen/endpoints", listen),
        ("connect/endpoints", connect),
        ("scouting/multicast/enabled", "false"),
        ("scouting/gossip/enabled", "false"),
        ("transport/shared_memory/enabled", "false"),
    ];
    for (key, value) in settings {
        config.insert_json5(key, value).map_err(|error| anyhow!("{key}: {error}"))?;
    }
    zenoh::open(config).wait().map_err(|error| anyhow!("{error}"))
}

const KEY: &str = "hop/images";

/// Sending end, with the session that it needs.
enum Sender {
    Link { link: Arc<RemoteLink>, _net: Net },
    Put { publisher: Box<zenoh::pubsub::Publisher<'static>>, _session: zenoh::Session },
}

impl Sender {
    fn start(way: Way, port: u16) -> Result<Self> {
        if way == Way::Link {
            let inbox: Arc<dyn Inbox> = Arc::new(Measure(mpsc::channel().0));
            let (net, link) = connect(port, 0, &inbox)?;
            return Ok(Self::Link { link, _net: net });
        }
        let session = open(port, true)?;
        let publisher = session
            .declare_publisher(KEY)
            .priority(Priority::Data)
            .congestion_control(CongestionControl::Block)
            .reliability(Reliability::Reliable)
            .express(true)
            .wait();
        let publisher = publisher.map_err(|error| anyhow!("{error}"))?;
        Ok(Self::Put { publisher: Box::new(publisher), _session: session })
    }

    fn await_receiver(&self) -> Result<()> {
        let end = Instant::now() + Duration::from_secs(10);
        while Instant::now() < end {
            let is_up = match self {
                Self::Link { link, .. } => link.is_up(),
                Self::Put { publisher, .. } => {
                    publisher.matching_status().wait().is_ok_and(|status| status.matching())
                }
            };
            if is_up {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(5));
        }
        Err(anyhow!("the receiver was not reached in 10 s"))
    }

    fn send(&self, post: u64, source: &ForeignBytes) -> Result<()> {
        match self {
            Self::Link { link, .. } => {
                let mut message = Vec::new();
                let header = Header { at: Timestamp(monotonic_ns()), ..Header::default() };
                let head = PacketHead { post, header, ..PacketHead::default() };
                frame::begin_packet(&mut message, &head);
                let hold = || source.clone();
                let bulk = BulkBytes { bytes: source.as_slice(), hold: &hold };
                link.send_packet(&mut message, bulk)?;
            }
            Self::Put { publisher, .. } => {
                let sent = monotonic_ns().to_le_bytes();
                let mut writer = ZBytes::writer();
                writer.append(ZBytes::from(sent.to_vec()));
                writer.append(ZBytes::from(bytes::Bytes::from_owner(Owner(source.clone()))));
                publisher.put(writer.finish()).wait().map_err(|error| anyhow!("{error}"))?;
            }
        }
        Ok(())
    }
}

struct Owner(ForeignBytes);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

/// Measures on arrival.
struct Measure(mpsc::Sender<i64>);

impl Inbox for Measure {
    fn receive(&self, message: &[u8], bulk: ForeignBytes) -> Result<(), String> {
        let head = Head::read(message).map_err(|error| error.to_string())?;
        std::hint::black_box(bulk.as_slice().last());
        if let Head::Packet(head) = head {
            let _ = self.0.send(monotonic_ns() - head.header.at.0);
        }
        Ok(())
    }

    fn has_memory(&self) {}

    fn gone(&self, _: &str) {}
}

/// Receives packets and prints the latency of each.
pub(crate) fn receive(options: &ReceiverOptions) -> Result<()> {
    let (measured, times) = mpsc::channel();
    let print = |times: mpsc::Receiver<i64>| -> Result<()> {
        println!("ready");
        std::io::stdout().flush()?;
        let times: Vec<i64> = times.iter().take(options.packets).collect();
        println!("{}", serde_json::to_string(&times)?);
        Ok(())
    };
    if options.way == Way::Link {
        let inbox: Arc<dyn Inbox> = Arc::new(Measure(measured));
        let (_net, link) = connect(options.port, 1, &inbox)?;
        print(times)?;
        link.close();
        return Ok(());
    }
    let session = open(options.port, false)?;
    let arrived = move |sample: Sample| {
        let bytes = sample.payload().to_bytes();
        let sent = bytes.first_chunk().copied().unwrap_or_default();
        std::hint::black_box(bytes.last());
        let _ = measured.send(monotonic_ns() - i64::from_le_bytes(sent));
    };
    let subscriber = session.declare_subscriber(KEY).callback(arrived).wait();
    let _subscriber = subscriber.map_err(|error| anyhow!("{error}"))?;
    print(times)
}
