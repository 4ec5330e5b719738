//! Other frameworks, run by the program of `tools/bench/peers`.

use std::{path::Path, process::Command, time::Duration};

use anyhow::{Context, Result, ensure};

use crate::hop::{BATCH_PACKETS, fused::HOPS};

/// Time of a hop in copper for each batch of cycles, in nanoseconds.
pub(super) fn copper(program: &Path, batches: usize) -> Result<Vec<f64>> {
    let times = times(program, &["copper", &batches.to_string(), &BATCH_PACKETS.to_string()])?;
    Ok(times.into_iter().map(|time| time / (BATCH_PACKETS * HOPS) as f64).collect())
}

/// Latency in iceoryx2 between threads with a sleeping receiver, in nanoseconds per packet.
pub(super) fn iceoryx(
    program: &Path,
    packets: usize,
    bytes: usize,
    gap: Duration,
) -> Result<Vec<f64>> {
    let args = [packets.to_string(), bytes.to_string(), gap.as_micros().to_string()];
    times(program, &["iceoryx2", &args[0], &args[1], &args[2]])
}

/// Latency in dora between processes with a sleeping receiver, in nanoseconds per packet.
pub(super) fn dora(python: &Path, packets: usize, bytes: usize, gap: Duration) -> Result<Vec<f64>> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/dora_hop.py");
    let args = [packets.to_string(), bytes.to_string(), gap.as_micros().to_string()];
    times(python, &[script, &args[0], &args[1], &args[2]])
}

/// Runs the program and parses the list of times that it prints, in nanoseconds.
fn times(program: &Path, args: &[&str]) -> Result<Vec<f64>> {
    let output = Command::new(program).args(args).output();
    let output = output.with_context(|| format!("cannot start {}", program.display()))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} {}: {stderr}", program.display(), args.join(" "));
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("{} {} printed no list", program.display(), args.join(" ")))
}
