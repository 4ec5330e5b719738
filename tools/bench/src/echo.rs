//! Acoustic echo cancellation: self-interruption of an agent, and barge-in during its speech.

mod scene;

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use afferent_graph::{
    Node, NodeBench, NodeError, OpenCx, ParamValue, ParamValues, Params, Timestamp,
};
use afferent_messages::{AudioBlock, SpeechEvent, SpeechEventKind};
use afferent_nodes_audio::{Aec, AecParams};
use afferent_nodes_speech::{Vad, VadParams};
use anyhow::{Context, Result, ensure};

use crate::{
    asr::read_wav,
    bench_target::model_options,
    table::{Table, format_number},
    timing, tts,
};
use scene::{RATE, Room};

/// Self-interruption of an agent by its echo, and barge-in during its speech.
///
/// The shipped voice speaks in a simulated room. The microphone signal passes through `aec` and then
/// `vad`. `starts` counts the detections of `vad` while only the agent speaks, without and with
/// `aec`. `removed` is the echo return loss enhancement after the first two seconds of echo. Then a
/// user speaks at the same time: `heard` counts the utterances detected before their end, `after` is
/// the detection latency, `false` counts detections without an utterance, and `loss` is the
/// attenuation of the user's speech. `real time` is the computing time of `aec` divided by the
/// duration of the audio.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Duration of the agent's speech in each room in seconds, alone and with a user.
    #[arg(long, default_value_t = 600)]
    seconds: usize,
    /// Echo level relative to the played signal, in decibels.
    #[arg(long, default_value_t = -6.0, allow_negative_numbers = true)]
    level: f32,
    /// Level of the user's speech, in dBFS.
    #[arg(long, default_value_t = -26.0, allow_negative_numbers = true)]
    near: f32,
    /// Level of the microphone noise, in dBFS.
    #[arg(long, default_value_t = -66.0, allow_negative_numbers = true)]
    noise: f32,
    /// Reverberation time (RT60) in milliseconds.
    #[arg(long, default_value_t = 200)]
    decay: u64,
    /// Measure only rooms whose name contains this text.
    #[arg(long, default_value = "")]
    room: String,
    /// Parameter of `aec`, as in a graph file, such as `lead=20ms`.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,
    /// Folder for recordings before and after `aec`: `ROOM, alone.wav` and so on.
    #[arg(long)]
    output: Option<PathBuf>,
    /// Speech of the user: a mono WAV file at 16 kHz.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/assets/other_speech.wav"))]
    speech: PathBuf,
    /// Package of the voice.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/models/tts"))]
    voice: PathBuf,
    /// Package of the voice activity detector.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/models/vad"))]
    vad: PathBuf,
}

/// Simulated rooms.
const ROOMS: &[Room] = &[
    room("20 ms", 20),
    room("50 ms", 50),
    room("80 ms", 80),
    Room { late_reference: true, ..room("20 ms, late reference", 20) },
    Room { distorts: true, ..room("50 ms, distorted", 50) },
    Room { changes: true, ..room("50 ms, changes", 50) },
    Room { speaks_at_start: true, ..room("50 ms, speaks at start", 50) },
];

const fn room(name: &'static str, delay_ms: u64) -> Room {
    let delay = Duration::from_millis(delay_ms);
    Room {
        name,
        delay,
        distorts: false,
        changes: false,
        late_reference: false,
        speaks_at_start: false,
    }
}

/// Samples per block.
const BLOCK_SAMPLES: usize = 320;

