//! Exported models with and without XNNPACK, against the official runtime with the same files.

use std::{
    env::current_exe,
    fs,
    path::{Path, PathBuf},
};

use afferent_runtime::Input;
use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::{
    callgrind,
    peer::{self, PeerOption},
    subject::{self, Subject},
    table::{Table, figure},
    timing,
};

/// Time of a call of models with XNNPACK and without, with loading and memory.
///
/// `tools/bench/export_models.py FOLDER` makes the models. Each round calls a model delegated to
/// XNNPACK here and by the peer, and without a delegate where there is such a file. Then each
/// side loads it and calls it once, in new processes. The results of models in `f32` are compared
/// with those of PyTorch: `error` is the greatest difference by the greatest magnitude. Results of
/// models in `int8` are compared with those of the peer: `error` is the greatest difference in
/// steps of the quantisation, and how many in a hundred are more than one away.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Folder with the models.
    folder: PathBuf,
    #[command(flatten)]
    peer: PeerOption,
    /// Rounds, of which the median is taken.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Calls in a round, at least; quick models are called for a tenth of a second. Portable
    /// kernels of the peer are called once.
    #[arg(long, default_value_t = 20)]
    repeat: usize,
    /// Threads, here and of the peer.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Leave out what is not delegated.
    #[arg(long)]
    delegated: bool,
    /// Count instructions of a call too, with Valgrind, which takes minutes. Processors seem to have
    /// no AVX-512 there, so that both sides run what they have for AVX2.
    #[arg(long)]
    instructions: bool,
    /// Only models whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
}

/// The greatest error of numbers that passes.
const TOLERANCE: f64 = 1e-4;

/// The greatest error of integers that is good, in steps, and the share that may be more than one
/// step away.
const STEPS: (f64, f64) = (2.0, 1e-3);

/// Microseconds that the calls of a round take at least.
const ROUND_US: f64 = 1e5;

/// Few calls and many, whose instructions are compared.
const CALLS: (usize, usize) = (1, 3);

const COUNTED: [&str; 4] =
    ["model", "afferent M instructions", "official M instructions", "ours / official"];

const DELEGATED: [&str; 9] = [
    "model",
    "afferent ms",
    "official ms",
    "ours / official",
    "error",
    "load ms",
    "official load ms",
    "peak MiB",
    "official peak MiB",
];

const PLAIN: [&str; 5] = ["model", "afferent ms", "official ms", "ours / official", "error"];

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    let Options { rounds, threads, .. } = options;
    let title = |what| format!("{what}, {threads} threads, medians of {rounds} rounds");
    let mut delegated = Table::new(title("models with XNNPACK"), &DELEGATED);
    let mut plain = Table::new(title("models with portable kernels"), &PLAIN);
    let title = "instructions of a call of models with XNNPACK, one thread, on AVX2";
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
    ensure!(!names.is_empty(), "{} holds no such model", options.folder.display());
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

