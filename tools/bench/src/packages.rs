//! Shipped models on portable kernels, compared with the official runtime.

use std::{
    fs,
    path::{Path, PathBuf},
};

use afferent_package::{ModelPackage, Variant};
use anyhow::{Context, Result, ensure};

use crate::{
    bench_target::BenchTarget,
    peer::{self, PeerOption},
    table::{Table, format_number},
};

/// Latency of the shipped models on portable kernels.
///
/// Runs the portable variant of each package on inputs of zeros, in rounds that alternate with the
/// peer, which runs the same file on its own portable kernels. A package without a portable variant
/// is reported as skipped. `real time` is the time of a call divided by the duration of the audio
/// that a call consumes.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    peer: PeerOption,
    /// Folder with the packages.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/models"))]
    models: PathBuf,
    /// Number of rounds; the result is their median.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Calls per round.
    #[arg(long, default_value_t = 200)]
    repeat: usize,
}

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    let folders = fs::read_dir(&options.models);
    let folders = folders.with_context(|| format!("cannot read {}", options.models.display()))?;
    let mut folders: Vec<PathBuf> = folders
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .filter(|path| path.is_dir())
        .collect();
    folders.sort_unstable();
    ensure!(!folders.is_empty(), "{} contains no package", options.models.display());

    let title = format!("call of each package, portable kernels, {} rounds", options.rounds);
    let columns =
        ["model", "afferent µs", "official µs", "afferent / official", "audio ms", "real time"];
    let mut table = Table::new(title, &columns);
    for folder in &folders {
        let cells = measure(folder, options);
        match cells.with_context(|| format!("package {}", folder.display()))? {
            Some(cells) => table.row(cells),
            None => table.note(format!("skipped: {} has no portable variant", folder.display())),
        }
    }
    if options.peer.program.is_none() {
        table.note(peer::SKIPPED);
    }
    Ok(vec![table])
}

/// `None` if the package has no portable variant.
fn measure(folder: &Path, options: &Options) -> Result<Option<[String; 6]>> {
    let package = ModelPackage::open(folder)?;
    let mut variants = package.manifest.variants.iter();
    let Some(variant) = variants.find(|variant| variant.backend == Variant::PORTABLE) else {
        return Ok(None);
    };
    let mut target = BenchTarget::open(&folder.join(&variant.file))?;
    let times = target.times(options.peer.program.as_deref(), options.rounds, options.repeat)?;
    let (clocked, ratio) =
        times.peer.map_or((f64::NAN, f64::NAN), |peer| (peer.clocked, peer.ratio));
    let audio = audio_ms(&target);
    Ok(Some([
        package.manifest.name.clone(),
        format_number(times.clocked),
        format_number(clocked),
        format_number(ratio),
        format_number(audio),
        format_number(times.clocked / 1e3 / audio),
    ]))
}

/// Duration of the audio that one call consumes in milliseconds, from the metadata of the program:
/// samples of a hop or a window, or feature frames of 10 ms.
fn audio_ms(target: &BenchTarget) -> f64 {
    const FRAME_MS: f64 = 10.0;
    let file = target.model.file();
    let int = |name: &str| file.metadata_int(name).map(|value| value as f64);
    let samples = int("hop_size").or_else(|| int("window_size"));
    let by_rate = samples.zip(int("sample_rate")).map(|(samples, rate)| 1e3 * samples / rate);
    let frames = int("window_frames").map(|frames| frames * FRAME_MS);
    by_rate.or(frames).unwrap_or(f64::NAN)
}
