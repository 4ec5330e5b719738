//! Start time and size of `afferent` with the GPU in it, for graphs and programs that do not use it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use afferent_runtime::{Model, ModelFile, ModelOptions};
use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::{
    bench_target, callgrind, process,
    table::{Table, format_number},
    timing::median,
};

/// Start of `afferent` built without and with the feature `vulkan`.
///
/// Runs a graph of two nodes on the virtual clock and a portable program of one operator, in turn with
/// both binaries. Neither uses the GPU, so the feature must cost nothing: the Vulkan loader is opened for
/// the first program or node that needs it. Times are medians of whole processes; the peak of resident
/// memory is polled in runs of its own; instructions need valgrind. Fails if time, instructions or
/// memory grow by more than `--limit` percent.
///
/// Build both with `cargo build --release -p afferent` and `--features vulkan`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Program without the feature.
    #[arg(long, value_name = "PATH")]
    without: PathBuf,
    /// Program with the feature.
    #[arg(long, value_name = "PATH")]
    with: PathBuf,
    /// Number of timed runs of each.
    #[arg(long, default_value_t = 41)]
    rounds: usize,
    /// Largest growth in percent.
    #[arg(long, default_value_t = 3.0)]
    limit: f64,
}

/// Runs in which memory is polled.
const POLLED: usize = 9;

/// Figures of one binary.
#[derive(Default)]
struct Figures {
    milliseconds: Vec<f64>,
    megabytes: Vec<f64>,
    /// In millions; `None` without valgrind.
    instructions: Option<f64>,
}

pub(crate) fn run(options: &Options) -> Result<(Vec<Table>, Result<()>)> {
    let folder = TempDir::with_prefix("afferent-bench-")?;
    let columns = ["run", "binary", "ms", "million instructions", "peak MB", "binary MB"];
    let mut table = Table::new("Start without a use of the GPU", &columns);
    let mut grown = vec![];
    let binaries = [("without", &options.without), ("with", &options.with)];
    for (name, arguments) in
        [("graph", graph(folder.path())?), ("program", program(folder.path())?)]
    {
        let [without, with] =
            measure(binaries.map(|(_, path)| path.as_path()), &arguments, options.rounds)?;
        for ((binary, path), figures) in binaries.into_iter().zip([&without, &with]) {
            table.row([
                name.to_owned(),
                binary.to_owned(),
                format_number(median(figures.milliseconds.clone())),
                figures.instructions.map_or_else(|| "-".to_owned(), format_number),
                format_number(median(figures.megabytes.clone())),
                format_number(fs::metadata(path)?.len() as f64 / 1e6),
            ]);
        }
        let pairs = [
            ("time", Some(median(without.milliseconds)), Some(median(with.milliseconds))),
            ("memory", Some(median(without.megabytes)), Some(median(with.megabytes))),
            ("instructions", without.instructions, with.instructions),
        ];
        for (what, before, after) in pairs {
            let (Some(before), Some(after)) = (before, after) else {
                table.note(format!("{name}: {what} skipped (install valgrind)"));
                continue;
            };
            let percent = 100.0 * (after / before - 1.0);
            table.note(format!("{name}: {what} {percent:+.1} %"));
            if percent > options.limit {
                grown.push(format!("{name}: {what} {percent:+.1} %"));
            }
        }
    }
    let verdict = match grown.is_empty() {
        true => Ok(()),
        false => Err(anyhow::anyhow!("more than {} %: {}", options.limit, grown.join(", "))),
    };
    Ok((vec![table], verdict))
}

/// Arguments that run a graph of two nodes.
fn graph(folder: &Path) -> Result<Vec<String>> {
    let assets =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pipelines/assets").canonicalize()?;
    let sound = assets.join("memory_question.wav");
    let text = format!(
        "afferent: 1\nname: start\nnodes:\n  sound: {{use: wav_source, params: {{path: {}}}}}\n  \
         half: {{use: resample, in: sound.audio, params: {{rate: 8000}}}}\n",
        sound.display()
    );
    let path = folder.join("start.yaml");
    fs::write(&path, text)?;
    Ok(vec!["run".into(), path.display().to_string(), "--virtual".into()])
}

/// Arguments that run a portable program of one operator.
fn program(folder: &Path) -> Result<Vec<String>> {
    let path = afferent_tests_hostile::seeds::programs().join("add/model.pte");
    let model =
        Model::new(ModelFile::open(&path, &[])?, ModelOptions::new(afferent_kernels::KERNELS));
    let inputs = bench_target::write(&bench_target::zeros(&model)?, folder)?;
    let mut arguments = vec!["model".into(), "run".into(), path.display().to_string()];
    arguments
        .extend(inputs.iter().flat_map(|input| ["--input".into(), input.display().to_string()]));
    Ok(arguments)
}

fn measure(binaries: [&Path; 2], arguments: &[String], rounds: usize) -> Result<[Figures; 2]> {
    let mut figures = [Figures::default(), Figures::default()];
    for round in 0..=rounds {
        for (binary, figures) in binaries.iter().zip(&mut figures) {
            let start = Instant::now();
            let status = command(binary, arguments).status();
            let milliseconds = start.elapsed().as_secs_f64() * 1e3;
            let status = status.with_context(|| binary.display().to_string())?;
            ensure!(status.success(), "{} {}: {status}", binary.display(), arguments.join(" "));
            // The first run of each fills the page cache.
            if round > 0 {
                figures.milliseconds.push(milliseconds);
            }
        }
    }
    for _ in 0..POLLED {
        for (binary, figures) in binaries.iter().zip(&mut figures) {
            figures.megabytes.push(peak_megabytes(binary, arguments)?);
        }
    }
    for (binary, figures) in binaries.iter().zip(&mut figures) {
        let words: Vec<String> =
            [binary.display().to_string()].into_iter().chain(arguments.iter().cloned()).collect();
        figures.instructions = callgrind::instructions(&words).ok().map(|count| count / 1e6);
    }
    Ok(figures)
}

fn command(binary: &Path, arguments: &[String]) -> Command {
    let mut command = Command::new(binary);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Peak of resident memory, polled until the process ends.
fn peak_megabytes(binary: &Path, arguments: &[String]) -> Result<f64> {
    let mut child = command(binary, arguments).spawn()?;
    Ok(process::poll_peak(&mut child, Duration::from_micros(50))? as f64 / 1e6)
}
