//! Other frameworks, in the program of `tools/bench/peers`.

use std::{path::Path, process::Command, time::Duration};

use anyhow::{Context, Result, ensure};

use crate::hop::{BATCH, fused::HOPS};

/// Nanoseconds of a hop in each batch of cycles of a source, ten tasks and a sink.
pub(super) fn copper(program: &Path, batches: usize) -> Result<Vec<f64>> {
    let times = times(program, &["copper", &batches.to_string(), &BATCH.to_string()])?;
    Ok(times.into_iter().map(|time| time / (BATCH * HOPS) as f64).collect())
}

/// Nanoseconds from thread to thread of packets of so many bytes, the receiver asleep.
pub(super) fn iceoryx(
    program: &Path,
    packets: usize,
    bytes: usize,
    gap: Duration,
) -> Result<Vec<f64>> {
    let words = [packets.to_string(), bytes.to_string(), gap.as_micros().to_string()];
    times(program, &["iceoryx2", &words[0], &words[1], &words[2]])
}

/// Nanoseconds from process to process of packets of so many bytes, the receiver asleep.
pub(super) fn dora(python: &Path, packets: usize, bytes: usize, gap: Duration) -> Result<Vec<f64>> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/dora_hop.py");
    let words = [packets.to_string(), bytes.to_string(), gap.as_micros().to_string()];
    times(python, &[script, &words[0], &words[1], &words[2]])
}

/// The list of nanoseconds that the program prints.
fn times(program: &Path, words: &[&str]) -> Result<Vec<f64>> {
    let output = Command::new(program).args(words).output();
    let output = output.with_context(|| format!("cannot start {}", program.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} {}: {said}", program.display(), words.join(" "));
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("{} {} printed no list", program.display(), words.join(" ")))
}
