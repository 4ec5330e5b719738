//! The commands of the README, and what users try after them.

use std::{fmt::Debug, fs};

use anyhow::{Context, Result, ensure};

use crate::command::{capture, cargo, program, root};

/// Runs the first command of the README, a broken graph, and a recording with its replay.
pub(crate) fn check() -> Result<()> {
    first_command()?;
    broken_graph()?;
    record_and_replay()
}

/// The first command as it stands in the README. It detects these keywords and no others.
fn first_command() -> Result<()> {
    let text = fs::read_to_string(root().join("README.md"))?;
    let command = text.lines().find(|line| line.starts_with("cargo run "));
    let command = command.context("README.md has no line `cargo run ...`")?;
    println!("$ {command}");
    let (is_success, output) = capture(program("bash", "-c").arg(command))?;
    expect("exit status of the first command", is_success, true)?;
    let keywords: Vec<_> = output.lines().filter_map(keyword).collect();
    expect("keywords", keywords.join(","), "hey afferent,stop,hey afferent,go".to_owned())
}

/// The keyword of a line `... keyword "stop" ...`.
fn keyword(line: &str) -> Option<&str> {
    line.split_once(" keyword ")?.1.split('"').nth(1)
}

/// A broken graph is refused with all of its faults.
fn broken_graph() -> Result<()> {
    let graph = "tests/pipelines/data/eight_faults.yaml";
    let (is_success, output) =
        capture(&mut cargo(&format!("run --release --locked -- check {graph}")))?;
    expect("success with a broken graph", is_success, false)?;
    expect("faults", output.lines().filter(|line| line.starts_with("error")).count(), 8)
}

/// A replay sends what the recorded run sent, twice.
fn record_and_replay() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (file, graph) = (folder.path().join("run.mcap"), "pipelines/wake_word.yaml");
    let run = format!("run --release --locked -- run {graph} --virtual --record");
    let (is_success, _) = capture(cargo(&run).arg(&file))?;
    expect("success of the recording", is_success, true)?;
    let replay = || -> Result<Vec<String>> {
        let mut command = cargo("run --release --locked -- replay");
        let (_, output) = capture(command.arg(&file).args([graph, "--check"]))?;
        // The streams with their hashes; times differ.
        Ok(output.lines().filter(|line| line.ends_with("as recorded")).map(Into::into).collect())
    };
    let first = replay()?;
    expect("streams as recorded", first.len(), 6)?;
    expect("second replay", replay()?, first)
}

/// Fails unless `found` is as expected.
fn expect<T: PartialEq + Debug>(what: &str, found: T, expected: T) -> Result<()> {
    ensure!(found == expected, "{what}: expected {expected:?}, got {found:?}");
    Ok(())
}
