//! Graphs in several processes, as a user runs them.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use afferent_engine::{FailureKind, Report};
use hound::WavReader;
use runs::{check_accounts, child, report, samples, sound_folder};

#[path = "shared/runs.rs"]
mod runs;

/// `wav → (side) resample → wav`, and a log in a third process.
const GRAPH: &str = r#"afferent: 1
params: {pace: max}
nodes:
  wav: {use: wav_source, params: {path: sound.wav, block: 20ms, pace: "${pace}"}}
  low: {use: resample, process: side, in: wav.audio, params: {rate: 8000}, on_error: stop}
  log: {use: event_log, process: log, in: low.audio, params: {path: log.txt}}
  out: {use: wav_sink, in: {audio: low.audio}, params: {path: out.wav}}
budget: {from: wav.audio, to: low.audio, max: 1h}
waterfall: [wav.audio, low.audio]
"#;

/// A folder with the graph and a sound of `seconds`.
fn folder(seconds: u32) -> tempfile::TempDir {
    sound_folder(GRAPH, seconds)
}

fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_afferent"));
    command.current_dir(folder).args(["run", "graph.yaml", "--stats", "stats.json"]).args(args);
    command
}

#[test]
fn processes_give_the_same_results_as_one() {
    let folder = folder(3);
    let ended = command(folder.path(), &["--here"]).output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let (expected, log) = (samples(folder.path()), folder.path().join("log.txt"));
    let lines = fs::read_to_string(&log).unwrap().lines().count();
    let one = report(folder.path(), "stats");
    fs::remove_file(&log).unwrap();
    let ended = command(folder.path(), &["--record", "run.mcap"]).output().unwrap();
    let Output { status, stderr, .. } = &ended;
    assert!(status.success(), "{}", String::from_utf8_lossy(stderr));
    assert_eq!(samples(folder.path()), expected);
    assert_eq!(fs::read_to_string(&log).unwrap().lines().count(), lines);
    let several = report(folder.path(), "stats");
    check_accounts(&several);
    for (one, several) in one.edges.iter().zip(&several.edges) {
        assert_eq!((&one.from, one.counts.sent), (&several.from, several.counts.sent));
        assert_eq!((one.counts.delivered, several.lost), (several.counts.delivered, 0));
    }
    for (one, several) in one.nodes.iter().zip(&several.nodes) {
        assert_eq!((&one.name, one.packets_in), (&several.name, several.packets_in));
    }
    let budget = &several.budgets[0];
    assert!(budget.measured > 100 && budget.kept, "its ends are in two processes: {budget:?}");
    let parts = ["run.mcap", "run.side.mcap", "run.log.mcap"];
    let afferent = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_afferent"));
        let Output { status, stdout, stderr } =
            command.current_dir(folder.path()).args(args).output().unwrap();
        let text = [stdout, stderr].concat();
        (status.success(), String::from_utf8(text).unwrap())
    };
    let merge = [&["merge"], &parts[..], &["--output", "all.mcap"]].concat();
    let (merged, text) = afferent(&merge);
    assert!(merged && text.contains("2 streams in all.mcap"), "{text}");
    let (equal, text) = afferent(&["replay", "all.mcap", "graph.yaml", "--check"]);
    assert!(equal, "{text}");
    let (twice, text) = afferent(&["merge", "run.mcap", "run.mcap", "-o", "all.mcap"]);
    assert!(!twice && text.contains("both have packets of wav/audio"), "{text}");
    let (overwritten, text) = afferent(&["merge", "run.mcap", "run.log.mcap", "-o", "run.mcap"]);
    assert!(!overwritten && text.contains("run.mcap would be overwritten"), "{text}");
}

