//! Exported models with and without XNNPACK, compared with the official runtime.

use std::{
    env::current_exe,
    fs,
    path::{Path, PathBuf},
};

use afferent_runtime::Input;
use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::{
    bench_target::{self, BenchTarget},
    callgrind,
    peer::{self, PeerOption},
    table::{Table, format_number},
    timing,
};

/// Latency of models with and without XNNPACK, loading time and memory.
///
/// `tools/bench/export_models.py FOLDER` writes the models. Each round runs a model delegated to
/// XNNPACK, and the same model without a delegate if that file exists, with Afferent and with the
/// peer. Then each side loads the model and runs it once, in new processes. The loading time ends
/// before this call; the peak of memory includes it. For `f32` models, `error` is the maximum
/// difference from PyTorch divided by the maximum magnitude. For `int8` models, `error` is the maximum
/// difference from the peer in quantization steps, and the percentage of elements that differ by more
/// than one step.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Folder with the models.
    folder: PathBuf,
    #[command(flatten)]
    peer: PeerOption,
    /// Number of rounds; the result is their median.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Minimum number of calls per round; fast models run for 0.1 s. The peer runs models with
    /// portable kernels once.
    #[arg(long, default_value_t = 20)]
    repeat: usize,
    /// Number of threads of both sides.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Skip models without a delegate.
    #[arg(long)]
    delegated: bool,
    /// Count the machine instructions of a call with Valgrind as well; takes minutes. Valgrind does
    /// not support AVX-512, so both sides use AVX2.
    #[arg(long)]
    instructions: bool,
    /// Measure only models whose name contains this text.
    #[arg(long, default_value = "")]
    only: String,
}

/// Maximum accepted error of `f32` models.
const TOLERANCE: f64 = 1e-4;

/// Maximum accepted error of `int8` models in quantization steps.
const MAX_STEPS: f64 = 2.0;

/// Maximum accepted fraction of elements that differ by more than one quantization step.
const MAX_FRACTION_OVER_ONE_STEP: f64 = 1e-3;

/// Minimum duration of a round in microseconds.
const MIN_ROUND_US: f64 = 1e5;

/// Two numbers of calls. The difference of their instruction counts excludes startup.
const CALLS: (usize, usize) = (1, 3);

const COUNTED: [&str; 4] =
    ["model", "afferent M instructions", "official M instructions", "afferent / official"];

const DELEGATED: [&str; 9] = [
    "model",
    "afferent ms",
    "official ms",
    "afferent / official",
    "error",
    "load ms",
    "official load ms",
    "peak MiB",
    "official peak MiB",
];

const PLAIN: [&str; 5] = ["model", "afferent ms", "official ms", "afferent / official", "error"];

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    let Options { rounds, threads, .. } = options;
    let title = |what| format!("{what}, {threads} threads, medians of {rounds} rounds");
    let mut delegated = Table::new(title("models with XNNPACK"), &DELEGATED);
    let mut plain = Table::new(title("models with portable kernels"), &PLAIN);
    let title = "machine instructions of a call, models with XNNPACK, one thread, AVX2";
    let mut counted = Table::new(title.to_owned(), &COUNTED);
    let entries = fs::read_dir(&options.folder);
    let entries = entries.with_context(|| format!("cannot read {}", options.folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_suffix("_xnnpack.pte").map(str::to_owned));
    }
    names.retain(|name| name.contains(&options.only));
    names.sort_unstable();
    ensure!(!names.is_empty(), "{} contains no such model", options.folder.display());
    for name in &names {
        let files = Files::new(&options.folder, name);
        let row = files.delegated(options).with_context(|| format!("model {name}"))?;
        delegated.row(row);
        if options.instructions {
            counted.row(files.instructions(options).with_context(|| format!("model {name}"))?);
        }
        if !options.delegated && files.plain.exists() {
            let times = files.times(&files.plain, options, true);
            plain.row(times.with_context(|| format!("model {name}, without delegate"))?);
        }
    }
    if options.peer.program.is_none() {
        delegated.note(peer::SKIPPED);
    }
    let mut tables = vec![delegated];
    tables.extend((!options.delegated).then_some(plain));
    tables.extend(options.instructions.then_some(counted));
    Ok(tables)
}

/// Files of a model.
struct Files<'n> {
    name: &'n str,
    /// Program delegated to XNNPACK.
    program: PathBuf,
    /// Program without a delegate.
    plain: PathBuf,
    inputs: Vec<PathBuf>,
    /// Output of PyTorch.
    expected: PathBuf,
    /// Scale of the last quantization of an `int8` model.
    quantum: PathBuf,
}

impl<'n> Files<'n> {
    fn new(folder: &Path, name: &'n str) -> Self {
        let path = |suffix: &str| folder.join(format!("{name}{suffix}"));
        let more = (1..).map(|at| path(&format!("_input_{at}.npy")));
        let inputs = std::iter::once(path("_input.npy")).chain(more);
        Self {
            name,
            program: path("_xnnpack.pte"),
            plain: path(".pte"),
            inputs: inputs.take_while(|path| path.exists()).collect(),
            expected: path("_output.npy"),
            quantum: path("_quantum.npy"),
        }
    }