/// Utterance: first sample, and one past the last sample.
type Span = (usize, usize);

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    let cx = OpenCx::with_service(model_options());
    let played = scene::agent(&options.voice, &cx, options.seconds)?;
    let (near, spans) = interruptions(options, &cx, played.len())?;
    let columns = [
        "room",
        "starts without",
        "starts",
        "removed dB",
        "heard",
        "of",
        "after ms p50",
        "p95",
        "false",
        "loss dB",
        "real time",
    ];
    let title = format!(
        "{} s of agent speech, echo at {} dB, {} ms reverberation",
        options.seconds, options.level, options.decay
    );
    let mut table = Table::new(title, &columns);
    for room in ROOMS.iter().filter(|room| room.name.contains(&options.room)) {
        let skipped = if room.speaks_at_start { scene::LEAD_SAMPLES } else { 0 };
        let spans: Vec<Span> =
            spans.iter().map(|(from, to)| (from - skipped, to - skipped)).collect();
        let near = (&near[skipped..], spans.as_slice());
        let stats = measure(options, &cx, room, &played[skipped..], near)?;
        for at in &stats.starts {
            table.note(format!("{}: false detection of the agent at {}", room.name, seconds(*at)));
        }
        for at in &stats.missed {
            table.note(format!("{}: missed the utterance at {}", room.name, seconds(*at)));
        }
        table.row(stats.cells(room.name));
    }
    Ok(vec![table])
}

/// Results of one room.
#[derive(Debug)]
struct RoomStats {
    starts_without: usize,
    /// Samples at which speech was detected while only the agent spoke.
    starts: Vec<usize>,
    removed_db: f64,
    /// Detection latency of each detected utterance.
    heard_after_ms: Vec<f64>,
    /// Start samples of missed utterances.
    missed: Vec<usize>,
    utterances: usize,
    false_starts: usize,
    loss_db: f64,
    real_time: f64,
}

impl RoomStats {
    fn cells(mut self, name: &str) -> Vec<String> {
        self.heard_after_ms.sort_unstable_by(f64::total_cmp);
        let p95 = self.heard_after_ms.get(self.heard_after_ms.len() * 19 / 20);
        vec![
            name.to_owned(),
            self.starts_without.to_string(),
            self.starts.len().to_string(),
            format_number(self.removed_db),
            self.heard_after_ms.len().to_string(),
            self.utterances.to_string(),
            format_number(timing::median(self.heard_after_ms.clone())),
            format_number(p95.copied().unwrap_or(f64::NAN)),
            self.false_starts.to_string(),
            format_number(self.loss_db),
            format_number(self.real_time),
        ]
    }
}

fn measure(
    options: &Options,
    cx: &OpenCx,
    room: &Room,
    played: &[f32],
    (near, spans): (&[f32], &[Span]),
) -> Result<RoomStats> {
    let echo = room.echo(played, Duration::from_millis(options.decay), options.level);
    let noise = scene::noise(played.len(), options.noise);
    let alone: Vec<f32> = echo.iter().zip(&noise).map(|(echo, noise)| echo + noise).collect();
    let both: Vec<f32> = alone.iter().zip(near).map(|(alone, near)| alone + near).collect();
    let listen = |microphone: &[f32], aec| {
        let mut chain = Chain::open(options, cx, aec)?;
        chain.process(microphone, played, room.late_reference).with_context(|| room.name)
    };
    let without = listen(&alone, false)?;
    let with = listen(&alone, true)?;
    let over = listen(&both, true)?;
    if let Some(folder) = &options.output {
        let signals = [&alone, &with.audio, &both, &over.audio];
        let names = ["alone", "alone after aec", "both", "both after aec"];
        for (signal, name) in signals.into_iter().zip(names) {
            tts::write(&folder.join(format!("{}, {name}.wav", room.name)), RATE.0, signal)?;
        }
    }
    let (mut heard_after_ms, mut missed) = (Vec::new(), Vec::new());
    for &(from, to) in spans {
        let start = over.starts.iter().find(|start| in_span((from, to), start.at));
        let found = start.filter(|start| start.found <= to.max(from + RATE.0 as usize / 2));
        match found {
            Some(start) => heard_after_ms.push((start.found as f64 - from as f64) / 16.0),
            None => missed.push(from),
        }
    }
    let is_false = |start: &&Start| !spans.iter().any(|span| in_span(*span, start.at));
    Ok(RoomStats {
        starts_without: without.starts.len(),
        starts: with.starts.iter().map(|start| start.at).collect(),
        removed_db: removed_db(&echo, &with.audio),
        heard_after_ms,
        missed,
        utterances: spans.len(),
        false_starts: over.starts.iter().filter(is_false).count(),
        loss_db: loss_db(near, spans, &over.audio),
        real_time: with.busy.as_secs_f64() / RATE.duration(played.len()).as_secs_f64(),
    })
}

