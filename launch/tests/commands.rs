//! Commands as a user calls them: what they print and write, and their exit status.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Output, Stdio},
};

use afferent_engine::Report;
use hound::{WavSpec, WavWriter};
use mcap::{read::LinearReader, records::Record};
use serde_json::json;

const TOP: &str = r#"afferent: 1
params: {block: 20ms}
nodes:
  ears: {graph: parts/ears.yaml, params: {block: "${block}", pace: "${env:AFFERENT_TEST_PACE:-max}"}}
  even: {use: agc, in: ears}
  log: {use: event_log, in: even, params: {path: log.txt}}
budget: {from: ears.audio, to: log.events, max: 1h}
profiles:
  strict: {budget: {from: ears/wav.audio, to: log.events, p50: 1ns}}
"#;

const EARS: &str = r#"afferent: 1
params: {block: ~, pace: ~}
outputs: {audio: wav.audio}
nodes:
  wav: {use: wav_source, params: {path: sound.wav, block: "${block}", pace: "${pace}"}}
"#;

/// Writes 100 ms of silence at 16 kHz.
fn write_sound(path: &Path) {
    let format = hound::SampleFormat::Int;
    let spec =
        WavSpec { channels: 1, sample_rate: 16_000, bits_per_sample: 16, sample_format: format };
    let mut file = WavWriter::create(path, spec).unwrap();
    (0..1600).for_each(|_| file.write_sample(0i16).unwrap());
    file.finalize().unwrap();
}

/// A folder with a graph, its part, and the sound that it reads.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("parts")).unwrap();
    fs::write(folder.path().join("top.yaml"), TOP).unwrap();
    fs::write(folder.path().join("parts/ears.yaml"), EARS).unwrap();
    write_sound(&folder.path().join("parts/sound.wav"));
    folder
}

fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_afferent"));
    command.current_dir(folder).args(args);
    command
}

/// What the command prints to standard output and error, and whether it succeeds.
fn call(folder: &Path, args: &[&str]) -> (String, String, bool) {
    let Output { status, stdout, stderr } = command(folder, args).output().unwrap();
    (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap(), status.success())
}

#[test]
fn check_shows_the_pools() {
    let folder = folder();
    let (text, errors, success) = call(folder.path(), &["check", "top.yaml"]);
    assert!(success, "{errors}");
    let rows = text.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
    let rows: Vec<_> = rows.skip_while(|row| *row != ["pool", "payload", "values"]).collect();
    let [_, wav, even] = rows.as_slice() else { panic!("{text}") };
    for (row, name) in [(wav, "ears/wav.audio"), (even, "even.audio")] {
        assert_eq!((row[0], row[1]), (name, "audio/Block"));
        assert!(row[2].parse::<usize>().unwrap() > 2, "{text}");
    }
}

#[test]
fn figures_are_written() {
    let folder = folder();
    let args = ["run", "top.yaml", "--virtual", "--enforce-budget", "--stats", "stats.json"];
    let (_, errors, success) = call(folder.path(), &args);
    assert!(success, "{errors}");
    let stats = fs::read_to_string(folder.path().join("stats.json")).unwrap();
    let report: Report = serde_json::from_str(&stats).unwrap();
    let nodes = report.nodes.iter().map(|node| (node.name.as_str(), node.packets_out));
    assert_eq!(nodes.collect::<Vec<_>>(), [("ears/wav", 5), ("even", 5), ("log", 0)]);
    assert_eq!((report.budgets[0].measured, report.budgets[0].kept), (5, true));
}

#[test]
fn a_budget_that_is_not_kept_fails() {
    let folder = folder();
    let strict = ["run", "top.yaml", "--virtual", "--profile", "strict"];
    assert!(call(folder.path(), &strict).2, "only where it is asked for");
    let (_, errors, success) = call(folder.path(), &[&strict[..], &["--enforce-budget"]].concat());
    let expected = "error: the budget from ears/wav.audio to log.events was not kept\n";
    assert!(!success && errors.contains(expected), "{errors}");
}

#[test]
fn a_recording_says_all_that_the_graph_was() {
    let folder = folder();
    let set = ["--set", "ears/wav.channels=mono", "--set", "block=50ms"];
    let args = ["run", "top.yaml", "--virtual", "--record", "run.mcap", "--profile", "strict"];
    let mut run = command(folder.path(), &[&args[..], &set[..]].concat());
    let output = run.env("AFFERENT_TEST_PACE", "realtime").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut attached = BTreeMap::new();
    for record in LinearReader::new(&fs::read(folder.path().join("run.mcap")).unwrap()).unwrap() {
        if let Record::Attachment { header, data, .. } = record.unwrap() {
            attached.insert(header.name, String::from_utf8(data.into_owned()).unwrap());
        }
    }
    let values = attached.remove("values.json").unwrap();
    let files = [("parts/ears.yaml", EARS), ("top.yaml", TOP)];
    let files = files.map(|(name, text)| (name.to_owned(), text.to_owned()));
    assert_eq!(attached, BTreeMap::from(files));
    let values: serde_json::Value = serde_json::from_str(&values).unwrap();
    let expected = json!({
        "profile": "strict",
        "set": ["ears/wav.channels=mono", "block=50ms"],
        "params": {"block": "50ms"},
        "environment": {"AFFERENT_TEST_PACE": "realtime"},
    });
    assert_eq!(values, expected);
    let (text, errors, success) =
        call(folder.path(), &["replay", "run.mcap", "top.yaml", "--check"]);
    assert!(success && text.contains("as recorded"), "{text}{errors}");
}

#[test]
fn a_running_graph_is_looked_at() {
    let folder = folder();
    let args = [
        "run",
        "top.yaml",
        "--serve",
        "127.0.0.1:0",
        "--set",
        "ears/wav.repeat=true",
        "--duration",
        "1min",
    ];
    let mut run = command(folder.path(), &args);
    run.env("AFFERENT_TEST_PACE", "realtime").stderr(Stdio::piped());
    let mut run = run.spawn().unwrap();
    let lines = BufReader::new(run.stderr.take().unwrap()).lines();
    let address = lines.map_while(Result::ok).find_map(|line| {
        let (_, address) = line.split_once("for `afferent top ")?;
        Some(address.trim_end_matches('`').to_owned())
    });
    let (text, errors, success) = call(folder.path(), &["top", &address.unwrap(), "--once"]);
    run.kill().unwrap();
    run.wait().unwrap();
    assert!(success, "{errors}");
    assert!(text.starts_with("top") && text.contains("ears/wav"), "{text}");
    let (_, errors, success) = call(folder.path(), &["top", "127.0.0.1:9", "--once"]);
    assert!(!success && errors.contains("no figures at 127.0.0.1:9"), "{errors}");
}