/// Starts the graph at the pace of a clock; returns the run and the id of the process `name`.
fn start(folder: &Path, args: &[&str], name: &str) -> (Child, u32) {
    let args = [&["--set", "pace=realtime"], args].concat();
    let mut command = command(folder, &args);
    let mut run = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    loop {
        if let Some(id) = process(run.id(), name) {
            return (run, id);
        }
        let ended = run.try_wait().unwrap();
        assert!(ended.is_none(), "the run has ended without the process {name}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Process id of the process `name` of the graph.
fn process(parent: u32, name: &str) -> Option<u32> {
    child(parent, if name == "side" { 1 } else { 2 })
}

fn kill(id: u32) {
    let done = Command::new("kill").args(["-9", &id.to_string()]).status().unwrap();
    assert!(done.success());
}

/// Lines of standard error, each with its time.
fn lines(run: &mut Child) -> Vec<(Instant, String)> {
    let errors = BufReader::new(run.stderr.take().unwrap());
    errors.lines().map(|line| (Instant::now(), line.unwrap())).collect()
}

#[test]
fn figures_of_all_processes_are_served() {
    let folder = folder(20);
    let (mut run, _) = start(folder.path(), &["--serve=127.0.0.1:0"], "log");
    let mut errors = BufReader::new(run.stderr.take().unwrap()).lines();
    let line = errors.by_ref().map(Result::unwrap).find(|line| line.contains("figures at"));
    let line = line.unwrap();
    let address = line.split("http://").nth(1).unwrap().split(',').next().unwrap().to_owned();
    let limit = Instant::now() + Duration::from_secs(10);
    let report = loop {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(b"GET /stats HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let json = text.split("\r\n\r\n").nth(1).unwrap();
        let report: Report = serde_json::from_str(json).unwrap();
        if report.nodes.iter().all(|node| node.calls > 10) {
            break report;
        }
        assert!(Instant::now() < limit, "{:?}", report.nodes);
        thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(report.nodes.len(), 4);
    for edge in &report.edges {
        let counts = edge.counts;
        let known = counts.delivered + counts.dropped() + counts.depth as u64;
        // The processes answer one after another.
        assert!(counts.sent + 50 >= known && known + edge.in_transit + 50 >= counts.sent);
    }
    run.kill().unwrap();
    run.wait().unwrap();
}

#[test]
fn the_deployment_of_one_board_answers() {
    let kit = concat!(env!("CARGO_MANIFEST_DIR"), "/kits/one_board.yaml");
    let folder = tempfile::tempdir().unwrap();
    let answer = folder.path().join("answer.wav");
    let set = format!("agent/speaker.path={}", answer.display());
    let ended = Command::new(env!("CARGO_BIN_EXE_afferent"))
        .args(["run", kit, "--duration", "5s", "--set", &set])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(text.contains("\"there are seven days in a week.\""), "{text}");
    let loudest = WavReader::open(&answer).unwrap().samples::<i16>().map(Result::unwrap).max();
    assert!(loudest.unwrap() > 1000, "the process of the devices wrote the answer");
}

#[test]
fn a_killed_process_ends_its_streams_and_fails_the_run() {
    let folder = folder(4);
    let (mut run, id) = start(folder.path(), &[], "side");
    thread::sleep(Duration::from_millis(1500));
    kill(id);
    let lines = lines(&mut run);
    assert!(!run.wait().unwrap().success());
    let has = |text: &str| lines.iter().any(|(_, line)| line.contains(text));
    assert!(has("process side was killed by signal 9"), "{lines:?}");
    let report = report(folder.path(), "stats");
    check_accounts(&report);
    let failed: Vec<_> =
        report.failures.iter().map(|failure| (failure.node.as_str(), failure.kind)).collect();
    assert_eq!(failed, [("low", FailureKind::Lost)]);
    assert!(report.edges.iter().all(|edge| edge.at_least), "{:?}", report.edges);
    assert!(!samples(folder.path()).is_empty(), "what arrived before was written");
}

#[test]
fn a_killed_process_is_started_again_by_the_policy_of_its_nodes() {
    let folder = folder(6);
    let restart = "on_error: {restart: {backoff: 10ms, limit: 5}}";
    fs::write(folder.path().join("graph.yaml"), GRAPH.replace("on_error: stop", restart)).unwrap();
    let (mut run, first) = start(folder.path(), &[], "side");
    thread::sleep(Duration::from_millis(1500));
    kill(first);
    let limit = Instant::now() + Duration::from_secs(5);
    let second = loop {
        match process(run.id(), "side").filter(|id| *id != first) {
            Some(id) => break id,
            None => assert!(Instant::now() < limit, "it is not started again"),
        }
        thread::sleep(Duration::from_millis(5));
    };
    let lines = lines(&mut run);
    assert!(run.wait().unwrap().success(), "{lines:?}");
    assert_ne!(first, second);
    let report = report(folder.path(), "stats");
    check_accounts(&report);
    assert_eq!(report.failures, []);
    // Most of 6 s arrive: what was lost lasted for the restart.
    let written = samples(folder.path()).len();
    assert!(written > 8000 * 4, "{written} samples of {}", 8000 * 6);
}

#[test]
fn a_stream_ends_if_its_sender_is_away_for_too_long() {
    let folder = folder(5);
    let graph = GRAPH.replace("on_error: stop", "on_error: {restart: {backoff: 2s, limit: 5}}");
    let graph = graph.replace("audio: low.audio", "audio: {from: low.audio, loss_timeout: 100ms}");
    fs::write(folder.path().join("graph.yaml"), graph).unwrap();
    let (mut run, id) = start(folder.path(), &[], "side");
    thread::sleep(Duration::from_millis(1000));
    kill(id);
    let lines = lines(&mut run);
    assert!(run.wait().unwrap().success(), "{lines:?}");
    let is_told =
        |(_, line): &(Instant, String)| line.contains("low.audio -> out.audio: the sender is not");
    assert!(lines.iter().any(is_told), "{lines:?}");
    let report = report(folder.path(), "stats");
    check_accounts(&report);
    // The other stream of the same node waits.
    let [out, log] = ["out", "log"].map(|node| report.node(node).unwrap().packets_in);
    assert!(out < 80 && log > out + 40, "{out} and {log} packets");
}

#[test]
fn a_process_that_cannot_open_its_nodes_is_named() {
    let folder = folder(1);
    let graph = GRAPH.replace("rate: 8000", "rate: 8000, quality: 99");
    fs::write(folder.path().join("graph.yaml"), graph).unwrap();
    let ended = command(folder.path(), &[]).output().unwrap();
    assert!(!ended.status.success());
    // A fault that the check of the main process finds starts no process.
    let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(errors.contains("quality"), "{errors}");
    let wrong = Command::new(env!("CARGO_BIN_EXE_afferent"))
        .current_dir(folder.path())
        .env("AFFERENT_PROCESS", "one")
        .stdin(Stdio::null())
        .args(["run", "graph.yaml"])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(errors.contains("AFFERENT_PROCESS=one"), "{errors}");
}