fn seconds(samples: usize) -> String {
    format!("{:.2} s", samples as f64 / f64::from(RATE.0))
}

/// True if a detection at `at` belongs to `span`. Accepts 200 ms on both sides: a detection may come
/// before the start, and again after a pause near the end.
fn in_span((from, to): Span, at: usize) -> bool {
    let tolerance = RATE.0 as usize / 5;
    (from.saturating_sub(tolerance)..to + tolerance).contains(&at)
}

/// Power ratio of the echo and its residual in blocks with echo, after the first 4 s.
fn removed_db(echo: &[f32], residual: &[f32]) -> f64 {
    let (mut before, mut after) = (0.0, 0.0);
    let blocks = echo.chunks(BLOCK_SAMPLES).zip(residual.chunks(BLOCK_SAMPLES));
    for (echo, residual) in blocks.skip(4 * 50) {
        if scene::power(echo) > 1e-5 {
            before += f64::from(scene::power(echo));
            after += f64::from(scene::power(residual));
        }
    }
    10.0 * (before / after).log10()
}

/// Attenuation of `near` in `output`, estimated by least squares.
fn loss_db(near: &[f32], spans: &[Span], output: &[f32]) -> f64 {
    let (mut cross, mut energy) = (0.0, 0.0);
    for &(from, to) in spans {
        for (near, output) in near[from..to].iter().zip(&output[from..to]) {
            cross += f64::from(near * output);
            energy += f64::from(near * near);
        }
    }
    -20.0 * (cross / energy).log10()
}

/// Speech of the user: `len` samples with utterances that start at least four seconds apart.
fn interruptions(options: &Options, cx: &OpenCx, len: usize) -> Result<(Vec<f32>, Vec<Span>)> {
    let (rate, speech) = read_wav(&options.speech)?;
    ensure!(rate == RATE, "{} must have {} Hz", options.speech.display(), RATE.0);
    let second = RATE.0 as usize;
    let found = Chain::open(options, cx, false)?.process(&speech, &[], false)?;
    let ends = found.starts.iter().zip(&found.ends).map(|(start, end)| (start.at, *end));
    let utterances: Vec<Span> =
        ends.filter(|(from, to)| to - from > second / 2 && to - from < 3 * second).collect();
    ensure!(!utterances.is_empty(), "{} contains no utterance", options.speech.display());
    let (mut near, mut spans) = (vec![0.0; len], Vec::new());
    let mut from = 6 * second;
    for utterance in utterances.iter().cycle() {
        let audio = scene::at_level(&speech[utterance.0..utterance.1], options.near);
        let to = from + audio.len();
        if to + second > len {
            break;
        }
        near[from..to].copy_from_slice(&audio);
        spans.push((from, to));
        // The odd period moves the utterances relative to the agent's words.
        from += 4 * second + 2311;
    }
    Ok((near, spans))
}

/// Optional echo canceler, and the voice activity detector.
struct Chain {
    aec: Option<NodeBench<Aec>>,
    vad: NodeBench<Vad>,
}

/// Result of processing a signal.
#[derive(Debug, Default)]
struct Detections {
    /// Output of the echo canceler.
    audio: Vec<f32>,
    starts: Vec<Start>,
    ends: Vec<usize>,
    /// Computing time of the echo canceler.
    busy: Duration,
}

/// Start of speech at sample `at`, detected after `found` samples of input.
#[derive(Debug)]
struct Start {
    at: usize,
    found: usize,
}

impl Chain {
    fn open(options: &Options, cx: &OpenCx, with_aec: bool) -> Result<Self> {
        let model = ("model".to_owned(), ParamValue::Path(options.vad.clone()));
        let params = VadParams::from_values(&[model].into()).map_err(NodeError::from)?;
        let vad = NodeBench::new(Vad::open(params, cx)?);
        let mut values = ParamValues::new();
        for setting in &options.settings {
            let (name, value) = setting.split_once('=').context("--set expects NAME=VALUE")?;
            values.insert(name.to_owned(), ParamValue::Text(value.to_owned()));
        }
        for param in AecParams::PARAMS {
            if let Some(value) = values.get_mut(param.name) {
                *value = param.accept(value)?;
            }
        }
        let params = AecParams::from_values(&values).map_err(NodeError::from)?;
        let aec = with_aec.then(|| Aec::open(params, cx)).transpose()?.map(NodeBench::new);
        Ok(Self { aec, vad })
    }

