//! Exported models without delegate, against the official runtime with and without XNNPACK.

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

/// Time of a call of image models without delegate, one thread.
///
/// `tools/bench/export_models.py FOLDER` makes the models. Each round calls a model here, by the
/// peer with its portable kernels, and by the peer with the same model delegated to XNNPACK. The
/// result of a call here is compared with that of PyTorch; `error` is the greatest difference by
/// the greatest magnitude.
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
}

/// The greatest error that passes.
const TOLERANCE: f64 = 1e-4;

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    let columns = [
        "model",
        "afferent ms",
        "official portable ms",
        "official XNNPACK ms",
        "portable / afferent",
        "XNNPACK / afferent",
        "error",
    ];
    let title = format!("models without delegate, one thread, {} rounds", options.rounds);
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

fn measure(name: &str, options: &Options) -> Result<[String; 7]> {
    let path = |suffix: &str| options.folder.join(format!("{name}{suffix}"));
    let inputs = [path("_input.npy")];
    let mut subject = Subject::with_inputs(&path(".pte"), &inputs)?;
    let error = error(&mut subject, &path("_output.npy"))?;
    ensure!(error <= TOLERANCE, "the result is {error:e} away from that of PyTorch");
    let (mut own, mut portable, mut delegated) = (vec![], vec![], vec![]);
    for _ in 0..options.rounds {
        subject.call(1)?;
        own.push(timing::median(timing::each(options.repeat, || subject.call(1))?));
        if let Some(program) = options.peer.program.as_deref() {
            portable.push(peer::median_us(program, &path(".pte"), &inputs, 1)?);
            let model = path("_xnnpack.pte");
            delegated.push(peer::median_us(program, &model, &inputs, options.repeat)?);
        }
    }
    let ratio = |peer: &[f64]| {
        let ratios = peer.iter().zip(&own).map(|(peer, own)| peer / own);
        figure(timing::median(ratios.collect()))
    };
    let ratios = [ratio(&portable), ratio(&delegated)];
    let ms = |times: Vec<f64>| figure(timing::median(times) / 1e3);
    let [portable_ratio, delegated_ratio] = ratios;
    Ok([
        name.to_owned(),
        ms(own),
        ms(portable),
        ms(delegated),
        portable_ratio,
        delegated_ratio,
        format!("{error:.1e}"),
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
