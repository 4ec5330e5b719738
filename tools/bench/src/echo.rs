//! An agent that speaks into its own microphone: does it interrupt itself, and is it heard over?

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
    subject::model_options,
    table::{Table, figure},
    timing, tts,
};
use scene::{RATE, Room};

/// Whether an agent interrupts itself by its own voice in the microphone, and hears who interrupts.
///
/// The shipped voice speaks in a room, whose echo the microphone hears; `aec` removes it, `vad`
/// listens behind it. `starts` counts the speech that `vad` finds while only the agent speaks,
/// without and with `aec`; `removed` is the power of the echo by that of what is left of it, after
/// its first two seconds. Then somebody speaks into the agent's words: `heard` counts utterances
/// whose start `vad` finds before their end, `after` the time from the start until it does, `false`
/// what it finds beside them, and `loss` says how much of the words does not pass. `real time` is
/// the time of the calls of `aec` by that of the sound.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Seconds that the agent speaks in each room, alone and then interrupted.
    #[arg(long, default_value_t = 600)]
    seconds: usize,
    /// Level of the echo over that of the voice as it was played, in decibels.
    #[arg(long, default_value_t = -6.0, allow_negative_numbers = true)]
    level: f32,
    /// Level of whoever interrupts, in dBFS.
    #[arg(long, default_value_t = -26.0, allow_negative_numbers = true)]
    near: f32,
    /// Level of the noise that the microphone hears always, in dBFS.
    #[arg(long, default_value_t = -66.0, allow_negative_numbers = true)]
    noise: f32,
    /// Time in milliseconds in which the reverberation falls by 60 dB.
    #[arg(long, default_value_t = 200)]
    decay: u64,
    /// Only rooms whose name contains this.
    #[arg(long, default_value = "")]
    room: String,
    /// Settings of `aec`, as in a graph file: `lead=20ms`.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,
    /// Folder for what the microphone heard and what passed: `ROOM, alone.wav` and so on.
    #[arg(long)]
    output: Option<PathBuf>,
    /// Speech that interrupts: a WAV file of one channel and 16 kHz.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/assets/other_speech.wav"))]
    speech: PathBuf,
    /// The voice.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/models/tts"))]
    voice: PathBuf,
    /// The detector of speech.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/models/vad"))]
    vad: PathBuf,
}

/// Where the agent speaks.
const ROOMS: &[Room] = &[
    room("20 ms", 20),
    room("50 ms", 50),
    room("80 ms", 80),
    Room { is_late: true, ..room("20 ms, late reference", 20) },
    Room { distorts: true, ..room("50 ms, distorted", 50) },
    Room { changes: true, ..room("50 ms, changes", 50) },
    Room { is_early: true, ..room("50 ms, speaks at once", 50) },
];

const fn room(name: &'static str, delay_ms: u64) -> Room {
    let delay = Duration::from_millis(delay_ms);
    Room { name, delay, distorts: false, changes: false, is_late: false, is_early: false }
}

/// Samples of a block.
const BLOCK: usize = 320;

/// Where somebody speaks: first sample, and the one behind the last.
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
        "{} s of the agent's voice at {} dB in the microphone, {} ms of reverberation",
        options.seconds, options.level, options.decay
    );
    let mut table = Table::new(title, &columns);
    for room in ROOMS.iter().filter(|room| room.name.contains(&options.room)) {
        let skipped = if room.is_early { scene::LEAD } else { 0 };
        let spans: Vec<Span> =
            spans.iter().map(|(from, to)| (from - skipped, to - skipped)).collect();
        let near = (&near[skipped..], spans.as_slice());
        let figures = measure(options, &cx, room, &played[skipped..], near)?;
        for at in &figures.starts {
            table.note(format!("{}: took the agent for somebody at {}", room.name, seconds(*at)));
        }
        for at in &figures.missed {
            table.note(format!("{}: did not hear who spoke at {}", room.name, seconds(*at)));
        }
        table.row(figures.cells(room.name));
    }
    Ok(vec![table])
}

/// What was measured in one room.
#[derive(Debug)]
struct Figures {
    starts_without: usize,
    /// Where speech was found while only the agent spoke.
    starts: Vec<usize>,
    removed_db: f64,
    heard_after_ms: Vec<f64>,
    /// Where utterances begin that were not heard.
    missed: Vec<usize>,
    utterances: usize,
    false_starts: usize,
    loss_db: f64,
    real_time: f64,
}

