//! Exported models with and without XNNPACK, against the official runtime with the same files.

use std::{
    fs,
    path::{Path, PathBuf},
};

use afferent_runtime::Input;
use anyhow::{Context, Result, ensure};

use crate::{
    peer::{self, PeerOption},
    subject::{self, Subject},
    table::{Table, figure},
    timing,
};

/// Time of a call of image models without and with delegate, one thread.
///
/// `tools/bench/export_models.py FOLDER` makes the models. Each round calls a model here, without
/// delegate and delegated to XNNPACK, and by the peer, delegated and with its portable kernels.
/// The results of calls here are compared with that of PyTorch; `error` is the greatest difference
/// by the greatest magnitude.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Folder with the models.
    folder: PathBuf,
    #[command(flatten)]
    peer: PeerOption,
    /// Rounds, of which the median is taken.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Calls in a round, here and with XNNPACK; portable kernels of the peer are called once.
    #[arg(long, default_value_t = 20)]
    repeat: usize,
    /// Leave out what is not delegated.
    #[arg(long)]
    delegated: bool,
}

/// The greatest error that passes.
const TOLERANCE: f64 = 1e-4;

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    let columns = [
        "model",
        "afferent ms",
        "official portable ms",
        "afferent XNNPACK ms",
        "official XNNPACK ms",
        "ours / official, portable",
        "ours / official, XNNPACK",
        "error",
        "error, XNNPACK",
    ];
    let title = format!("models, one thread, medians of {} rounds", options.rounds);
    let mut table = Table::new(title, &columns);
    let entries = fs::read_dir(&options.folder);
    let entries = entries.with_context(|| format!("cannot read {}", options.folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_suffix("_xnnpack.pte").map(str::to_owned));
    }
    names.sort_unstable();
    ensure!(!names.is_empty(), "{} holds no model", options.folder.display());
    for name in &names {
        table.row(measure(name, options).with_context(|| format!("model {name}"))?);
    }
    if options.peer.program.is_none() {
        table.note(peer::SKIPPED);
    }
    Ok(vec![table])
}

fn measure(name: &str, options: &Options) -> Result<[String; 9]> {
    let path = |suffix: &str| options.folder.join(format!("{name}{suffix}"));
    let inputs = [path("_input.npy")];
    let (expected, file) = (path("_output.npy"), path("_xnnpack.pte"));
    let open = |path: &Path| -> Result<(Subject, f64)> {
        let mut subject = Subject::with_inputs(path, &inputs)?;
        let error = error(&mut subject, &expected)?;
        ensure!(error <= TOLERANCE, "the result is {error:e} away from that of PyTorch");
        Ok((subject, error))
    };
    let mut plain = if options.delegated { None } else { Some(open(&path(".pte"))?) };
    let (mut delegated, delegated_error) = open(&file)?;
    let mut own = [vec![], vec![]];
    let mut official = [vec![], vec![]];
    let repeat = options.repeat;
    for _ in 0..options.rounds {
        if let Some((subject, _)) = &mut plain {
            subject.call(1)?;
            own[0].push(timing::median(timing::each(repeat, || subject.call(1))?));
        }
        delegated.call(1)?;
        own[1].push(timing::median(timing::each(repeat, || delegated.call(1))?));
        if let Some(program) = options.peer.program.as_deref() {
            if plain.is_some() {
                official[0].push(peer::median_us(program, &path(".pte"), &inputs, 1)?);
            }
            official[1].push(peer::median_us(program, &file, &inputs, repeat)?);
        }
    }
    let ratio = |own: &[f64], peer: &[f64]| {
        figure(timing::median(own.iter().zip(peer).map(|(own, peer)| own / peer).collect()))
    };
    let ratios = [ratio(&own[0], &official[0]), ratio(&own[1], &official[1])];
    let ms = |times: Vec<f64>| figure(timing::median(times) / 1e3);
    let ([plain_ms, own_ms], [portable_ms, official_ms]) = (own.map(ms), official.map(ms));
    let [portable_ratio, delegated_ratio] = ratios;
    Ok([
        name.to_owned(),
        plain_ms,
        portable_ms,
        own_ms,
        official_ms,
        portable_ratio,
        delegated_ratio,
        plain.map_or_else(String::new, |(_, error)| format!("{error:.1e}")),
        format!("{delegated_error:.1e}"),
    ])
}

/// The greatest difference between the first result and that of PyTorch, by the greatest magnitude.
pub(crate) fn error(subject: &mut Subject, expected: &Path) -> Result<f64> {
    let expected = subject::read_npy(expected)?;
    let inputs: Vec<_> = subject.inputs.iter().map(|input| Input::Tensor(input.view())).collect();
    let outputs = subject.model.run("forward", &inputs)?;
    let found = outputs.tensor(0)?;
    let found = found.data::<f32>()?;
    ensure!(found.len() == expected.len(), "the result has another size than that of PyTorch");
    let pairs = found.iter().zip(&expected);
    let difference = pairs.map(|(a, b)| f64::from((a - b).abs())).fold(0.0, f64::max);
    let magnitude = expected.iter().map(|x| f64::from(x.abs())).fold(0.0, f64::max);
    ensure!(found.iter().all(|x| x.is_finite()), "the result is not finite");
    Ok(difference / magnitude)
}
