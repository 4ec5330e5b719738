//! Attention and layer norm, compared with the official runtime with and without XNNPACK.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use crate::{
    bench_target::BenchTarget,
    models::error,
    peer::{self, PeerOption},
    table::{Table, format_number},
    timing,
};

/// Time of attention, fused and decomposed, and of layer norm, on one thread.
///
/// `tools/bench/export_attention.py FOLDER` writes the programs. Each round runs a program with
/// Afferent, with the peer, and with the peer and XNNPACK. The results of Afferent are compared with
/// PyTorch; `error` is the maximum difference divided by the maximum magnitude. The C++ libraries of
/// the official package lack the operators of language models; the peer
/// `tools/bench/official_runtime.py` has them.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Folder with the programs.
    folder: PathBuf,
    #[command(flatten)]
    peer: PeerOption,
    /// Number of rounds; the result is their median.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Calls per round.
    #[arg(long, default_value_t = 50)]
    repeat: usize,
}

/// Maximum accepted error.
const TOLERANCE: f64 = 1e-5;

/// Maximum number of inputs of a program.
const MAX_INPUTS: usize = 3;

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    let columns = [
        "program",
        "afferent us",
        "official us",
        "with XNNPACK us",
        "official / afferent",
        "XNNPACK / afferent",
        "error",
    ];
    let title = format!("attention and layer norm, one thread, {} rounds", options.rounds);
    let mut table = Table::new(title, &columns);
    let entries = fs::read_dir(&options.folder);
    let entries = entries.with_context(|| format!("cannot read {}", options.folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_suffix("_output.npy").map(str::to_owned));
    }
    names.sort_unstable();
    ensure!(!names.is_empty(), "{} contains no program", options.folder.display());
    for name in &names {
        table.row(measure(name, options).with_context(|| format!("program {name}"))?);
    }
    if options.peer.program.is_none() {
        table.note(peer::SKIPPED);
    }
    Ok(vec![table])
}

fn measure(name: &str, options: &Options) -> Result<[String; 7]> {
    let path = |suffix: &str| options.folder.join(format!("{name}{suffix}"));
    let inputs = (0..MAX_INPUTS).map(|at| path(&format!("_{at}.npy")));
    let inputs: Vec<PathBuf> = inputs.filter(|input| input.exists()).collect();
    let mut target = BenchTarget::with_inputs(1, &path(".pte"), &inputs)?;
    let error = error(&mut target, &path("_output.npy"))?;
    ensure!(error <= TOLERANCE, "the error relative to PyTorch is {error:e}");
    let (mut own, mut plain, mut delegated) = (vec![], vec![], vec![]);
    for _ in 0..options.rounds {
        target.call(options.repeat / 10 + 1)?;
        own.push(timing::median(timing::each(options.repeat, || target.call(1))?));
        let Some(program) = options.peer.program.as_deref() else { continue };
        let time = |model: &Path| peer::median_us(program, model, &inputs, options.repeat);
        plain.push(time(&path(".pte"))?);
        if path("_xnnpack.pte").exists() {
            delegated.push(time(&path("_xnnpack.pte"))?);
        }
    }
    let ratio = |peer: &[f64]| {
        let ratios = peer.iter().zip(&own).map(|(peer, own)| peer / own);
        format_number(timing::median(ratios.collect()))
    };
    let ratios = [ratio(&plain), ratio(&delegated)];
    let us = |times: Vec<f64>| format_number(timing::median(times));
    let [plain_ratio, delegated_ratio] = ratios;
    let error = format!("{error:.1e}");
    let name = name.to_owned();
    Ok([name, us(own), us(plain), us(delegated), plain_ratio, delegated_ratio, error])
}
