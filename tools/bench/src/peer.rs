//! The official ExecuTorch runtime, run by a small program that measures one method of a `.pte`
//! file.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process;

/// Option that selects the peer program.
#[derive(Debug, clap::Args)]
pub(crate) struct PeerOption {
    /// Program that runs the official runtime. It takes `MODEL.pte [--input X.npy]... --repeat N
    /// --warmup N --threads N`, runs the method `forward`, and prints a JSON object: `median_us` is
    /// the median time of one call including two clock reads, in microseconds, and `load_ms` the
    /// loading time in milliseconds.
    #[arg(long = "peer", value_name = "PROGRAM")]
    pub(crate) program: Option<PathBuf>,
}

/// Note of a table without a peer.
pub(crate) const SKIPPED: &str = "peer: skipped (pass --peer PROGRAM)";

/// Command line that runs `model` with `inputs` on one thread.
pub(crate) fn command(
    program: &Path,
    model: &Path,
    inputs: &[PathBuf],
    repeat: usize,
    warmup: usize,
) -> Vec<String> {
    command_on(1, program, model, inputs, (repeat, warmup))
}

/// As [`command`], on `threads` threads, with the numbers of measured calls and warm-up calls.
pub(crate) fn command_on(
    threads: usize,
    program: &Path,
    model: &Path,
    inputs: &[PathBuf],
    (repeat, warmup): (usize, usize),
) -> Vec<String> {
    let mut command = vec![program.display().to_string(), model.display().to_string()];
    command
        .extend(inputs.iter().flat_map(|path| ["--input".to_owned(), path.display().to_string()]));
    for (name, count) in [("--repeat", repeat), ("--warmup", warmup), ("--threads", threads)] {
        command.extend([name.to_owned(), count.to_string()]);
    }
    command
}

/// Median time of `repeat` calls, in microseconds.
pub(crate) fn median_us(
    program: &Path,
    model: &Path,
    inputs: &[PathBuf],
    repeat: usize,
) -> Result<f64> {
    read_number(&command(program, model, inputs, repeat, repeat / 10 + 1), "median_us")
}

/// Runs `command` and returns the number `name` of the JSON object that it prints.
pub(crate) fn read_number(command: &[String], name: &str) -> Result<f64> {
    let output = Command::new(&command[0]).args(&command[1..]).output();
    parse_output(command, &output.with_context(|| format!("cannot start {}", command[0]))?, name)
}

/// As [`read_number`], and the peak resident memory of the process in MiB.
///
/// Polling the memory disturbs the process; do not use this function to measure times.
pub(crate) fn read_number_and_peak(command: &[String], name: &str) -> Result<(f64, f64)> {
    let mut child = Command::new(&command[0])
        .args(&command[1..])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", command[0]))?;
    let peak = process::poll_peak(&mut child, Duration::from_millis(1))?;
    let number = parse_output(command, &child.wait_with_output()?, name)?;
    Ok((number, peak as f64 / f64::from(1 << 20)))
}

fn parse_output(command: &[String], output: &Output, name: &str) -> Result<f64> {
    if !output.status.success() {
        bail!("{}: {}", command.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    let object: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("{} printed no JSON", command[0]))?;
    let number = object[name].as_f64();
    number.with_context(|| format!("{} printed no {name}", command[0]))
}