/// The files of a model.
struct Files<'n> {
    name: &'n str,
    program: PathBuf,
    plain: PathBuf,
    inputs: Vec<PathBuf>,
    expected: PathBuf,
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
        let mut figures = [const { Vec::new() }; 4];
        for _ in 0..rounds {
            for (side, words) in [Some(&own), peer.as_ref()].into_iter().enumerate() {
                let Some(words) = words else { continue };
                figures[side].push(peer::figure(words, "load_ms")?);
                figures[2 + side].push(peer::figure_and_peak(words, "load_ms")?.1);
            }
        }
        row.extend(figures.map(|values| figure(timing::median(values))));
        Ok(row)
    }

    /// Name, millions of instructions of a call here and by the peer, and what remains of them.
    fn instructions(&self, options: &Options) -> Result<Vec<String>> {
        let subject = Subject::with_inputs(1, &self.program, &self.inputs)?;
        let count = |command: &dyn Fn(usize) -> Result<Vec<String>>| {
            Ok::<_, anyhow::Error>(callgrind::per_call(CALLS, command)? / 1e6)
        };
        let own = count(&|calls| callgrind::own_command(&subject, calls))?;
        let mut row = vec![self.name.to_owned(), figure(own)];
        row.extend(match options.peer.program.as_deref() {
            Some(peer) => {
                let official = count(&|calls| Ok(subject.peer_command(peer, calls)))?;
                [figure(official), figure(own / official)]
            }
            None => ["-".to_owned(), "-".to_owned()],
        });
        Ok(row)
    }

    /// Name, times of calls here and by the peer, what remains of them, and the error.
    fn times(&self, program: &Path, options: &Options, plain: bool) -> Result<Vec<String>> {
        let Options { threads, rounds, repeat, .. } = *options;
        let mut subject = Subject::with_inputs(threads, program, &self.inputs)?;
        let error = self.error(&mut subject, options)?;
        let once = timing::each(3, || subject.call(1))?;
        let more = (ROUND_US / timing::median(once)) as usize;
        let repeat = more.clamp(repeat, 10_000.max(repeat));
        let calls = if plain { 1 } else { repeat };
        let (mut own, mut official) = (vec![], vec![]);
        for _ in 0..rounds {
            subject.call(repeat / 10 + 1)?;
            own.push(timing::median(timing::each(repeat, || subject.call(1))?));
            if let Some(peer) = options.peer.program.as_deref() {
                let count = (calls, calls / 10 + 1);
                let words = peer::command_on(threads, peer, program, &self.inputs, count);
                official.push(peer::figure(&words, "median_us")?);
            }
        }
        let ratios = own.iter().zip(&official).map(|(own, peer)| own / peer).collect();
        let ms = |times| figure(timing::median(times) / 1e3);
        let ratio = figure(timing::median(ratios));
        Ok(vec![self.name.to_owned(), ms(own), ms(official), ratio, error])
    }

    /// How far the result is from what it is compared with.
    fn error(&self, subject: &mut Subject, options: &Options) -> Result<String> {
        if self.expected.exists() {
            let error = error(subject, &self.expected)?;
            ensure!(error <= TOLERANCE, "the result is {error:e} away from that of PyTorch");
            return Ok(format!("{error:.1e}"));
        }
        let Some(program) = options.peer.program.as_deref() else { return Ok("-".to_owned()) };
        let quantum = subject::read_npy(&self.quantum)?;
        let quantum = *quantum.first().context("the step of the quantisation is missing")?;
        let folder = TempDir::with_prefix("afferent-bench-")?;
        let mut words = peer::command(program, subject.path(), &self.inputs, 1, 0);
        words.extend(["--output-dir".to_owned(), folder.path().display().to_string()]);
        peer::figure(&words, "median_us")?;
        let expected = subject::read_npy(&folder.path().join("output_0.npy"))?;
        let found = first_result(subject)?;
        ensure!(found.len() == expected.len(), "the result has another size than the peer's");
        let pairs = found.iter().zip(&expected);
        let steps = pairs.map(|(a, b)| f64::from((a - b).abs() / quantum).round());
        let (most, far) = steps.fold((0.0_f64, 0), |(most, far), steps| {
            (most.max(steps), far + usize::from(steps > 1.0))
        });
        let share = far as f64 / found.len() as f64;
        let missed = if most <= STEPS.0 && share <= STEPS.1 { "" } else { ", missed" };
        Ok(format!("{most} ({:.1} %){missed}", share * 100.0))
    }
}

/// The greatest difference between the first result and that of PyTorch, by the greatest magnitude.
pub(crate) fn error(subject: &mut Subject, expected: &Path) -> Result<f64> {
    let expected = subject::read_npy(expected)?;
    let found = first_result(subject)?;
    ensure!(found.len() == expected.len(), "the result has another size than that of PyTorch");
    let pairs = found.iter().zip(&expected);
    let difference = pairs.map(|(a, b)| f64::from((a - b).abs())).fold(0.0, f64::max);
    let magnitude = expected.iter().map(|x| f64::from(x.abs())).fold(0.0, f64::max);
    Ok(difference / magnitude)
}

fn first_result(subject: &mut Subject) -> Result<Vec<f32>> {
    let inputs: Vec<_> = subject.inputs.iter().map(|input| Input::Tensor(input.view())).collect();
    let outputs = subject.model.run("forward", &inputs)?;
    let found = outputs.tensor(0)?.data::<f32>()?.to_vec();
    ensure!(found.iter().all(|x| x.is_finite()), "the result is not finite");
    Ok(found)
}
