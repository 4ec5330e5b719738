//! Word errors, delays and cost of a speech recogniser on a list of sounds.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use afferent_graph::Node;
use afferent_graph::{NodeBench, OpenCx, Packet, ParamValue, ParamValues, Params, Timestamp};
use afferent_messages::{AudioBlock, SampleRate, SpeechEvent, Transcript};
use afferent_nodes_speech::{Asr, AsrParams, Vad, VadParams};
use anyhow::{Context, Result, ensure};

use crate::{
    figures::quantile,
    subject::{model_options, portable_options},
    table::{Table, figure},
    timing,
};

/// Word errors of a recogniser, the delay of its words, and what it costs.
///
/// Each line of the list is `set<TAB>file<TAB>end<TAB>text`: a WAV file of one channel, in the folder
/// of the list, the sample where its speech ends, and what is said. The node hears each file in
/// blocks of 20 ms. `shown` is from the end of speech until a transcript first has the last word as
/// it stays; `final` until the final transcript, with a detector of speech before the node. Both
/// count the sound that was heard and the time of the call. `real time` is the time of all calls by
/// that of the sound, on one thread.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The list.
    list: PathBuf,
    /// Package of the recogniser.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/models/asr"))]
    model: PathBuf,
    /// Package of a detector of speech, which then stands before the recogniser.
    #[arg(long)]
    vad: Option<PathBuf>,
    /// Portable kernels only.
    #[arg(long)]
    portable: bool,
    /// Write what was heard to this file: set, reference, transcript.
    #[arg(long)]
    heard: Option<PathBuf>,
    /// Settings of the node, as in a graph file: `lexicon=false`.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,
}

/// A sound and what is said in it.
struct Item {
    set: String,
    file: PathBuf,
    end: usize,
    text: String,
}

/// What was measured on one set.
#[derive(Default)]
struct Figures {
    items: usize,
    words: usize,
    errors: usize,
    wrong: usize,
    shown_ms: Vec<f64>,
    final_ms: Vec<f64>,
    busy: Duration,
    sound: Duration,
}

/// Length of the blocks.
const BLOCK: Duration = Duration::from_millis(20);

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    let items = read_list(&options.list)?;
    let mut heard = String::new();
    let mut sets: BTreeMap<&str, Figures> = BTreeMap::new();
    let mut chain = Chain::open(options)?;
    for item in &items {
        let figures = sets.entry(&item.set).or_default();
        let found = chain.transcribe(item, figures);
        let found = found.with_context(|| item.file.display().to_string())?;
        let (errors, words) = word_errors(&item.text, &found);
        figures.items += 1;
        figures.words += words;
        figures.errors += errors;
        figures.wrong += usize::from(errors > 0);
        heard += &format!("{}\t{}\t{found}\n", item.set, item.text);
    }
    if let Some(path) = &options.heard {
        fs::write(path, heard)?;
    }
    Ok(vec![table(options, sets)])
}