impl Figures {
    fn cells(mut self, name: &str) -> Vec<String> {
        self.heard_after_ms.sort_unstable_by(f64::total_cmp);
        let high = self.heard_after_ms.get(self.heard_after_ms.len() * 19 / 20);
        vec![
            name.to_owned(),
            self.starts_without.to_string(),
            self.starts.len().to_string(),
            figure(self.removed_db),
            self.heard_after_ms.len().to_string(),
            self.utterances.to_string(),
            figure(timing::median(self.heard_after_ms.clone())),
            figure(high.copied().unwrap_or(f64::NAN)),
            self.false_starts.to_string(),
            figure(self.loss_db),
            figure(self.real_time),
        ]
    }
}

fn measure(
    options: &Options,
    cx: &OpenCx,
    room: &Room,
    played: &[f32],
    (near, spans): (&[f32], &[Span]),
) -> Result<Figures> {
    let echo = room.echo(played, Duration::from_millis(options.decay), options.level);
    let noise = scene::noise(played.len(), options.noise);
    let alone: Vec<f32> = echo.iter().zip(&noise).map(|(echo, noise)| echo + noise).collect();
    let both: Vec<f32> = alone.iter().zip(near).map(|(alone, near)| alone + near).collect();
    let listen = |microphone: &[f32], aec| {
        let heard = Ears::open(options, cx, aec)?.listen(microphone, played, room.is_late);
        heard.with_context(|| room.name)
    };
    let without = listen(&alone, false)?;
    let with = listen(&alone, true)?;
    let over = listen(&both, true)?;
    if let Some(folder) = &options.output {
        let sounds = [&alone, &with.sound, &both, &over.sound];
        let names = ["alone", "alone passed", "interrupted", "interrupted passed"];
        for (sound, name) in sounds.into_iter().zip(names) {
            tts::write(&folder.join(format!("{}, {name}.wav", room.name)), RATE.0, sound)?;
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
    let beside = |start: &&Start| !spans.iter().any(|span| in_span(*span, start.at));
    Ok(Figures {
        starts_without: without.starts.len(),
        starts: with.starts.iter().map(|start| start.at).collect(),
        removed_db: removed_db(&echo, &with.sound),
        heard_after_ms,
        missed,
        utterances: spans.len(),
        false_starts: over.starts.iter().filter(beside).count(),
        loss_db: loss_db(near, spans, &over.sound),
        real_time: with.busy.as_secs_f64() / RATE.duration(played.len()).as_secs_f64(),
    })
}

fn seconds(samples: usize) -> String {
    format!("{:.2} s", samples as f64 / f64::from(RATE.0))
}

/// Whether speech that starts at `at` is that of `span`: its begin may be taken for earlier, and a
/// pause within it for its end.
fn in_span((from, to): Span, at: usize) -> bool {
    let early = RATE.0 as usize / 5;
    (from.saturating_sub(early)..to + early).contains(&at)
}

/// The power of the echo by what is left, where there is an echo, after the first seconds.
fn removed_db(echo: &[f32], left: &[f32]) -> f64 {
    let (mut before, mut after) = (0.0, 0.0);
    for (echo, left) in echo.chunks(BLOCK).zip(left.chunks(BLOCK)).skip(4 * 50) {
        if scene::power(echo) > 1e-5 {
            before += f64::from(scene::power(echo));
            after += f64::from(scene::power(left));
        }
    }
    10.0 * (before / after).log10()
}

/// How much of `near` is missing in `heard`: its share there, by least squares.
fn loss_db(near: &[f32], spans: &[Span], heard: &[f32]) -> f64 {
    let (mut both, mut own) = (0.0, 0.0);
    for &(from, to) in spans {
        for (near, heard) in near[from..to].iter().zip(&heard[from..to]) {
            both += f64::from(near * heard);
            own += f64::from(near * near);
        }
    }
    -20.0 * (both / own).log10()
}

/// `len` samples with utterances of the speech file, four seconds or more from start to start.
fn interruptions(options: &Options, cx: &OpenCx, len: usize) -> Result<(Vec<f32>, Vec<Span>)> {
    let (rate, speech) = read_wav(&options.speech)?;
    ensure!(rate == RATE, "{} has not {} Hz", options.speech.display(), RATE.0);
    let second = RATE.0 as usize;
    let found = Ears::open(options, cx, false)?.listen(&speech, &[], false)?;
    let ends = found.starts.iter().zip(&found.ends).map(|(start, end)| (start.at, *end));
    let utterances: Vec<Span> =
        ends.filter(|(from, to)| to - from > second / 2 && to - from < 3 * second).collect();
    ensure!(!utterances.is_empty(), "{} has no utterance", options.speech.display());
    let (mut near, mut spans) = (vec![0.0; len], Vec::new());
    let mut from = 6 * second;
    for utterance in utterances.iter().cycle() {
        let sound = scene::at_level(&speech[utterance.0..utterance.1], options.near);
        let to = from + sound.len();
        if to + second > len {
            break;
        }
        near[from..to].copy_from_slice(&sound);
        spans.push((from, to));
        // So that utterances meet the agent's words at every place.
        from += 4 * second + 2311;
    }
    Ok((near, spans))
}

/// The nodes that listen.
struct Ears {
    aec: Option<NodeBench<Aec>>,
    vad: NodeBench<Vad>,
}

/// What was heard.
#[derive(Debug, Default)]
struct Heard {
    sound: Vec<f32>,
    starts: Vec<Start>,
    ends: Vec<usize>,
    busy: Duration,
}

/// Speech started at sample `at`, which was known at sample `found`.
#[derive(Debug)]
struct Start {
    at: usize,
    found: usize,
}

impl Ears {
    fn open(options: &Options, cx: &OpenCx, with_aec: bool) -> Result<Self> {
        let model = ("model".to_owned(), ParamValue::Path(options.vad.clone()));
        let params = VadParams::from_values(&[model].into()).map_err(NodeError::from)?;
        let vad = NodeBench::new(Vad::open(params, cx)?);
        let mut values = ParamValues::new();
        for setting in &options.settings {
            let (name, value) = setting.split_once('=').context("a setting is NAME=VALUE")?;
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

    /// Hears a whole sound, block by block.
    fn listen(&mut self, microphone: &[f32], played: &[f32], is_late: bool) -> Result<Heard> {
        let mut heard = Heard::default();
        let mut played = played.chunks(BLOCK);
        for (place, sound) in microphone.chunks(BLOCK).enumerate() {
            let at = Timestamp::ZERO + RATE.duration(place * BLOCK);
            let now = place * BLOCK + sound.len();
            let Some(aec) = &mut self.aec else {
                heard.take(&mut self.vad, at, block(sound)?, now)?;
                continue;
            };
            let (reference, sound) = (played.next().map(block).transpose()?, block(sound)?);
            let start = Instant::now();
            let mut sent = Vec::new();
            let mut sound = Some(sound);
            if is_late && let Some(sound) = sound.take() {
                sent = aec.call(Aec::AUDIO, at, sound)?;
            }
            if let Some(reference) = reference {
                aec.call(Aec::REFERENCE, at, reference)?;
            }
            if let Some(sound) = sound {
                sent = aec.call(Aec::AUDIO, at, sound)?;
            }
            heard.busy += start.elapsed();
            for (_, packet) in sent {
                let Some(sound) = packet.get::<AudioBlock>() else { continue };
                heard.take(&mut self.vad, packet.header.at, sound.clone(), now)?;
            }
        }
        if let Some(aec) = &mut self.aec {
            for (_, packet) in aec.finish(Timestamp::ZERO)? {
                let Some(sound) = packet.get::<AudioBlock>() else { continue };
                heard.take(&mut self.vad, packet.header.at, sound.clone(), microphone.len())?;
            }
        }
        Ok(heard)
    }
}

impl Heard {
    /// Gives a block to the detector, when `now` samples have come in.
    fn take(
        &mut self,
        vad: &mut NodeBench<Vad>,
        at: Timestamp,
        sound: AudioBlock,
        now: usize,
    ) -> Result<()> {
        self.sound.extend_from_slice(sound.channel(0)?);
        for (_, packet) in vad.call(Vad::AUDIO, at, sound)? {
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
    struct Words {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn an_agent_does_not_interrupt_itself_and_is_interrupted() {
        let options = Words::parse_from(["echo", "--seconds", "20"]).options;
        let cx = OpenCx::with_service(model_options());
        let played = scene::agent(&options.voice, &cx, options.seconds).unwrap();
        let (near, spans) = interruptions(&options, &cx, played.len()).unwrap();
        let figures = measure(&options, &cx, &ROOMS[1], &played, (&near, &spans)).unwrap();
        assert!(figures.starts_without > 2, "nothing to remove: {figures:?}");
        assert!(figures.starts.is_empty() && figures.false_starts == 0, "{figures:?}");
        assert!(figures.missed.is_empty() && figures.utterances > 2, "{figures:?}");
        assert!(figures.removed_db > 25.0 && figures.loss_db < 3.0, "{figures:?}");
    }
}
