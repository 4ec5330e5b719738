//! Language models against the official runtime: prefill and decode.

use std::{
    fs,
    hint::black_box,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use afferent_runtime::{Model, ModelOptions};
use afferent_simd::{Isa, pool};
use afferent_text::Generator;
use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{
    subject::model_options,
    table::{Table, figure},
    timing,
};

/// Tokens per second of language models: a prompt at once, and an answer token by token.
///
/// `tools/bench/export_llama.py FOLDER` makes the models. Each round loads no model anew here, and
/// runs the peer program once, which loads it; loading is not in the times of either, nor is a first
/// run of the prompt on both sides, which finds caches cold. Both take the likeliest tokens; `same` counts the tokens of the answer, from its start, on which both
/// agree. Below the table stands how fast a thread reads memory between the rounds: a token waits
/// for the weights, and on a shared machine that is not the same every minute.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Folder with the models.
    folder: PathBuf,
    /// The official runtime: a program like `tools/bench/official_llama.py`, which takes
    /// `MODEL.pte --prompt N --new N --threads N` and prints a JSON object with `prefill_us`,
    /// `decode_us` and `tokens`.
    #[arg(long = "peer", value_name = "PROGRAM")]
    peer: Option<PathBuf>,
    /// Only models whose names have this in them.
    #[arg(long, default_value = "")]
    filter: String,
    /// Tokens of the prompt.
    #[arg(long, default_value_t = 128)]
    prompt: usize,
    /// Tokens of the answer.
    #[arg(long, default_value_t = 33)]
    new: usize,
    /// Rounds, of which the median is taken.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Threads of both sides.
    #[arg(long, default_value_t = 1)]
    threads: usize,
}

/// Bytes that are read to see how fast memory is: more than caches hold.
const READ: usize = 256 << 20;

/// Words that are read together.
const LINES: usize = 128;

/// What one run took, in microseconds, and the tokens that it gave.
struct Run {
    prefill_us: f64,
    decode_us: f64,
    tokens: Vec<u64>,
}

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    ensure!(options.new > 1, "an answer of one token decodes none");
    let columns = [
        "model",
        "prefill tokens/s",
        "official",
        "ours / official time",
        "decode tokens/s",
        "official",
        "ours / official time",
        "same",
    ];
    let Options { prompt, new, rounds, threads, .. } = options;
    let title = format!(
        "language models, prompt {prompt}, answer {new}, {threads} threads, {rounds} rounds"
    );
    let mut table = Table::new(title, &columns);
    let entries = fs::read_dir(&options.folder);
    let entries = entries.with_context(|| format!("cannot read {}", options.folder.display()))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.extension().is_some_and(|end| end == "pte") && name.contains(&options.filter) {
            paths.push((name, path));
        }
    }
    paths.sort_unstable();
    ensure!(!paths.is_empty(), "{} holds no such model", options.folder.display());
    let (memory, mut reads) = (vec![1_u32; READ / size_of::<u32>()], Vec::new());
    for (name, path) in &paths {
        match measure(path, options, || reads.push(read(&memory))) {
            Ok(cells) => table.row(std::iter::once(name.clone()).chain(cells)),
            Err(error) => table.note(format!("{name}: skipped ({error:#})")),
        }
    }
    let least = figure(reads.iter().copied().fold(f64::INFINITY, f64::min));
    let most = figure(reads.iter().copied().fold(0.0, f64::max));
    if !reads.is_empty() {
        let median = figure(timing::median(reads));
        table.note(format!("memory: a thread reads {median} GB/s, {least} to {most}"));
    }
    if options.peer.is_none() {
        table.note("peer: skipped (pass --peer PROGRAM)");
    }
    Ok(vec![table])
}