fn table(options: &Options, sets: BTreeMap<&str, Figures>) -> Table {
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
    let part = |of: usize, all: usize| figure(100.0 * of as f64 / all.max(1) as f64);
    for (set, mut figures) in sets {
        let real_time = figures.busy.as_secs_f64() / figures.sound.as_secs_f64();
        table.row([
            set.to_owned(),
            figures.items.to_string(),
            figures.words.to_string(),
            part(figures.errors, figures.words),
            part(figures.wrong, figures.items),
            figure(timing::median(figures.shown_ms.clone())),
            figure(quantile(&mut figures.shown_ms, 0.95)),
            figure(timing::median(figures.final_ms.clone())),
            figure(quantile(&mut figures.final_ms, 0.95)),
            figure(real_time),
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

/// The nodes that hear a sound, one after the other.
struct Chain {
    vad: Option<NodeBench<Vad>>,
    asr: NodeBench<Asr>,
    /// Time of the next sound; each begins long after the one before.
    at: Timestamp,
}

/// What came of one sound.
#[derive(Default)]
struct Heard {
    words: Vec<String>,
    /// Text and time of each transcript.
    shown: Vec<(String, Duration)>,
    last_final: Option<Duration>,
    busy: Duration,
}

impl Heard {
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
            let (name, value) = setting.split_once('=').context("a setting is NAME=VALUE")?;
            let param = AsrParams::PARAMS.iter().find(|param| param.name == name);
            let param = param.with_context(|| format!("the node has no setting {name}"))?;
            values.insert(name.to_owned(), param.parse(value)?);
        }
        let params = AsrParams::from_values(&values).map_err(afferent_graph::NodeError::from)?;
        let asr = NodeBench::new(Asr::open(params, &cx)?);
        Ok(Self { vad: vad.transpose()?, asr, at: Timestamp::ZERO })
    }

    fn transcribe(&mut self, item: &Item, figures: &mut Figures) -> Result<String> {
        let (rate, samples) = read_wav(&item.file)?;
        let mut heard = Heard::default();
        for (block, at) in samples.chunks(rate.samples(BLOCK)).zip(0_u32..) {
            let mut audio = AudioBlock::default();
            audio.reshape(rate, 1, block.len())?.copy_from_slice(block);
            let until = BLOCK * at + rate.duration(block.len());
            self.hear(self.at + BLOCK * at, audio, until, &mut heard)?;
        }
        self.finish(rate.duration(samples.len()), &mut heard)?;
        self.at = self.at + rate.duration(samples.len()) + Duration::from_secs(10);
        figures.busy += heard.busy;
        figures.sound += rate.duration(samples.len());
        let (text, end) = (heard.words.join(" "), rate.duration(item.end));
        let ms = |at: Duration| (at.as_secs_f64() - end.as_secs_f64()) * 1e3;
        let stays = heard.shown.iter().rev().take_while(|(shown, _)| *shown == text).last();
        figures.shown_ms.extend(stays.map(|&(_, at)| ms(at)));
        if self.vad.is_some() {
            figures.final_ms.extend(heard.last_final.map(ms));
        }
        Ok(text)
    }

    /// Gives a block of sound, which ends at `until` of its file, to the nodes.
    fn hear(
        &mut self,
        at: Timestamp,
        audio: AudioBlock,
        until: Duration,
        heard: &mut Heard,
    ) -> Result<()> {
        let start = Instant::now();
        let sent = match &mut self.vad {
            Some(vad) => pass(&mut self.asr, vad.call(Vad::AUDIO, at, audio)?)?,
            None => self.asr.call(Asr::AUDIO, at, audio)?,
        };
        heard.busy += start.elapsed();
        heard.take(&sent, until + start.elapsed());
        Ok(())
    }

    fn finish(&mut self, until: Duration, heard: &mut Heard) -> Result<()> {
        let start = Instant::now();
        let mut sent = match &mut self.vad {
            Some(vad) => pass(&mut self.asr, vad.finish(self.at)?)?,
            None => Vec::new(),
        };
        sent.extend(self.asr.finish(self.at)?);
        heard.busy += start.elapsed();
        heard.take(&sent, until + start.elapsed());
        Ok(())
    }
}

/// Gives what the detector sent to the recogniser.
fn pass(
    asr: &mut NodeBench<Asr>,
    sent: Vec<(&'static str, Packet)>,
) -> Result<Vec<(&'static str, Packet)>> {
    let mut transcripts = Vec::new();
    for (_, packet) in sent {
        let at = packet.header.at;
        if let Some(event) = packet.get::<SpeechEvent>() {
            transcripts.extend(asr.call(Asr::EVENTS, at, *event)?);
        } else if let Some(speech) = packet.get::<AudioBlock>() {
            transcripts.extend(asr.call(Asr::AUDIO, at, speech.clone())?);
        }
    }
    Ok(transcripts)
}

/// The rate and the samples of a file of one channel.
pub(crate) fn read_wav(path: &Path) -> Result<(SampleRate, Vec<f32>)> {
    let mut reader = hound::WavReader::open(path)?;
    let spec = reader.spec();
    ensure!(spec.channels == 1 && spec.bits_per_sample == 16, "it is not 16 bits of one channel");
    let samples = reader.samples::<i16>().map(|sample| Ok(f32::from(sample?) / 32768.0));
    Ok((SampleRate(spec.sample_rate), samples.collect::<Result<_>>()?))
}

/// Words that must be changed, added or removed to make `found` of `text`, and the words of `text`.
fn word_errors(text: &str, found: &str) -> (usize, usize) {
    let (text, found): (Vec<&str>, Vec<&str>) =
        (text.split_whitespace().collect(), found.split_whitespace().collect());
    let mut row: Vec<usize> = (0..=found.len()).collect();
    for (i, word) in text.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in found.iter().enumerate() {
            let changed = diagonal + usize::from(word != other);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    (row[found.len()], text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted_as_edits() {
        let check = |text: &str, found: &str, expected| {
            assert_eq!(word_errors(text, found), expected, "{text} / {found}");
        };
        check("a b c", "a b c", (0, 3));
        check("a b c", "a x c", (1, 3));
        check("a b c", "b c", (1, 3));
        check("a b c", "a b b c", (1, 3));
        check("a b", "", (2, 2));
        check("", "a", (1, 0));
    }
}
