//! Word error rate, latency and cost of a speech recognizer on a list of recordings.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use afferent_graph::Node;
use afferent_graph::{NodeBench, OpenCx, Packet, ParamValue, ParamValues, Params, Timestamp};
use afferent_messages::{AudioBlock, SampleRate, Transcript};
use afferent_nodes_speech::{Asr, AsrParams, Vad, VadParams};
use anyhow::{Context, Result, ensure};

use crate::{
    bench_target::{model_options, portable_options},
    metrics::quantile,
    recognition::{edit_distance, recognize},
    table::{Table, format_number},
    timing,
};

/// Word error rate, latency and cost of a speech recognizer.
///
/// Each line of the list is `set<TAB>file<TAB>end<TAB>text`: a mono WAV file relative to the list,
/// the sample at which the speech ends, and the reference text. The node gets each file in blocks of
/// 20 ms. `shown` is the time from the end of speech to the first transcript that equals the final
/// text; `final` is the time to the final transcript, with a voice activity detector upstream. Both
/// include the duration of the audio and the computing time. `real time` is the computing time on one
/// thread divided by the duration of the audio.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// List of recordings.
    list: PathBuf,
    /// Package of the recognizer.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/models/asr"))]
    model: PathBuf,
    /// Package of a voice activity detector to run upstream of the recognizer.
    #[arg(long)]
    vad: Option<PathBuf>,
    /// Load the portable variants. The shipped recognizer has none, so it fails to load: pass
    /// `--model` with a package whose `model.yaml` lists one.
    #[arg(long)]
    portable: bool,
    /// Output file for transcripts: set, reference, transcript.
    #[arg(long)]
    heard: Option<PathBuf>,
    /// Parameter of the node, as in a graph file, such as `lexicon=false`.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,
}

/// Recording with its reference text.
struct Item {
    set: String,
    file: PathBuf,
    /// Sample at which the speech ends.
    end: usize,
    text: String,
}

/// Results of one set.
#[derive(Default)]
struct SetStats {
    items: usize,
    words: usize,
    /// Word errors.
    errors: usize,
    /// Items with at least one error.
    wrong: usize,
    shown_ms: Vec<f64>,
    final_ms: Vec<f64>,
    /// Computing time.
    busy: Duration,
    /// Duration of the audio.
    audio: Duration,
}

/// Duration of a block.
const BLOCK: Duration = Duration::from_millis(20);

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    let items = read_list(&options.list)?;
    let mut transcripts = String::new();
    let mut sets: BTreeMap<&str, SetStats> = BTreeMap::new();
    let mut chain = Chain::open(options)?;
    for item in &items {
        let stats = sets.entry(&item.set).or_default();
        let found = chain.transcribe(item, stats);
        let found = found.with_context(|| item.file.display().to_string())?;
        let [text, words] =
            [&item.text, &found].map(|text| text.split_whitespace().collect::<Vec<_>>());
        let errors = edit_distance(&text, &words);
        stats.items += 1;
        stats.words += text.len();
        stats.errors += errors;
        stats.wrong += usize::from(errors > 0);
        transcripts += &format!("{}\t{}\t{found}\n", item.set, item.text);
    }
    if let Some(path) = &options.heard {
        fs::write(path, transcripts)?;
    }
    Ok(vec![table(options, sets)])
}

fn table(options: &Options, sets: BTreeMap<&str, SetStats>) -> Table {
    let title = format!("{} {}", options.model.display(), options.settings.join(" "));
    let columns = [
        "set",
        "items",
        "words",
        "WER %",
        "sentences wrong %",
        "shown ms p50",
        "shown ms p95",
        "final ms p50",
        "final ms p95",
        "real time",
    ];
    let mut table = Table::new(title, &columns);
    let part = |of: usize, all: usize| format_number(100.0 * of as f64 / all.max(1) as f64);
    for (set, mut stats) in sets {
        let real_time = stats.busy.as_secs_f64() / stats.audio.as_secs_f64();
        table.row([
            set.to_owned(),
            stats.items.to_string(),
            stats.words.to_string(),
            part(stats.errors, stats.words),
            part(stats.wrong, stats.items),
            format_number(timing::median(stats.shown_ms.clone())),
            format_number(quantile(&mut stats.shown_ms, 0.95)),
            format_number(timing::median(stats.final_ms.clone())),
            format_number(quantile(&mut stats.final_ms, 0.95)),
            format_number(real_time),
        ]);
    }
    table
}

fn read_list(path: &Path) -> Result<Vec<Item>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let items = text.lines().enumerate().map(|(at, line)| {
        let mut parts = line.split('\t');
        let mut part = || parts.next().with_context(|| format!("line {} is too short", at + 1));
        let (set, file, end, text) = (part()?, part()?, part()?, part()?);
        let (set, text) = (set.to_owned(), text.to_owned());
        Ok(Item { set, file: folder.join(file), end: end.parse()?, text })
    });
    items.collect()
}

