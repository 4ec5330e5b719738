//! Interruption of a machine of a running graph.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use afferent_engine::Report;
use anyhow::{Context, Result, ensure};

use crate::{
    metrics::quantile,
    process::afferent_run,
    process_loss::{lines, next, write_silence},
    table::Table,
};

/// Stops a machine of a graph again and again.
///
/// A graph on two machines, both programs on this one, passes blocks of audio every 10 ms from the
/// first to the second and back; a second stream stays on the first. The second machine is stopped
/// (SIGSTOP), as one that is out of reach, and goes on later. Measured: the time until the first
/// machine reports the loss, and the time from its return until packets arrive again. Fails if a
/// packet is lost or not accounted for, or if the other stream is disturbed.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// `afferent`, built with the feature `net`; the default is the program next to this one.
    #[arg(long, value_name = "PROGRAM")]
    program: Option<PathBuf>,
    /// Number of short interruptions.
    #[arg(long, default_value_t = 10)]
    stops: usize,
    /// Duration of a short interruption, in seconds.
    #[arg(long, default_value_t = 3)]
    short: u64,
    /// Duration of a long interruption, in seconds.
    #[arg(long, default_value_t = 16)]
    long: u64,
}

const GRAPH: &str = r#"afferent: 1
name: loss
machines:
  one: {listen: "tcp/127.0.0.1:PORT"}
  two: {}
nodes:
  sound: {use: wav_source, params: {path: sound.wav, block: 10ms, pace: realtime}}
  half: {use: resample, machine: two, in: sound.audio, params: {rate: 8000}}
  log: {use: event_log, in: half.audio}
  near: {use: wav_source, params: {path: sound.wav, block: 10ms, pace: realtime}}
  nearby: {use: resample, in: near.audio, params: {rate: 8000}, thread: nearby}
"#;

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    let columns = ["stops", "of s", "noticed p50 ms", "max ms", "back p50 ms", "max ms", "lost"];
    let columns = [&columns[..], &["clock ± us", "other stream p99 ms"]].concat();
    let mut table = Table::new("Machine that is stopped", &columns);
    for (stops, seconds) in [(options.stops, options.short), (1, options.long)] {
        table.row(run_once(options, stops, seconds)?);
    }
    table.note("back: from the return until the next packet arrives; clock: bound of its error in the report");
    Ok(vec![table])
}

fn run_once(options: &Options, stops: usize, seconds: u64) -> Result<Vec<String>> {
    let folder = tempfile::tempdir()?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    fs::write(folder.path().join("graph.yaml"), GRAPH.replace("PORT", &port.to_string()))?;
    let length = (stops as u64 * (seconds + 2) + 20).try_into().unwrap_or(u32::MAX);
    write_silence(&folder.path().join("sound.wav"), length)?;
    let mut one = start(options, folder.path(), "one")?;
    let mut two = start(options, folder.path(), "two")?;
    let packets = lines(one.stdout.take().context("no output")?);
    let notices = lines(one.stderr.take().context("no errors")?);
    next(&packets, |_| true)?;
    thread::sleep(Duration::from_secs(2));
    let (mut noticed, mut back) = (Vec::new(), Vec::new());
    let since = |at: Instant, begin| at.saturating_duration_since(begin).as_secs_f64() * 1e3;
    for _ in 0..stops {
        while notices.try_recv().is_ok() {}
        let stopped = Instant::now();
        signal(&two, "-STOP")?;
        let at = next(&notices, |line| line.contains("cannot be reached"))?;
        noticed.push(since(at, stopped));
        thread::sleep(Duration::from_secs(seconds).saturating_sub(stopped.elapsed()));
        while packets.try_recv().is_ok() {}
        let continued = Instant::now();
        signal(&two, "-CONT")?;
        back.push(since(next(&packets, |_| true)?, continued));
        thread::sleep(Duration::from_secs(2));
    }
    // The first signal drains the graph.
    signal(&one, "-INT")?;
    while packets.recv().is_ok() {}
    ensure!(one.wait()?.success() && two.wait()?.success(), "a run failed");
    let report: Report =
        serde_json::from_str(&fs::read_to_string(folder.path().join("one.json"))?)?;
    for edge in &report.edges {
        let counts = edge.counts;
        let all = counts.delivered + counts.dropped() + counts.depth as u64;
        let all = all + edge.in_transit + edge.lost;
        ensure!(counts.sent == all, "packets are unaccounted for: {edge:?}");
    }
    let lost: u64 = report.edges.iter().map(|edge| edge.lost + edge.counts.dropped_full).sum();
    let near = report.edge("near.audio", "nearby.audio").context("no other stream")?;
    let bound = report.machines.get(1).and_then(|machine| machine.clock_bound_ns);
    let max = |times: &[f64]| times.iter().copied().fold(0.0, f64::max);
    Ok(vec![
        stops.to_string(),
        seconds.to_string(),
        format!("{:.0}", quantile(&mut noticed, 0.5)),
        format!("{:.0}", max(&noticed)),
        format!("{:.0}", quantile(&mut back, 0.5)),
        format!("{:.0}", max(&back)),
        lost.to_string(),
        bound.map_or("unknown".to_owned(), |bound| format!("{:.0}", bound as f64 / 1e3)),
        format!("{:.2}", near.age.p99_ns as f64 / 1e6),
    ])
}

fn start(options: &Options, folder: &Path, machine: &str) -> Result<Child> {
    let mut command = afferent_run(options.program.as_deref(), Path::new("graph.yaml"))?;
    let stats = format!("{machine}.json");
    command.current_dir(folder).args(["--machine", machine, "--stats", &stats]);
    if machine == "one" {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    } else {
        command.stdout(Stdio::null()).stderr(Stdio::null());
    }
    command.spawn().context("cannot start afferent")
}

fn signal(run: &Child, name: &str) -> Result<()> {
    let done = Command::new("kill").args([name, &run.id().to_string()]).status()?;
    ensure!(done.success(), "kill {name} failed");
    Ok(())
}