    /// Processes a signal block by block. With `late_reference`, each reference block arrives after
    /// the microphone block with the same timestamp.
    fn process(
        &mut self,
        microphone: &[f32],
        played: &[f32],
        late_reference: bool,
    ) -> Result<Detections> {
        let mut detections = Detections::default();
        let mut played = played.chunks(BLOCK_SAMPLES);
        for (index, samples) in microphone.chunks(BLOCK_SAMPLES).enumerate() {
            let at = Timestamp::ZERO + RATE.duration(index * BLOCK_SAMPLES);
            let now = index * BLOCK_SAMPLES + samples.len();
            let Some(aec) = &mut self.aec else {
                detections.detect(&mut self.vad, at, block(samples)?, now)?;
                continue;
            };
            let (reference, audio) = (played.next().map(block).transpose()?, block(samples)?);
            let start = Instant::now();
            let mut sent = Vec::new();
            let mut audio = Some(audio);
            if late_reference && let Some(audio) = audio.take() {
                sent = aec.call(Aec::AUDIO, at, audio)?;
            }
            if let Some(reference) = reference {
                aec.call(Aec::REFERENCE, at, reference)?;
            }
            if let Some(audio) = audio {
                sent = aec.call(Aec::AUDIO, at, audio)?;
            }
            detections.busy += start.elapsed();
            for (_, packet) in sent {
                let Some(audio) = packet.get::<AudioBlock>() else { continue };
                detections.detect(&mut self.vad, packet.header.at, audio.clone(), now)?;
            }
        }
        if let Some(aec) = &mut self.aec {
            for (_, packet) in aec.finish(Timestamp::ZERO)? {
                let Some(audio) = packet.get::<AudioBlock>() else { continue };
                let now = microphone.len();
                detections.detect(&mut self.vad, packet.header.at, audio.clone(), now)?;
            }
        }
        Ok(detections)
    }
}

impl Detections {
    /// Runs the detector on a block, after `now` samples of input.
    fn detect(
        &mut self,
        vad: &mut NodeBench<Vad>,
        at: Timestamp,
        audio: AudioBlock,
        now: usize,
    ) -> Result<()> {
        self.audio.extend_from_slice(audio.channel(0)?);
        for (_, packet) in vad.call(Vad::AUDIO, at, audio)? {
            let at = RATE.samples(packet.header.at.since(Timestamp::ZERO));
            match packet.get::<SpeechEvent>().map(|event| event.kind) {
                Some(SpeechEventKind::Start) => self.starts.push(Start { at, found: now }),
                Some(SpeechEventKind::End) => self.ends.push(at),
                None => (),
            }
        }
        Ok(())
    }
}

fn block(samples: &[f32]) -> Result<AudioBlock> {
    let mut block = AudioBlock::default();
    block.reshape(RATE, 1, samples.len())?.copy_from_slice(samples);
    Ok(block)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn agent_ignores_its_echo_and_detects_a_user() {
        let options = Cli::parse_from(["echo", "--seconds", "20"]).options;
        let cx = OpenCx::with_service(model_options());
        let played = scene::agent(&options.voice, &cx, options.seconds).unwrap();
        let (near, spans) = interruptions(&options, &cx, played.len()).unwrap();
        let stats = measure(&options, &cx, &ROOMS[1], &played, (&near, &spans)).unwrap();
        assert!(stats.starts_without > 2, "no echo to remove: {stats:?}");
        assert!(stats.starts.is_empty() && stats.false_starts == 0, "{stats:?}");
        assert!(stats.missed.is_empty() && stats.utterances > 2, "{stats:?}");
        assert!(stats.removed_db > 25.0 && stats.loss_db < 3.0, "{stats:?}");
    }
}
