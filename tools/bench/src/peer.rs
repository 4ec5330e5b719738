//! The official ExecuTorch runtime, through a small program that runs one method of a `.pte` file
//! and prints how long its calls took.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process;

/// How to find the peer.
#[derive(Debug, clap::Args)]
pub(crate) struct PeerOption {
    /// The official runtime to compare with: a program that takes
    /// `MODEL.pte [--input X.npy]... --repeat N --warmup N --threads N`, runs the method `forward`
    /// and prints a JSON object with `median_us`, the median time of one call with two clock
    /// reads, in microseconds, and `load_ms`, the time of loading in milliseconds.
    #[arg(long = "peer", value_name = "PROGRAM")]
    pub(crate) program: Option<PathBuf>,
}

/// What a table says when there is no peer.
pub(crate) const SKIPPED: &str = "peer: skipped (pass --peer PROGRAM)";

/// The command that runs `model` with `inputs`, on one thread.
pub(crate) fn command(
    program: &Path,
    model: &Path,
    inputs: &[PathBuf],
    repeat: usize,
    warmup: usize,
) -> Vec<String> {
    command_on(1, program, model, inputs, (repeat, warmup))
}

/// The same, on so many threads, with the calls that count and those before them.
pub(crate) fn command_on(
    threads: usize,
    program: &Path,
    model: &Path,
    inputs: &[PathBuf],
    (repeat, warmup): (usize, usize),
) -> Vec<String> {
    let mut words = vec![program.display().to_string(), model.display().to_string()];
    words.extend(inputs.iter().flat_map(|path| ["--input".to_owned(), path.display().to_string()]));
    for (name, count) in [("--repeat", repeat), ("--warmup", warmup), ("--threads", threads)] {
        words.extend([name.to_owned(), count.to_string()]);
    }
    words
}

/// The median time of `repeat` calls, in microseconds.
pub(crate) fn median_us(
    program: &Path,
    model: &Path,
    inputs: &[PathBuf],
    repeat: usize,
) -> Result<f64> {
    figure(&command(program, model, inputs, repeat, repeat / 10 + 1), "median_us")
}

/// The figure called `name` that the command `words` prints.
pub(crate) fn figure(words: &[String], name: &str) -> Result<f64> {
    let output = Command::new(&words[0]).args(&words[1..]).output();
    printed(words, &output.with_context(|| format!("cannot start {}", words[0]))?, name)
}

/// The same, and the most memory that the process was seen to have resident, in MiB. It is looked
/// at while it runs: no times should be taken from it.
pub(crate) fn figure_and_peak(words: &[String], name: &str) -> Result<(f64, f64)> {
    let mut child = Command::new(&words[0])
        .args(&words[1..])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", words[0]))?;
    let mut peak = 0;
    while child.try_wait()?.is_none() {
        peak = peak.max(process::peak_bytes(child.id()).unwrap_or(0));
        thread::sleep(Duration::from_millis(1));
    }
    let figure = printed(words, &child.wait_with_output()?, name)?;
    Ok((figure, peak as f64 / f64::from(1 << 20)))
}

fn printed(words: &[String], output: &Output, name: &str) -> Result<f64> {
    if !output.status.success() {
        bail!("{}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    let figures: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("{} printed no JSON", words[0]))?;
    let figure = figures[name].as_f64();
    figure.with_context(|| format!("{} printed no {name}", words[0]))
}
