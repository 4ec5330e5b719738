//! Speed and latency of text-to-speech.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use afferent_graph::OpenCx;
use afferent_nodes_speech::Voice;
use anyhow::{Context, Result, ensure};
use hound::{SampleFormat, WavSpec, WavWriter};

use crate::{
    bench_target::{model_options, portable_options},
    table::{Table, format_number},
    timing,
};

/// Synthesizes each line of a list, on one thread.
///
/// `real time` is the computing time divided by the duration of the audio, including pauses between
/// clauses. `first chunk` is the time from the text to the first samples, in milliseconds.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Text file with one sentence per line.
    list: PathBuf,
    /// Output folder for `0001.wav`, `0002.wav`, …, one file per line.
    #[arg(long)]
    output: Option<PathBuf>,
    /// Package of the voice.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/models/tts"))]
    model: PathBuf,
    /// Load the portable variant. The shipped voice has none, so it fails to load: pass `--model` with
    /// a package whose `model.yaml` lists one.
    #[arg(long)]
    portable: bool,
}

/// Synthesized sentence.
struct Speech {
    audio: Vec<f32>,
    /// Computing time.
    elapsed: Duration,
    /// Time to the first samples.
    first_chunk: Duration,
}

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    let list = fs::read_to_string(&options.list);
    let list = list.with_context(|| format!("cannot read {}", options.list.display()))?;
    let lines: Vec<&str> = list.lines().filter(|line| !line.trim().is_empty()).collect();
    ensure!(!lines.is_empty(), "{} contains no sentence", options.list.display());
    if let Some(folder) = &options.output {
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let models = if options.portable { portable_options() } else { model_options() };
    let cx = OpenCx::with_service(models);
    let mut voice = Voice::open(&options.model, &cx)?;
    // Warm up: the first run allocates memory for later runs.
    synthesize(&mut voice, lines[0])?;
    let (mut elapsed, mut duration, mut first) = (0.0, 0.0, Vec::new());
    for (line, number) in lines.iter().zip(1..) {
        let speech = synthesize(&mut voice, line);
        let speech = speech.with_context(|| format!("line {number}: {line}"))?;
        elapsed += speech.elapsed.as_secs_f64();
        duration += voice.rate().duration(speech.audio.len()).as_secs_f64();
        first.push(speech.first_chunk.as_secs_f64() * 1e3);
        if let Some(folder) = &options.output {
            write(&folder.join(format!("{number:04}.wav")), voice.rate().0, &speech.audio)?;
        }
    }
    first.sort_unstable_by(f64::total_cmp);
    let columns =
        ["sentences", "sound s", "real time", "first chunk ms, median", "95 %", "longest"];
    let mut table = Table::new("text to speech, one thread", &columns);
    let last = first.len() - 1;
    table.row([
        lines.len().to_string(),
        format_number(duration),
        format_number(elapsed / duration),
        format_number(timing::median(first.clone())),
        format_number(first[last * 95 / 100]),
        format_number(first[last]),
    ]);
    Ok(vec![table])
}

fn synthesize(voice: &mut Voice, text: &str) -> Result<Speech> {
    let start = Instant::now();
    let (mut audio, mut first_chunk) = (Vec::new(), None);
    for clause in voice.clauses(text) {
        let mut utterance = voice.begin(&clause, 1.0)?;
        while let Some(chunk) = voice.next_chunk(&mut utterance)? {
            audio.extend_from_slice(chunk);
            first_chunk.get_or_insert_with(|| start.elapsed());
        }
        audio.resize(audio.len() + voice.rate().samples(Voice::pause(clause.end)), 0.0);
    }
    let first_chunk = first_chunk.context("the text contains no words")?;
    Ok(Speech { audio, elapsed: start.elapsed(), first_chunk })
}

/// Writes a mono WAV file.
pub(crate) fn write(path: &Path, rate: u32, audio: &[f32]) -> Result<()> {
    let format = WavSpec {
        channels: 1,
        sample_rate: rate,
        bits_per_sample: 16,
        sample_format: SampleFormat::Int,
    };
    let mut file = WavWriter::create(path, format)
        .with_context(|| format!("cannot write {}", path.display()))?;
    for sample in audio {
        file.write_sample((sample * 32_767.0).round() as i16)?;
    }
    Ok(file.finalize()?)
}
