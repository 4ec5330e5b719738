//! Loss of a process of a running graph.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};

use crate::{
    metrics::quantile,
    process::{self, afferent_run},
    table::Table,
};

/// Kills a process of a graph again and again.
///
/// A graph of two processes passes blocks of audio every 10 ms. Its second process is killed with
/// `kill -9` and started again by the policy of its node. Measured from each kill: the time until
/// the main process reports it, and the time until packets arrive again. Fails if a packet is not
/// accounted for, memory grows, or something stays in /dev/shm.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// `afferent`; the default is the program next to this one.
    #[arg(long, value_name = "PROGRAM")]
    program: Option<PathBuf>,
    /// Number of kills.
    #[arg(long, default_value_t = 100)]
    kills: usize,
}

const GRAPH: &str = "afferent: 1
name: loss
nodes:
  sound: {use: wav_source, params: {path: sound.wav, block: 10ms, pace: realtime}}
  half: {use: resample, process: side, in: sound.audio, params: {rate: 8000}, on_error: {restart: {backoff: 10us, limit: 100}}}
  log: {use: event_log, in: half.audio}
";

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    let folder = tempfile::tempdir()?;
    let graph = folder.path().join("graph.yaml");
    fs::write(&graph, GRAPH)?;
    write_silence(&folder.path().join("sound.wav"), 120)?;
    let mut found = Found::default();
    let mut left = options.kills;
    while left > 0 {
        let kills = left.min(KILLS);
        run_once(options, folder.path(), kills, &mut found)?;
        left -= kills;
    }
    let Found { mut noticed, mut flowing, grown } = found;
    let columns = ["kills", "noticed p50 ms", "max ms", "flowing p50 ms", "max ms", "grown MB"];
    let mut table = Table::new("Killed process", &columns);
    let max = |times: &[f64]| times.iter().copied().fold(0.0, f64::max);
    table.row([
        options.kills.to_string(),
        format!("{:.2}", quantile(&mut noticed, 0.5)),
        format!("{:.2}", max(&noticed)),
        format!("{:.0}", quantile(&mut flowing, 0.5)),
        format!("{:.0}", max(&flowing)),
        format!("{grown:.1}"),
    ]);
    table.note("flowing: until the next packet of the process arrives; grown: memory of the main process, the most of a run");
    Ok(vec![table])
}

/// Kills of one run: the policy doubles the delay of each restart.
const KILLS: usize = 10;

/// Times from a kill in milliseconds, and growth of memory in megabytes.
#[derive(Default)]
struct Found {
    noticed: Vec<f64>,
    flowing: Vec<f64>,
    grown: f64,
}

/// Runs the graph and kills its second process `kills` times.
fn run_once(options: &Options, folder: &Path, kills: usize, found: &mut Found) -> Result<()> {
    let graph = folder.join("graph.yaml");
    let shared = || fs::read_dir("/dev/shm").map_or(0, Iterator::count);
    let shared_before = shared();
    let mut command = afferent_run(options.program.as_deref(), &graph)?;
    let stats = folder.join("stats.json");
    command.arg("--stats").arg(&stats).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = command.spawn().context("cannot start afferent")?;
    let packets = lines(run.stdout.take().context("no output")?);
    let notices = lines(run.stderr.take().context("no errors")?);
    let id = run.id();
    next(&packets, |_| true)?;
    thread::sleep(Duration::from_secs(1));
    let before = process::resident_bytes_of(id)?;
    for _ in 0..kills {
        let child = process::child_of(id).context("the second process does not run")?;
        while packets.try_recv().is_ok() {}
        while notices.try_recv().is_ok() {}
        let killed = Instant::now();
        let done = Command::new("kill").args(["-9", &child.to_string()]).status()?;
        ensure!(done.success(), "cannot kill the second process");
        let at = next(&notices, |line| line.contains("was killed"))?;
        found.noticed.push(at.saturating_duration_since(killed).as_secs_f64() * 1e3);
        // Packets that were on the way when the notice came may follow it.
        let quiet = at + Duration::from_millis(4);
        while next(&packets, |_| true)? < quiet {}
        let at = Instant::now();
        found.flowing.push(at.saturating_duration_since(killed).as_secs_f64() * 1e3);
        thread::sleep(Duration::from_millis(150));
    }
    let after = process::resident_bytes_of(id)?;
    // The first signal drains the graph.
    Command::new("kill").args(["-INT", &id.to_string()]).status()?;
    while packets.recv().is_ok() {}
    let ended = run.wait()?;
    ensure!(ended.success(), "the run failed: {ended}");
    let report: afferent_engine::Report = serde_json::from_str(&fs::read_to_string(stats)?)?;
    for edge in &report.edges {
        let counts = edge.counts;
        let all = counts.delivered + counts.dropped() + counts.depth as u64;
        let all = all + edge.in_transit + edge.lost;
        ensure!(counts.sent == all, "packets are unaccounted for: {edge:?}");
    }
    ensure!(shared() <= shared_before, "files stay in /dev/shm");
    let grown = after.saturating_sub(before) as f64 / 1e6;
    ensure!(grown < 8.0, "memory grew by {grown:.1} MB");
    found.grown = found.grown.max(grown);
    Ok(())
}

/// Lines of a stream with their times, on a thread.
pub(crate) fn lines(stream: impl std::io::Read + Send + 'static) -> Receiver<(Instant, String)> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send((Instant::now(), line)).is_err() {
                return;
            }
        }
    });
    lines
}

/// Time of the next line that `is_wanted`.
pub(crate) fn next(
    lines: &Receiver<(Instant, String)>,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Instant> {
    let limit = Instant::now() + Duration::from_secs(20);
    loop {
        let left = limit.saturating_duration_since(Instant::now());
        let (at, line) = lines.recv_timeout(left).context("nothing arrives any more")?;
        if is_wanted(&line) {
            return Ok(at);
        }
    }
}

pub(crate) fn write_silence(path: &Path, seconds: u32) -> Result<()> {
    let sample_format = hound::SampleFormat::Int;
    let spec =
        hound::WavSpec { channels: 1, sample_rate: 16_000, bits_per_sample: 16, sample_format };
    let mut file = hound::WavWriter::create(path, spec)?;
    for _ in 0..16_000 * seconds {
        file.write_sample(0_i16)?;
    }
    file.finalize()?;
    Ok(())
}
