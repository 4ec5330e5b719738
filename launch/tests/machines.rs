//! Graphs on several machines, each a program on this one, as a user runs them.
#![cfg(all(target_os = "linux", feature = "net"))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use runs::{check_accounts, child, report, samples, sound_folder};

#[path = "shared/runs.rs"]
mod runs;

/// `wav (robot) → resample (base, in a process of its own) → wav (robot)`, and a log on base.
const GRAPH: &str = r#"afferent: 1
name: test
params: {pace: max}
machines:
  robot: {listen: "tcp/127.0.0.1:PORT"}
  base: {}
nodes:
  wav: {use: wav_source, params: {path: sound.wav, block: 20ms, pace: "${pace}"}}
  low: {use: resample, machine: base, process: side, in: wav.audio, params: {rate: 8000}}
  log: {use: event_log, machine: base, in: low.audio, params: {path: log.txt}}
  out: {use: wav_sink, in: {audio: low.audio}, params: {path: out.wav}}
budget: {from: wav.audio, to: low.audio, max: 1h}
"#;

/// A folder with the graph, with a port of this machine, and a sound of `seconds`.
fn folder(seconds: u32) -> tempfile::TempDir {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    sound_folder(&GRAPH.replace("PORT", &port.to_string()), seconds)
}

/// Changes the graph of `folder`.
fn edit(folder: &Path, from: &str, to: &str) {
    let path = folder.join("graph.yaml");
    let graph = fs::read_to_string(&path).unwrap();
    assert!(graph.contains(from), "{from}");
    fs::write(path, graph.replace(from, to)).unwrap();
}

fn start(folder: &Path, machine: &str, args: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_afferent"))
        .current_dir(folder)
        .args(["run", "graph.yaml", "--machine", machine, "--stats", &format!("{machine}.json")])
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits for the end of a program; returns its errors.
fn end(run: Child, success: bool) -> String {
    let Output { status, stderr, .. } = run.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&stderr).into_owned();
    assert_eq!(status.success(), success, "{errors}");
    errors
}

fn signal(run: &Child, name: &str) {
    let id = run.id().to_string();
    assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
}

#[test]
fn machines_give_the_same_results_as_one_process() {
    let folder = folder(3);
    let mut here = Command::new(env!("CARGO_BIN_EXE_afferent"));
    here.current_dir(folder.path()).args(["run", "graph.yaml", "--here", "--stats", "here.json"]);
    assert!(here.output().unwrap().status.success());
    let (expected, log) = (samples(folder.path()), folder.path().join("log.txt"));
    let lines = fs::read_to_string(&log).unwrap().lines().count();
    fs::remove_file(&log).unwrap();
    let robot = start(folder.path(), "robot", &["--record", "run.mcap"]);
    let base = start(folder.path(), "base", &["--record", "run.mcap"]);
    end(robot, true);
    end(base, true);
    assert_eq!(samples(folder.path()), expected);
    assert_eq!(fs::read_to_string(&log).unwrap().lines().count(), lines);
    let (one, several) = (report(folder.path(), "here"), report(folder.path(), "robot"));
    check_accounts(&several);
    for (one, several) in one.edges.iter().zip(&several.edges) {
        assert_eq!((&one.from, one.counts.sent), (&several.from, several.counts.sent));
        assert_eq!((one.counts.delivered, several.lost), (several.counts.delivered, 0));
    }
    for (one, several) in one.nodes.iter().zip(&several.nodes) {
        assert_eq!((&one.name, one.packets_in), (&several.name, several.packets_in));
    }
    let budget = &several.budgets[0];
    assert!(budget.measured > 100 && budget.kept, "its ends are on two machines: {budget:?}");
    let bound = several.machines[1].clock_bound_ns.unwrap();
    // Both are programs of this machine, which share a clock.
    assert!((1..5_000_000).contains(&bound) && budget.clock_bound_ns == bound, "{bound} ns");
    let afferent = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_afferent"));
        let Output { status, stdout, stderr } =
            command.current_dir(folder.path()).args(args).output().unwrap();
        assert!(status.success(), "{}", String::from_utf8_lossy(&[stdout, stderr].concat()));
    };
    let parts = ["run.mcap", "run.base.side.mcap", "run.base.mcap"];
    afferent(&[&["merge"], &parts[..], &["--output", "all.mcap"]].concat());
    afferent(&["replay", "all.mcap", "graph.yaml", "--check"]);
}

#[test]
fn a_stopped_machine_loses_nothing_and_pauses_the_sender() {
    let folder = folder(4);
    // Every edge blocks, and the source goes as fast as they let it.
    let robot = start(folder.path(), "robot", &["--set", "pace=realtime"]);
    let base = start(folder.path(), "base", &["--set", "pace=realtime"]);
    thread::sleep(Duration::from_millis(1500));
    signal(&base, "-STOP");
    thread::sleep(Duration::from_secs(4));
    signal(&base, "-CONT");
    let errors = end(robot, true);
    end(base, true);
    assert!(errors.contains("machine base cannot be reached"), "{errors}");
    assert!(errors.contains("machine base is back"), "{errors}");
    let report = report(folder.path(), "robot");
    check_accounts(&report);
    assert!(report.edges.iter().all(|edge| edge.lost == 0), "{:?}", report.edges);
    assert_eq!(samples(folder.path()).len(), 4 * 8000);
}

