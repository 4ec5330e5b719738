//! A conversation that is interrupted, one that lasts for an hour, and a wait for the wake word.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use afferent_engine::{Observer, RunOptions};
use afferent_graph::{NodeDef, OnFull, OpenCx, Out, Packet, ParamValue, Port, Timestamp};
use afferent_messages::{AudioBlock, Interruption, Text};
use afferent_nodes_io::WavSink;
use afferent_nodes_speech::Tts;
use afferent_spec::{CheckedNode, EdgePolicy};
use anyhow::{Context, Result, ensure};
use hound::{SampleFormat, WavSpec, WavWriter};
use serde_json::Value;

use crate::{
    figures::{self, Figure, quantile},
    process,
    scripted::{Scripted, policy},
    subject::model_options,
};

/// How soon an interrupt is silence, an hour of conversation, and the cost of waiting.
///
/// Interrupts come at random moments while the voice speaks to a loudspeaker with a buffer of 40 ms,
/// on the real clock; what is counted is the time until the last sound that is heard, fade included.
/// The hour is the sample of `pipelines/voice_agent.yaml` again and again on the virtual clock: every
/// question has to be answered, no later than the first ones, and memory must not grow. The wait is
/// `pipelines/wake_word.yaml` on silence, on the real clock.
///
/// Fails when a figure is above its limit.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// How many interrupts.
    #[arg(long, default_value_t = 100)]
    interrupts: u64,
    /// How long the conversation is, in minutes.
    #[arg(long, default_value_t = 60.0)]
    minutes: f64,
    /// How long to wait for the wake word, in seconds.
    #[arg(long, default_value_t = 20.0)]
    idle: f64,
    /// The program `afferent`; by default the one beside this one.
    #[arg(long)]
    afferent: Option<PathBuf>,
    /// Folder of the graphs.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines"))]
    pipelines: PathBuf,
}

/// The figures as text, and whether they are as they should be.
pub(crate) fn run(options: &Options, json: bool) -> Result<(String, Result<()>)> {
    let mut figures = interruptions(options)?;
    figures.extend(hour(options)?);
    figures.push(idle(options)?);
    let text = figures::text("conversation".to_owned(), &figures, Vec::new(), json);
    Ok((text, figures::verdict(&figures)))
}

const TEXT: Out<Text> = Out::at(0, "text");
const INTERRUPT: Out<Interruption> = Out::at(0, "interrupt");
const SPEAKS: &[Port] = &[TEXT.port()];
const INTERRUPTS: &[Port] = &[INTERRUPT.port()];

/// Between two texts, of which each is interrupted once.
const PERIOD: Duration = Duration::from_millis(1200);

/// What was interrupted, and what was heard.
#[derive(Default)]
struct Heard {
    interrupts: Vec<Timestamp>,
    /// Epoch, begin and end of each block that is not silence.
    blocks: Vec<(u32, Timestamp, Timestamp)>,
    /// Blocks that came behind those of a later epoch.
    stale: u64,
}

#[derive(Default)]
struct Ear(Mutex<Heard>);

impl Observer for Ear {
    fn sent(&self, node: &str, port: &str, now: Timestamp, packet: &Packet) {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if packet.get::<Interruption>().is_some() {
            heard.interrupts.push(now);
        } else if let (Some(block), "speaker", "heard") = (packet.get::<AudioBlock>(), node, port) {
            let samples = block.samples.data::<f32>().unwrap_or_default();
            // Behind the last sample that can be heard.
            let Some(last) = samples.iter().rposition(|sample| sample.abs() > 1e-4) else { return };
            let (epoch, at) = (packet.header.epoch, packet.header.at);
            if heard.blocks.last().is_some_and(|(other, ..)| *other > epoch) {
                heard.stale += 1;
            }
            heard.blocks.push((epoch, at, at + block.rate.duration(last + 1)));
        }
    }
}

