//! Attention and layer norm, against the official runtime with and without XNNPACK.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use crate::{
    models::error,
    peer::{self, PeerOption},
    subject::Subject,
    table::{Table, figure},
    timing,
};

/// Time of attention, as one operator and taken apart, and of layer norm, one thread.
///
/// `tools/bench/export_attention.py FOLDER` makes the programs. Each round calls a program here, by
/// the peer, and by the peer with what XNNPACK takes of it. The result of a call here is compared
/// with that of PyTorch; `error` is the greatest difference by the greatest magnitude. The
/// C++ libraries of the official package lack the operators of language models; the peer
/// `tools/bench/official_runtime.py` has them.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Folder with the programs.
    folder: PathBuf,
    #[command(flatten)]
    peer: PeerOption,
    /// Rounds, of which the median is taken.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Calls in a round.
    #[arg(long, default_value_t = 50)]
    repeat: usize,
}

/// The greatest error that passes.
const TOLERANCE: f64 = 1e-5;

/// The most inputs that a program has.
const INPUTS: usize = 3;

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
    ensure!(!names.is_empty(), "{} holds no program", options.folder.display());
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
    let inputs = (0..INPUTS).map(|at| path(&format!("_{at}.npy")));
    let inputs: Vec<PathBuf> = inputs.filter(|input| input.exists()).collect();
    let mut subject = Subject::with_inputs(1, &path(".pte"), &inputs)?;
    let error = error(&mut subject, &path("_output.npy"))?;
    ensure!(error <= TOLERANCE, "the result is {error:e} away from that of PyTorch");
    let (mut own, mut plain, mut delegated) = (vec![], vec![], vec![]);
    for _ in 0..options.rounds {
        subject.call(options.repeat / 10 + 1)?;
        own.push(timing::median(timing::each(options.repeat, || subject.call(1))?));
        let Some(program) = options.peer.program.as_deref() else { continue };
        let time = |model: &Path| peer::median_us(program, model, &inputs, options.repeat);
        plain.push(time(&path(".pte"))?);
        if path("_xnnpack.pte").exists() {
            delegated.push(time(&path("_xnnpack.pte"))?);
        }
    }
    let ratio = |peer: &[f64]| {
        let ratios = peer.iter().zip(&own).map(|(peer, own)| peer / own);
        figure(timing::median(ratios.collect()))
    };
    let ratios = [ratio(&plain), ratio(&delegated)];
    let us = |times: Vec<f64>| figure(timing::median(times));
    let [plain_ratio, delegated_ratio] = ratios;
    let error = format!("{error:.1e}");
    let name = name.to_owned();
    Ok([name, us(own), us(plain), us(delegated), plain_ratio, delegated_ratio, error])
}