#[test]
fn a_machine_that_is_started_again_joins_the_session() {
    let folder = folder(8);
    let robot = start(folder.path(), "robot", &["--set", "pace=realtime"]);
    let base = start(folder.path(), "base", &["--set", "pace=realtime"]);
    thread::sleep(Duration::from_millis(2000));
    signal(&base, "-KILL");
    drop(base.wait_with_output());
    let base = start(folder.path(), "base", &["--set", "pace=realtime"]);
    let errors = end(robot, true);
    end(base, true);
    assert!(errors.contains("machine base was started again"), "{errors}");
    let report = report(folder.path(), "robot");
    check_accounts(&report);
    let written = samples(folder.path()).len();
    assert!(written > 4 * 8000, "{written} samples of {}", 8 * 8000);
}

#[test]
fn a_killed_process_ends_its_streams_in_the_processes_of_another_machine() {
    let folder = folder(60);
    edit(folder.path(), "use: wav_source", "use: wav_source, process: source");
    edit(folder.path(), "use: wav_sink", "use: wav_sink, machine: base, process: side");
    edit(
        folder.path(),
        "use: event_log, machine: base",
        "use: event_log, machine: base, process: side",
    );
    let mut robot = start(folder.path(), "robot", &["--set", "pace=realtime"]);
    let mut base = start(folder.path(), "base", &["--set", "pace=realtime"]);
    thread::sleep(Duration::from_millis(2000));
    let source = child(robot.id(), 2).unwrap();
    assert!(Command::new("kill").args(["-KILL", &source.to_string()]).status().unwrap().success());
    let limit = Instant::now() + Duration::from_secs(20);
    while Instant::now() < limit
        && [&mut robot, &mut base].into_iter().any(|run| run.try_wait().unwrap().is_none())
    {
        thread::sleep(Duration::from_millis(50));
    }
    assert!(base.try_wait().unwrap().is_some(), "its process waits for the stream");
    end(base, true);
    let errors = end(robot, false);
    assert!(errors.contains("process robot/source was killed by signal 9"), "{errors}");
    check_accounts(&report(folder.path(), "robot"));
    assert!(samples(folder.path()).len() > 8000, "what arrived before was written");
}

#[test]
fn a_machine_that_stops_leaves_the_graph_and_the_first_one_stops_all() {
    let folder = folder(30);
    let robot = start(folder.path(), "robot", &["--set", "pace=realtime"]);
    let base = start(folder.path(), "base", &["--set", "pace=realtime"]);
    thread::sleep(Duration::from_millis(2000));
    signal(&base, "-TERM");
    end(base, true);
    let base = start(folder.path(), "base", &["--set", "pace=realtime"]);
    thread::sleep(Duration::from_millis(3000));
    let begin = Instant::now();
    signal(&robot, "-TERM");
    let errors = end(robot, true);
    end(base, true);
    assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
    assert!(errors.contains("machine base has left the graph"), "{errors}");
    check_accounts(&report(folder.path(), "robot"));
}

#[test]
fn different_graphs_are_refused_on_both_machines() {
    let folder = folder(1);
    let robot = start(folder.path(), "robot", &[]);
    let base = {
        let other = folder.path().join("other.yaml");
        let graph = fs::read_to_string(folder.path().join("graph.yaml")).unwrap();
        fs::write(
            other,
            graph.replace("{audio: low.audio}", "{audio: {from: low.audio, queue: 9}}"),
        )
        .unwrap();
        Command::new(env!("CARGO_BIN_EXE_afferent"))
            .current_dir(folder.path())
            .args(["run", "other.yaml", "--machine", "base"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let (robot, base) = (end(robot, false), end(base, false));
    assert!(
        robot.contains("base runs another graph: it has `edge low.audio -> out.audio"),
        "{robot}\n{base}"
    );
    assert!(base.contains("robot runs another graph"), "{base}");
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let folder = folder(1);
    let told = |machine: &str, args: &[&str]| end(start(folder.path(), machine, args), false);
    let mut no_machine = Command::new(env!("CARGO_BIN_EXE_afferent"));
    let output =
        no_machine.current_dir(folder.path()).args(["run", "graph.yaml"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.contains("--machine robot or --machine base"), "{errors}");
    edit(folder.path(), "tcp/127.0.0.1", "tcp/0.0.0.0");
    let errors = told("robot", &[]);
    assert!(errors.contains("not encrypted") && errors.contains("--insecure"), "{errors}");
    let errors = told("base", &["--insecure"]);
    assert!(errors.contains("--at robot=tcp/HOST:PORT"), "{errors}");
    edit(folder.path(), "tcp/0.0.0.0", "quic/0.0.0.0");
    let errors = told("robot", &[]);
    assert!(errors.contains("robot.key") && errors.contains("afferent keys"), "{errors}");
    let errors = told("robot", &["--keys", "nowhere"]);
    assert!(errors.contains("nowhere/ca.pem"), "{errors}");
}