fn interruptions(options: &Options) -> Result<Vec<Figure>> {
    let folder = tempfile::tempdir()?;
    let ear = Arc::new(Ear::default());
    let graph = voice(options, folder.path())?;
    let run_options = RunOptions { observers: vec![ear.clone()], ..RunOptions::default() };
    let services = OpenCx::with_service(model_options());
    let report = afferent_engine::run(&graph.0, &services, run_options)?;
    ensure!(report.failures.is_empty(), "{:?}", report.failures);
    let heard = ear.0.lock().unwrap_or_else(PoisonError::into_inner);
    let mut silent_after: Vec<f64> =
        heard.interrupts.iter().filter_map(|at| silent_after(*at, &heard.blocks)).collect();
    ensure!(
        silent_after.len() as u64 * 2 > options.interrupts,
        "only {} interrupts came while something was heard",
        silent_after.len()
    );
    let count = silent_after.len() as f64;
    let mut ms = |share| quantile(&mut silent_after, share) / 1e6;
    Ok(vec![
        Figure::new("interrupts_while_speaking", count, ""),
        Figure::new("interrupt_to_silence", ms(0.5), "ms"),
        Figure::new("interrupt_to_silence_p95", ms(0.95), "ms").at_most(60.0),
        Figure::new("interrupt_to_silence_max", ms(1.0), "ms"),
        Figure::new("interrupt_stale_blocks", heard.stale as f64, "").at_most(0.0),
    ])
}

/// From `at` until the end of the sound that is heard then, in nanoseconds.
fn silent_after(at: Timestamp, blocks: &[(u32, Timestamp, Timestamp)]) -> Option<f64> {
    let place = blocks.iter().position(|(_, start, end)| *start <= at && at < *end)?;
    let mut end = blocks[place].2;
    for (_, start, next) in &blocks[place + 1..] {
        // Speech has gaps, but none between what the device has and what fades out.
        if start.since(end) > Duration::from_millis(30) {
            break;
        }
        end = *next;
    }
    Some(end.since(at).as_nanos() as f64)
}

/// A voice that says a long text every period, a loudspeaker, and who interrupts both.
fn voice(options: &Options, folder: &Path) -> Result<Scripted> {
    let mut graph = Scripted::default();
    let (mut said, count) = (0, options.interrupts);
    let texts = graph.node("texts", "texts", SPEAKS, move |cx| {
        let text = "this is what somebody says who does not stop by himself for a while.";
        cx.send_at(TEXT, cx.now(), Text { turn: said, ..Text::from(text) });
        said += 1;
        if said == count {
            cx.end();
        } else {
            cx.resume_at(Timestamp::ZERO + PERIOD * u32::try_from(said).unwrap_or(u32::MAX));
        }
    });
    let (mut sent, mut random) = (0, fastrand::Rng::with_seed(7));
    let barge = graph.node("barge", "barge", INTERRUPTS, move |cx| {
        if sent > 0 {
            cx.send_at(INTERRUPT, cx.now(), Interruption { reason: "chance".to_owned() });
        }
        if sent == count {
            cx.end();
        } else {
            let begin = PERIOD * u32::try_from(sent).unwrap_or(u32::MAX);
            let moment = Duration::from_micros(random.u64(300_000..1_100_000));
            cx.resume_at(Timestamp::ZERO + begin + moment);
        }
        sent += 1;
    });
    let path = |name: &str, path: PathBuf| (name.to_owned(), ParamValue::Path(path));
    let speaker = [
        path("path", folder.join("voice.wav")),
        ("pace".to_owned(), ParamValue::Text("realtime".to_owned())),
    ];
    for (name, def, params) in [
        ("tts", NodeDef::of::<Tts>(), [path("model", options.pipelines.join("models/tts"))].into()),
        ("speaker", NodeDef::of::<WavSink>(), speaker.into()),
    ] {
        graph.0.nodes.push(CheckedNode { params, canceled: true, ..CheckedNode::new(name, def) });
    }
    let (tts, speaker) = (graph.0.nodes.len() - 2, graph.0.nodes.len() - 1);
    graph.edge((texts, "text"), (tts, "text"), policy(OnFull::Block, 4));
    let audio: EdgePolicy = policy(OnFull::Block, 16);
    graph.edge((tts, "audio"), (speaker, "audio"), audio);
    graph.0.interrupt = Some((barge, graph.output(barge, "interrupt")));
    Ok(graph)
}

