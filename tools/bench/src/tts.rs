//! A voice says sentences: how fast, and how soon.

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
    subject::{model_options, portable_options},
    table::{Table, figure},
    timing,
};

/// Says each line of a list with a voice, on one thread.
///
/// `real time` is the time that it took by the time that the sound lasts, pauses between clauses
/// included; `first chunk` is the time from the text to the first samples, in milliseconds.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Text file with a sentence a line.
    list: PathBuf,
    /// Folder for `0001.wav`, `0002.wav`, …, one file a line; without it nothing is written.
    #[arg(long)]
    output: Option<PathBuf>,
    /// The voice.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/models/tts"))]
    model: PathBuf,
    /// Only the portable program.
    #[arg(long)]
    portable: bool,
}

/// What one sentence took.
struct Said {
    sound: Vec<f32>,
    took: Duration,
    first: Duration,
}

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    let list = fs::read_to_string(&options.list);
    let list = list.with_context(|| format!("cannot read {}", options.list.display()))?;
    let lines: Vec<&str> = list.lines().filter(|line| !line.trim().is_empty()).collect();
    ensure!(!lines.is_empty(), "{} holds no sentence", options.list.display());
    if let Some(folder) = &options.output {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let models = if options.portable { portable_options() } else { model_options() };
    let cx = OpenCx::with_service(models);
    let mut voice = Voice::open(&options.model, &cx)?;
    // The first run of a method makes what later runs use again.
    say(&mut voice, lines[0])?;
    let (mut took, mut lasts, mut first) = (0.0, 0.0, Vec::new());
    for (line, number) in lines.iter().zip(1..) {
        let said = say(&mut voice, line).with_context(|| format!("line {number}: {line}"))?;
        took += said.took.as_secs_f64();
        lasts += voice.rate().duration(said.sound.len()).as_secs_f64();
        first.push(said.first.as_secs_f64() * 1e3);
        if let Some(folder) = &options.output {
            write(&folder.join(format!("{number:04}.wav")), voice.rate().0, &said.sound)?;
        }
    }
    first.sort_unstable_by(f64::total_cmp);
    let columns =
        ["sentences", "sound s", "real time", "first chunk ms, median", "95 %", "longest"];
    let mut table = Table::new("text to sound, one thread", &columns);
    let last = first.len() - 1;
    table.row([
        lines.len().to_string(),
        figure(lasts),
        figure(took / lasts),
        figure(timing::median(first.clone())),
        figure(first[last * 95 / 100]),
        figure(first[last]),
    ]);
    Ok(vec![table])
}

fn say(voice: &mut Voice, text: &str) -> Result<Said> {
    let start = Instant::now();
    let (mut sound, mut first) = (Vec::new(), None);
    for clause in voice.clauses(text) {
        let mut utterance = voice.begin(&clause, 1.0)?;
        while let Some(chunk) = voice.next_chunk(&mut utterance)? {
            sound.extend_from_slice(chunk);
            first.get_or_insert_with(|| start.elapsed());
        }
        sound.resize(sound.len() + voice.rate().samples(Voice::pause(clause.mark)), 0.0);
    }
    let first = first.context("it has no words")?;
    Ok(Said { sound, took: start.elapsed(), first })
}

/// Writes a file of one channel.
pub(crate) fn write(path: &Path, rate: u32, sound: &[f32]) -> Result<()> {
    let format = WavSpec {
        channels: 1,
        sample_rate: rate,
        bits_per_sample: 16,
        sample_format: SampleFormat::Int,
    };
    let mut file = WavWriter::create(path, format)
        .with_context(|| format!("cannot write {}", path.display()))?;
    for sample in sound {
        file.write_sample((sample * 32_767.0).round() as i16)?;
    }
    Ok(file.finalize()?)
}
