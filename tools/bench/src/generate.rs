//! Prefill and decode of language models, compared with the official runtime.

use std::{
    env::current_exe,
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
use serde_json::{Value, json};

use crate::{
    bench_target::model_options,
    process,
    table::{Table, format_number},
    timing,
};

/// Prefill and decode speed of language models, in tokens per second.
///
/// `tools/bench/export_llama.py FOLDER` writes the models. Both sides decode greedily. Times exclude
/// loading and a warm-up prefill; only the peer loads the model in every round. `same` is the length
/// of the common prefix of both answers. The memory is the growth of the resident memory of a new process
/// from before the model is loaded to its peak. The note below the table is the memory bandwidth of one
/// thread, measured between the rounds: decoding is limited by reading the weights, and the
/// bandwidth of a shared machine varies.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Folder with the models.
    folder: PathBuf,
    /// Program that runs the official runtime, such as `tools/bench/official_llama.py`. It takes
    /// `MODEL.pte --prompt N --new N --threads N` and prints a JSON object with `prefill_us`,
    /// `decode_us`, `tokens` and `growth_mib`.
    #[arg(long = "peer", value_name = "PROGRAM")]
    peer: Option<PathBuf>,
    /// Measure only models whose name contains this text.
    #[arg(long, default_value = "")]
    filter: String,
    /// Number of prompt tokens.
    #[arg(long, default_value_t = 128)]
    prompt: usize,
    /// Number of generated tokens.
    #[arg(long, default_value_t = 33)]
    new: usize,
    /// Number of rounds; the result is their median.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Number of threads of both sides.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Run the model at this path once, as the peer does, and print the same JSON object.
    #[arg(long, hide = true)]
    once: bool,
}

/// Size of the buffer for the bandwidth measurement; larger than the caches.
const BANDWIDTH_BYTES: usize = 256 << 20;

/// Independent accumulators of the bandwidth measurement.
const ACCUMULATORS: usize = 128;

/// Times and tokens of one run.
struct Run {
    prefill_us: f64,
    decode_us: f64,
    tokens: Vec<u64>,
    growth_mib: f64,
}

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    if options.once {
        println!("{}", once(options)?);
        return Ok(Vec::new());
    }
    ensure!(options.new > 1, "--new must be at least 2; the first token belongs to the prefill");
    let columns = [
        "model",
        "prefill tokens/s",
        "official",
        "afferent / official time",
        "decode tokens/s",
        "official",
        "afferent / official time",
        "same",
        "memory MiB",
        "official",
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
    ensure!(!paths.is_empty(), "{} contains no such model", options.folder.display());
    let (buffer, mut bandwidths) = (vec![1_u32; BANDWIDTH_BYTES / size_of::<u32>()], Vec::new());
    for (name, path) in &paths {
        match measure(path, options, || bandwidths.push(bandwidth(&buffer))) {
            Ok(cells) => table.row(std::iter::once(name.clone()).chain(cells)),
            Err(error) => table.note(format!("{name}: skipped ({error:#})")),
        }
    }
    let min = format_number(bandwidths.iter().copied().fold(f64::INFINITY, f64::min));
    let max = format_number(bandwidths.iter().copied().fold(0.0, f64::max));
    if !bandwidths.is_empty() {
        let median = format_number(timing::median(bandwidths));
        table.note(format!("memory bandwidth of a thread: {median} GB/s ({min} to {max})"));
    }
    if options.peer.is_none() {
        table.note("peer: skipped (pass --peer PROGRAM)");
    }
    Ok(vec![table])
}

fn measure(path: &Path, options: &Options, mut between: impl FnMut()) -> Result<[String; 9]> {
    let mut generator = open(path, options)?;
    let (mut own, mut peer) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        generate(&mut generator, options.prompt, 1)?;
        let mut run = generate(&mut generator, options.prompt, options.new)?;
        run.growth_mib = child(&current_exe()?, &["generate", "--once"], path, options)?.growth_mib;
        own.push(run);
        if let Some(program) = &options.peer {
            peer.push(child(program, &[], path, options)?);
        }
        between();
    }
    let same = own.iter().zip(&peer).map(|(own, peer)| {
        own.tokens.iter().zip(&peer.tokens).take_while(|(own, peer)| own == peer).count()
    });
    let same = same.min().map_or("-".to_owned(), |same| format!("{same}/{}", options.new));
    let columns = |time: fn(&Run) -> f64, tokens: usize| {
        let rate = |runs: &[Run]| {
            format_number(tokens as f64 * 1e6 / timing::median(runs.iter().map(time).collect()))
        };
        let ratios = own.iter().zip(&peer).map(|(own, peer)| time(own) / time(peer));
        [rate(&own), rate(&peer), format_number(timing::median(ratios.collect()))]
    };
    let [prefill, official_prefill, prefill_ratio] = columns(|run| run.prefill_us, options.prompt);
    let [decode, official_decode, decode_ratio] = columns(|run| run.decode_us, options.new - 1);
    let memory = |runs: &[Run]| {
        format_number(timing::median(runs.iter().map(|run| run.growth_mib).collect()))
    };
    let [own, official] = [&own, &peer].map(|runs| memory(runs));
    Ok([
        prefill,
        official_prefill,
        prefill_ratio,
        decode,
        official_decode,
        decode_ratio,
        same,
        own,
        official,
    ])
}