    fn delegated(&self, options: &Options) -> Result<Vec<String>> {
        let mut row = self.times(&self.program, options, false)?;
        let own = [&current_exe()?.display().to_string(), "load-once", "--call"];
        let mut own: Vec<String> = own.map(str::to_owned).to_vec();
        own.push(self.program.display().to_string());
        let Options { threads, rounds, .. } = *options;
        let peer =
            options.peer.program.as_deref().map(|program| {
                peer::command_on(threads, program, &self.program, &self.inputs, (1, 0))
            });
        let mut samples = [const { Vec::new() }; 4];
        for _ in 0..rounds {
            for (side, command) in [Some(&own), peer.as_ref()].into_iter().enumerate() {
                let Some(command) = command else { continue };
                samples[side].push(peer::read_number(command, "load_ms")?);
                samples[2 + side].push(peer::read_number_and_peak(command, "load_ms")?.1);
            }
        }
        row.extend(samples.map(|values| format_number(timing::median(values))));
        Ok(row)
    }

    /// Table row: name, instructions of a call in millions of both sides, and their ratio.
    fn instructions(&self, options: &Options) -> Result<Vec<String>> {
        let target = BenchTarget::with_inputs(1, &self.program, &self.inputs)?;
        let count = |command: &dyn Fn(usize) -> Result<Vec<String>>| {
            Ok::<_, anyhow::Error>(callgrind::per_call(CALLS, command)? / 1e6)
        };
        let own = count(&|calls| callgrind::own_command(&target, calls))?;
        let mut row = vec![self.name.to_owned(), format_number(own)];
        row.extend(match options.peer.program.as_deref() {
            Some(peer) => {
                let official = count(&|calls| Ok(target.peer_command(peer, calls)))?;
                [format_number(official), format_number(own / official)]
            }
            None => ["-".to_owned(), "-".to_owned()],
        });
        Ok(row)
    }

    /// Table row: name, times of both sides, their ratio, and the error.
    fn times(&self, program: &Path, options: &Options, plain: bool) -> Result<Vec<String>> {
        let Options { threads, rounds, repeat, .. } = *options;
        let mut target = BenchTarget::with_inputs(threads, program, &self.inputs)?;
        let error = self.error(&mut target, options)?;
        let once = timing::each(3, || target.call(1))?;
        let calls = (MIN_ROUND_US / timing::median(once)) as usize;
        let repeat = calls.clamp(repeat, 10_000.max(repeat));
        let calls = if plain { 1 } else { repeat };
        let (mut own, mut official) = (vec![], vec![]);
        for _ in 0..rounds {
            target.call(repeat / 10 + 1)?;
            own.push(timing::median(timing::each(repeat, || target.call(1))?));
            if let Some(peer) = options.peer.program.as_deref() {
                let count = (calls, calls / 10 + 1);
                let command = peer::command_on(threads, peer, program, &self.inputs, count);
                official.push(peer::read_number(&command, "median_us")?);
            }
        }
        let ratios = own.iter().zip(&official).map(|(own, peer)| own / peer).collect();
        let ms = |times| format_number(timing::median(times) / 1e3);
        let ratio = format_number(timing::median(ratios));
        Ok(vec![self.name.to_owned(), ms(own), ms(official), ratio, error])
    }

    /// Error of the result, formatted for the table.
    fn error(&self, target: &mut BenchTarget, options: &Options) -> Result<String> {
        if self.expected.exists() {
            let error = error(target, &self.expected)?;
            ensure!(error <= TOLERANCE, "the error relative to PyTorch is {error:e}");
            return Ok(format!("{error:.1e}"));
        }
        let Some(program) = options.peer.program.as_deref() else { return Ok("-".to_owned()) };
        let quantum = bench_target::read_npy(&self.quantum)?;
        let quantum = *quantum.first().context("the quantization scale is missing")?;
        let folder = TempDir::with_prefix("afferent-bench-")?;
        let mut command = peer::command(program, target.path(), &self.inputs, 1, 0);
        command.extend(["--output-dir".to_owned(), folder.path().display().to_string()]);
        peer::read_number(&command, "median_us")?;
        let expected = bench_target::read_npy(&folder.path().join("output_0.npy"))?;
        let found = first_output(target)?;
        ensure!(found.len() == expected.len(), "output 0 and that of the peer differ in size");
        let pairs = found.iter().zip(&expected);
        let steps = pairs.map(|(a, b)| f64::from((a - b).abs() / quantum).round());
        let (max, over_one) = steps.fold((0.0_f64, 0), |(max, over_one), steps| {
            (max.max(steps), over_one + usize::from(steps > 1.0))
        });
        let fraction = over_one as f64 / found.len() as f64;
        let is_within_limit = max <= MAX_STEPS && fraction <= MAX_FRACTION_OVER_ONE_STEP;
        let verdict = if is_within_limit { "" } else { ", exceeded" };
        Ok(format!("{max} ({:.1} %){verdict}", fraction * 100.0))
    }
}

/// Maximum difference of output 0 from PyTorch, divided by the maximum magnitude.
pub(crate) fn error(target: &mut BenchTarget, expected: &Path) -> Result<f64> {
    let expected = bench_target::read_npy(expected)?;
    let found = first_output(target)?;
    ensure!(found.len() == expected.len(), "output 0 and that of PyTorch differ in size");
    let pairs = found.iter().zip(&expected);
    let difference = pairs.map(|(a, b)| f64::from((a - b).abs())).fold(0.0, f64::max);
    let magnitude = expected.iter().map(|x| f64::from(x.abs())).fold(0.0, f64::max);
    Ok(difference / magnitude)
}

fn first_output(target: &mut BenchTarget) -> Result<Vec<f32>> {
    let inputs: Vec<_> = target.inputs.iter().map(|input| Input::Tensor(input.view())).collect();
    let outputs = target.model.run("forward", &inputs)?;
    let found = outputs.tensor(0)?.data::<f32>()?.to_vec();
    ensure!(found.iter().all(|x| x.is_finite()), "output 0 contains NaN or infinity");
    Ok(found)
}