/// Optional voice activity detector, and the recognizer.
struct Chain {
    vad: Option<NodeBench<Vad>>,
    asr: NodeBench<Asr>,
    /// Start time of the next recording. Recordings are 10 s apart.
    at: Timestamp,
}

/// Result of one recording.
#[derive(Default)]
struct Transcription {
    /// Words of the final transcripts.
    words: Vec<String>,
    /// Text and time of each transcript.
    shown: Vec<(String, Duration)>,
    last_final: Option<Duration>,
    busy: Duration,
}

impl Transcription {
    fn take(&mut self, sent: &[(&'static str, Packet)], now: Duration) {
        for (_, packet) in sent {
            let Some(transcript) = packet.get::<Transcript>() else { continue };
            let whole = self.words.iter().cloned().chain([transcript.text()]);
            self.shown.push((whole.collect::<Vec<_>>().join(" "), now));
            if transcript.is_final {
                self.words.extend(transcript.words.iter().map(|word| word.text.clone()));
                self.last_final = Some(now);
            }
        }
    }
}

impl Chain {
    fn open(options: &Options) -> Result<Self> {
        let models = if options.portable { portable_options() } else { model_options() };
        let cx = OpenCx::with_service(models);
        let model = |path: &Path| ("model".to_owned(), ParamValue::Path(path.to_owned()));
        let vad = options.vad.as_deref().map(|path| -> Result<_> {
            let params = VadParams::from_values(&[model(path)].into());
            Ok(NodeBench::new(Vad::open(params.map_err(afferent_graph::NodeError::from)?, &cx)?))
        });
        let mut values: ParamValues = [model(&options.model)].into();
        for setting in &options.settings {
            let (name, value) = setting.split_once('=').context("--set expects NAME=VALUE")?;
            let param = AsrParams::PARAMS.iter().find(|param| param.name == name);
            let param = param.with_context(|| format!("the node has no parameter {name}"))?;
            values.insert(name.to_owned(), param.parse(value)?);
        }
        let params = AsrParams::from_values(&values).map_err(afferent_graph::NodeError::from)?;
        let asr = NodeBench::new(Asr::open(params, &cx)?);
        Ok(Self { vad: vad.transpose()?, asr, at: Timestamp::ZERO })
    }

    fn transcribe(&mut self, item: &Item, stats: &mut SetStats) -> Result<String> {
        let (rate, samples) = read_wav(&item.file)?;
        let mut result = Transcription::default();
        for (block, at) in samples.chunks(rate.samples(BLOCK)).zip(0_u32..) {
            let mut audio = AudioBlock::default();
            audio.reshape(rate, 1, block.len())?.copy_from_slice(block);
            let until = BLOCK * at + rate.duration(block.len());
            self.process(self.at + BLOCK * at, audio, until, &mut result)?;
        }
        self.finish(rate.duration(samples.len()), &mut result)?;
        self.at = self.at + rate.duration(samples.len()) + Duration::from_secs(10);
        stats.busy += result.busy;
        stats.audio += rate.duration(samples.len());
        let (text, end) = (result.words.join(" "), rate.duration(item.end));
        let ms = |at: Duration| (at.as_secs_f64() - end.as_secs_f64()) * 1e3;
        let first_stable = result.shown.iter().rev().take_while(|(shown, _)| *shown == text).last();
        stats.shown_ms.extend(first_stable.map(|&(_, at)| ms(at)));
        if self.vad.is_some() {
            stats.final_ms.extend(result.last_final.map(ms));
        }
        Ok(text)
    }

    /// Processes a block of audio that ends at `until` in its file.
    fn process(
        &mut self,
        at: Timestamp,
        audio: AudioBlock,
        until: Duration,
        result: &mut Transcription,
    ) -> Result<()> {
        let start = Instant::now();
        let sent = match &mut self.vad {
            Some(vad) => recognize(&mut self.asr, vad.call(Vad::AUDIO, at, audio)?)?,
            None => self.asr.call(Asr::AUDIO, at, audio)?,
        };
        result.busy += start.elapsed();
        result.take(&sent, until + start.elapsed());
        Ok(())
    }

    fn finish(&mut self, until: Duration, result: &mut Transcription) -> Result<()> {
        let start = Instant::now();
        let mut sent = match &mut self.vad {
            Some(vad) => recognize(&mut self.asr, vad.finish(self.at)?)?,
            None => Vec::new(),
        };
        sent.extend(self.asr.finish(self.at)?);
        result.busy += start.elapsed();
        result.take(&sent, until + start.elapsed());
        Ok(())
    }
}

/// Sample rate and samples of a mono file.
pub(crate) fn read_wav(path: &Path) -> Result<(SampleRate, Vec<f32>)> {
    let mut reader = hound::WavReader::open(path)?;
    let spec = reader.spec();
    ensure!(spec.channels == 1 && spec.bits_per_sample == 16, "the file is not 16-bit mono");
    let samples = reader.samples::<i16>().map(|sample| Ok(f32::from(sample?) / 32768.0));
    Ok((SampleRate(spec.sample_rate), samples.collect::<Result<_>>()?))
}