fn open(path: &Path, options: &Options) -> Result<Generator> {
    let workers = pool::workers(options.threads);
    let of_model = ModelOptions { workers, ..model_options() };
    Ok(Generator::new(Model::open(path, of_model)?)?)
}

/// Loads the model in this process, and runs it twice, as the peer.
fn once(options: &Options) -> Result<Value> {
    process::reset_peak()?;
    let before = process::resident_bytes()?;
    let mut generator = open(&options.folder, options)?;
    generate(&mut generator, options.prompt, 1)?;
    let run = generate(&mut generator, options.prompt, options.new)?;
    let peak = process::peak_bytes(std::process::id())?;
    Ok(json!({
        "prefill_us": run.prefill_us,
        "decode_us": run.decode_us,
        "tokens": run.tokens,
        "growth_mib": peak.saturating_sub(before) as f64 / f64::from(1 << 20),
    }))
}

/// Read bandwidth of one thread over `buffer`, in GB/s.
fn bandwidth(buffer: &[u32]) -> f64 {
    let start = Instant::now();
    let add = |mut sums: [u32; ACCUMULATORS], chunk: &[u32; ACCUMULATORS]| {
        sums.iter_mut().zip(chunk).for_each(|(sum, word)| *sum ^= word);
        sums
    };
    black_box(Isa::best().call(|| buffer.as_chunks().0.iter().fold([0; ACCUMULATORS], add)));
    size_of_val(buffer) as f64 / 1000.0 / timing::micros(start.elapsed())
}

/// Prompt of `len` tokens, equal to that of the peer program.
fn prompt(len: usize) -> Vec<u32> {
    (0..len).zip((3..).step_by(37)).map(|(_, token)| token % 8000).collect()
}

fn generate(generator: &mut Generator, prompt_len: usize, new: usize) -> Result<Run> {
    generator.reset();
    let start = Instant::now();
    generator.push(&prompt(prompt_len))?;
    let mut next = greedy_token(generator.logits(None)?);
    let prefill_us = timing::micros(start.elapsed());
    let mut tokens = vec![u64::from(next)];
    let start = Instant::now();
    while tokens.len() < new {
        generator.push(&[next])?;
        next = greedy_token(generator.logits(None)?);
        tokens.push(u64::from(next));
    }
    let decode_us = timing::micros(start.elapsed());
    Ok(Run { prefill_us, decode_us, tokens, growth_mib: f64::NAN })
}

fn greedy_token(logits: &[f32]) -> u32 {
    let best = logits.iter().zip(0..).fold((f32::NEG_INFINITY, 0), |best, (&logit, token)| {
        if logit > best.0 { (logit, token) } else { best }
    });
    best.1
}

/// Runs `model` in a new process of `program`.
fn child(program: &Path, arguments: &[&str], model: &Path, options: &Options) -> Result<Run> {
    let mut command = Command::new(program);
    command.args(arguments).arg(model);
    for (name, value) in
        [("--prompt", options.prompt), ("--new", options.new), ("--threads", options.threads)]
    {
        command.args([name, &value.to_string()]);
    }
    let output = command.output();
    let output = output.with_context(|| format!("cannot start {}", program.display()))?;
    let failed = || format!("{}: {}", program.display(), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), failed());
    let result: Value = serde_json::from_slice(&output.stdout).with_context(failed)?;
    let number =
        |name: &str| result[name].as_f64().with_context(|| format!("the peer printed no {name}"));
    let tokens = result["tokens"].as_array().context("the peer printed no tokens")?;
    Ok(Run {
        prefill_us: number("prefill_us")?,
        decode_us: number("decode_us")?,
        tokens: tokens.iter().filter_map(Value::as_u64).collect(),
        growth_mib: number("growth_mib")?,
    })
}