fn measure(path: &Path, options: &Options, mut between: impl FnMut()) -> Result<[String; 7]> {
    let workers = pool::workers(options.threads);
    let of_model = ModelOptions { workers, ..model_options() };
    let mut generator = Generator::new(Model::open(path, of_model)?)?;
    let (mut own, mut peer) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        generate(&mut generator, options.prompt, 1)?;
        own.push(generate(&mut generator, options.prompt, options.new)?);
        if let Some(program) = &options.peer {
            peer.push(official(program, path, options)?);
        }
        between();
    }
    let same = own.iter().zip(&peer).map(|(own, peer)| {
        own.tokens.iter().zip(&peer.tokens).take_while(|(own, peer)| own == peer).count()
    });
    let same = same.min().map_or("-".to_owned(), |same| format!("{same}/{}", options.new));
    let columns = |time: fn(&Run) -> f64, tokens: usize| {
        let rate = |runs: &[Run]| {
            figure(tokens as f64 * 1e6 / timing::median(runs.iter().map(time).collect()))
        };
        let ratios = own.iter().zip(&peer).map(|(own, peer)| time(own) / time(peer));
        [rate(&own), rate(&peer), figure(timing::median(ratios.collect()))]
    };
    let [prefill, official_prefill, prefill_ratio] = columns(|run| run.prefill_us, options.prompt);
    let [decode, official_decode, decode_ratio] = columns(|run| run.decode_us, options.new - 1);
    Ok([prefill, official_prefill, prefill_ratio, decode, official_decode, decode_ratio, same])
}

/// How fast one thread reads `memory`, in GB/s.
fn read(memory: &[u32]) -> f64 {
    let start = Instant::now();
    let both = |mut sums: [u32; LINES], line: &[u32; LINES]| {
        sums.iter_mut().zip(line).for_each(|(sum, word)| *sum ^= word);
        sums
    };
    black_box(Isa::best().call(|| memory.as_chunks().0.iter().fold([0; LINES], both)));
    size_of_val(memory) as f64 / 1000.0 / timing::micros(start.elapsed())
}

/// The same prompt as that of the peer program.
fn prompt(len: usize) -> Vec<u32> {
    (0..len).zip((3..).step_by(37)).map(|(_, token)| token % 8000).collect()
}

fn generate(generator: &mut Generator, prompt_len: usize, new: usize) -> Result<Run> {
    generator.reset();
    let start = Instant::now();
    generator.push(&prompt(prompt_len))?;
    let mut next = likeliest(generator.logits(None)?);
    let prefill_us = timing::micros(start.elapsed());
    let mut tokens = vec![u64::from(next)];
    let start = Instant::now();
    while tokens.len() < new {
        generator.push(&[next])?;
        next = likeliest(generator.logits(None)?);
        tokens.push(u64::from(next));
    }
    Ok(Run { prefill_us, decode_us: timing::micros(start.elapsed()), tokens })
}

fn likeliest(logits: &[f32]) -> u32 {
    let best = logits.iter().zip(0..).fold((f32::NEG_INFINITY, 0), |best, (&logit, token)| {
        if logit > best.0 { (logit, token) } else { best }
    });
    best.1
}

fn official(program: &Path, model: &Path, options: &Options) -> Result<Run> {
    let mut command = Command::new(program);
    command.arg(model);
    for (name, value) in
        [("--prompt", options.prompt), ("--new", options.new), ("--threads", options.threads)]
    {
        command.args([name, &value.to_string()]);
    }
    let output = command.output();
    let output = output.with_context(|| format!("cannot start {}", program.display()))?;
    let failed = || format!("{}: {}", program.display(), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), failed());
    let figures: Value = serde_json::from_slice(&output.stdout).with_context(failed)?;
    let time =
        |name: &str| figures[name].as_f64().with_context(|| format!("the peer has no {name}"));
    let tokens = figures["tokens"].as_array().context("the peer has no tokens")?;
    Ok(Run {
        prefill_us: time("prefill_us")?,
        decode_us: time("decode_us")?,
        tokens: tokens.iter().filter_map(Value::as_u64).collect(),
    })
}
