//! The commands of the README, and what users try after them.

use std::{fmt::Debug, fs};

use anyhow::{Context, Result, ensure};

use crate::command::{capture, cargo, program, root};

/// Runs the first command of the README, a broken graph, commands that need a feature, and a recording with its
/// replay.
pub(crate) fn check() -> Result<()> {
    first_command()?;
    broken_graph()?;
    missing_features()?;
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

/// A build with the default features names the feature that a command or a node needs. The tests run with
/// all features.
fn missing_features() -> Result<()> {
    let live = "check pipelines/voice_agent.yaml --profile live";
    for (command, feature) in [
        ("keys launch/kits/glasses_and_phone.yaml", "net"),
        ("check pipelines/ros2/speech.yaml", "ros2"),
        (live, "audio-device"),
    ] {
        let mut cargo = cargo(&format!("run --release --locked -- {command}"));
        let (is_success, output) = capture(cargo.env("ROUTER", "tcp/localhost:7447"))?;
        expect("success without the feature", is_success, false)?;
        expect(feature, output.contains(&format!("--features {feature}")), true)?;
    }
    Ok(())
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
