//! The live view beside the graph that it shows.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use afferent_engine::Report;
use anyhow::{Context, Result, anyhow, bail, ensure};
use tungstenite::{Bytes, Message, WebSocket};

use crate::{process::afferent_run, table::Table, timing::median};

/// Cost of the live view for the graph.
///
/// Runs a graph of sound and images in real time: without the view, with the view and no page, with a
/// page, with a client that reads nothing, and with 20 pages, in turn. Prints the latency of its two
/// paths, and the ratio to the run of the same round without the view. The clients, which in use are on
/// other machines, run at low priority.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// `afferent`; the default is the program next to this one.
    #[arg(long, value_name = "PROGRAM")]
    program: Option<PathBuf>,
    /// Folder of the sounds, images and models.
    #[arg(long, default_value = "pipelines")]
    pipelines: PathBuf,
    /// Number of rounds.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Duration of each run, in seconds.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

/// A graph with many small packets and some large ones.
fn graph(pipelines: &Path) -> String {
    let folder = pipelines.display();
    format!(
        "afferent: 1
name: watched
nodes:
  sound: {{use: wav_source, params: {{path: {folder}/assets/other_speech.wav, block: 10ms, pace: realtime}}}}
  half: {{use: resample, in: sound.audio, params: {{rate: 8000}}}}
  heard: {{use: event_log, in: half.audio}}
  camera: {{use: video_source, params: {{path: {folder}/assets/room.avi}}}}
  objects: {{use: detect, in: camera.images, params: {{model: {folder}/models/objects}}}}
  seen: {{use: event_log, in: objects.detections}}
"
    )
}

/// Clients of the view.
#[derive(Debug, Clone, Copy)]
enum Clients {
    /// The view is off.
    Off,
    /// As many pages.
    Open(usize),
    /// A client that reads nothing.
    Stalled,
}

const CASES: [(&str, Clients); 5] = [
    ("no view", Clients::Off),
    ("no page", Clients::Open(0)),
    ("a page", Clients::Open(1)),
    ("a stalled client", Clients::Stalled),
    ("20 pages", Clients::Open(20)),
];

/// The paths of the graph: source and sink.
const PATHS: [(&str, &str); 2] = [("sound", "heard"), ("camera", "seen")];

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("graph.yaml");
    let pipelines = fs::canonicalize(&options.pipelines)
        .with_context(|| options.pipelines.display().to_string())?;
    fs::write(&file, graph(&pipelines))?;
    // p50 and p99 in milliseconds, by path, case and round.
    let mut found = vec![vec![Vec::new(); CASES.len()]; PATHS.len()];
    let mut received = vec![Vec::new(); CASES.len()];
    for round in 1..=options.rounds {
        for (index, (name, clients)) in CASES.into_iter().enumerate() {
            eprintln!("round {round} of {}: {name}", options.rounds);
            let (report, bytes) = run_once(options, &file, clients).context(name)?;
            received[index].push(bytes as f64 / 1e6 / options.seconds as f64);
            for (path, (from, to)) in PATHS.into_iter().enumerate() {
                let same =
                    |report: &&afferent_engine::PathReport| report.from == from && report.to == to;
                let latency = &report.paths.iter().find(same).context("no such path")?.latency;
                let ms = |ns: u64| ns as f64 / 1e6;
                found[path][index].push([ms(latency.p50_ns), ms(latency.p99_ns)]);
            }
        }
    }
    let mut tables = Vec::new();
    for ((from, to), found) in PATHS.into_iter().zip(&found) {
        let columns = ["view", "p50 ms", "p99 ms", "p50 ratio", "p99 ratio", "received MB/s"];
        let mut table = Table::new(format!("Live view, from {from} to {to}"), &columns);
        for (index, (name, _)) in CASES.into_iter().enumerate() {
            let value = |at: usize| median(found[index].iter().map(|round| round[at]).collect());
            let ratio = |at: usize| {
                let rounds = found[index].iter().zip(&found[0]);
                median(rounds.map(|(round, without)| round[at] / without[at]).collect())
            };
            table.row([
                name.to_owned(),
                format!("{:.3}", value(0)),
                format!("{:.3}", value(1)),
                format!("{:.2}", ratio(0)),
                format!("{:.2}", ratio(1)),
                format!("{:.2}", median(received[index].clone())),
            ]);
        }
        table.note("medians of the rounds; ratios to the run of the same round without the view");
        tables.push(table);
    }
    Ok(tables)
}

/// Runs the graph once. Returns its report, and the bytes that the clients have read.
fn run_once(options: &Options, graph: &Path, clients: Clients) -> Result<(Report, u64)> {
    let stats = graph.with_file_name("stats.json");
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut command = afferent_run(options.program.as_deref(), graph)?;
    command.arg("--stats").arg(&stats).args(["--duration", &format!("{}s", options.seconds)]);
    if !matches!(clients, Clients::Off) {
        command.arg(format!("--live=127.0.0.1:{port}"));
    }
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let readers = match connect(&mut child, port, clients) {
        Ok(readers) => readers,
        Err(error) => {
            child.kill()?;
            child.wait()?;
            return Err(error);
        }
    };
    let status = child.wait()?;
    ensure!(status.success(), "afferent ended: {status}");
    let counts = readers.into_iter().map(|reader| reader.join().unwrap_or(0));
    let bytes = counts.sum();
    Ok((serde_json::from_str(&fs::read_to_string(&stats)?)?, bytes))
}

/// Connects the clients. Each result counts the bytes that it reads until the end of the graph.
fn connect(child: &mut Child, port: u16, clients: Clients) -> Result<Vec<thread::JoinHandle<u64>>> {
    let (count, reads) = match clients {
        Clients::Off => return Ok(Vec::new()),
        Clients::Open(count) => (count, true),
        Clients::Stalled => (1, false),
    };
    (0..count)
        .map(|_| {
            let mut socket = handshake(child, port)?;
            Ok(thread::spawn(move || {
                // Pages are on other machines.
                afferent_engine::lower_priority();
                if !reads {
                    // Until the graph has ended and the socket with it.
                    while socket.send(Message::Ping(Bytes::new())).is_ok() {
                        thread::sleep(Duration::from_millis(200));
                    }
                    return 0;
                }
                let mut bytes = 0;
                while let Ok(message) = socket.read() {
                    bytes += message.len() as u64;
                }
                bytes
            }))
        })
        .collect()
}

/// A WebSocket to the live view, as soon as the program serves it.
fn handshake(child: &mut Child, port: u16) -> Result<WebSocket<TcpStream>> {
    let limit = Instant::now() + Duration::from_secs(10);
    let stream = loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => break stream,
            Err(error) if Instant::now() > limit => return Err(error.into()),
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
        if let Some(status) = child.try_wait()? {
            bail!("afferent ended: {status}");
        }
    };
    let (socket, _) = tungstenite::client(format!("ws://127.0.0.1:{port}/live"), stream)
        .map_err(|error| anyhow!("the live view refuses a client: {error}"))?;
    Ok(socket)
}