/// The sample of the voice agent for so many minutes.
fn hour(options: &Options) -> Result<Vec<Figure>> {
    let folder = tempfile::tempdir()?;
    let truth = fs::read_to_string(options.pipelines.join("assets/question.json"))?;
    let truth: Value = serde_json::from_str(&truth)?;
    let asked = truth["sentences"].as_array().map_or(0, Vec::len);
    let sound = hound::WavReader::open(options.pipelines.join("assets/question.wav"))?;
    let length = f64::from(sound.duration()) / f64::from(sound.spec().sample_rate);
    let rounds = (options.minutes * 60.0 / length).floor().max(1.0);
    let seconds = format!("{}s", rounds * length);
    let answer = format!("speaker.path={}", folder.path().join("answer.wav").display());
    let set = ["--virtual", "--duration", &seconds, "--set", "sound.repeat=true", "--set", &answer];
    let mut child = start(options, "voice_agent.yaml", &set)?;
    let (mut resident, mut summary) = (Vec::new(), Value::Null);
    let lines = child.stdout.take().context("the program has no output")?;
    for line in BufReader::new(lines).lines() {
        let line: Value = serde_json::from_str(&line?).unwrap_or_default();
        if line["event"] == "final" {
            resident.push(process::resident_bytes_of(child.id()).unwrap_or(0) as f64);
        }
        if let Some(found) = line.get("summary") {
            summary = found.clone();
        }
    }
    ensure!(child.wait()?.success(), "voice_agent.yaml failed");
    let turns = summary["waterfall"].as_array().cloned().unwrap_or_default();
    let expected = rounds * asked as f64;
    let last = |turn: &Value| turn["stages"].as_array()?.last()?["after_ms"].as_f64();
    let delays: Vec<f64> = turns.iter().filter_map(last).collect();
    let tenth = (delays.len() / 10).max(1);
    let median = |part: &[f64]| quantile(&mut part.to_vec(), 0.5);
    let drift = median(&delays[delays.len().saturating_sub(tenth)..])
        - median(&delays[..tenth.min(delays.len())]);
    // After a quarter everything has been used once.
    let quarter = resident.get(resident.len() / 4).copied().unwrap_or(0.0);
    let growth = resident.last().copied().unwrap_or(0.0) - quarter;
    Ok(vec![
        Figure::new("hour_turns", turns.len() as f64, "answered"),
        Figure::new("hour_lost_turns", expected - turns.len() as f64, "").at_most(0.0),
        Figure::new("hour_drift", drift, "ms").at_most(5.0),
        Figure::new("hour_growth", growth / 1048576.0, "MiB").at_most(4.0),
    ])
}

/// The share of a core that waiting for the wake word takes.
fn idle(options: &Options) -> Result<Figure> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("silence.wav");
    let (sample_format, bits_per_sample) = (SampleFormat::Int, 16);
    let spec = WavSpec { channels: 1, sample_rate: 16_000, bits_per_sample, sample_format };
    let mut writer = WavWriter::create(&path, spec)?;
    // As quiet as a room at night.
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..(options.idle * 16_000.0) as usize {
        writer.write_sample(random.i16(-8..=8))?;
    }
    writer.finalize()?;
    let sound = format!("sound.path={}", path.display());
    // What detects speech is not part of it.
    let set = ["--set", &sound, "--profile", "wake_only"];
    let mut child = start(options, "wake_word.yaml", &set)?;
    // Loading is not waiting.
    thread::sleep(Duration::from_secs(2));
    let (begin, before) = (Instant::now(), process::cpu_seconds_of(child.id())?);
    let (mut share, mut left) = (0.0, options.idle - 3.0);
    while left > 0.0 {
        thread::sleep(Duration::from_secs_f64(left.min(1.0)));
        left -= 1.0;
        let used = process::cpu_seconds_of(child.id())? - before;
        share = 100.0 * used / begin.elapsed().as_secs_f64();
    }
    ensure!(child.wait()?.success(), "wake_word.yaml failed");
    Ok(Figure::new("idle_wake_word", share, "% of a core").at_most(2.0))
}

fn start(options: &Options, graph: &str, arguments: &[&str]) -> Result<Child> {
    let graph = options.pipelines.join(graph);
    let mut command = process::afferent_run(options.afferent.as_deref(), &graph)?;
    command.args(arguments).stdout(Stdio::piped()).spawn().context("afferent")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_begins_behind_sound_without_gaps() {
        let ms = |ms: i64| Timestamp(ms * 1_000_000);
        let blocks =
            [(1, ms(0), ms(10)), (1, ms(10), ms(40)), (2, ms(40), ms(48)), (2, ms(90), ms(99))];
        assert_eq!(silent_after(ms(5), &blocks), Some(43e6));
        assert_eq!(silent_after(ms(60), &blocks), None);
    }
}
