//! Barge-in latency, an hour of conversation, and the CPU load of wake word detection.

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
    bench_target::model_options,
    closure_graph::{ClosureGraph, policy},
    metrics::{self, Metric, quantile},
    process,
};

/// Barge-in latency, an hour of conversation, and the CPU load of wake word detection.
///
/// Interrupts arrive at random times while the voice speaks to a loudspeaker with a buffer of 40 ms,
/// on the real clock. The latency ends with the last audible sample, including the fade-out. The hour
/// repeats the recording of `pipelines/voice_agent.yaml` on the virtual clock: every question must be
/// answered, latency must not increase, and memory must not grow. Wake word detection is
/// `pipelines/wake_word.yaml` on silence, on the real clock.
///
/// Fails if a metric exceeds its limit.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Number of interrupts.
    #[arg(long, default_value_t = 100)]
    interrupts: u64,
    /// Duration of the conversation in minutes.
    #[arg(long, default_value_t = 60.0)]
    minutes: f64,
    /// Duration of wake word detection in seconds.
    #[arg(long, default_value_t = 20.0)]
    idle: f64,
    /// Program `afferent`; default: next to this program.
    #[arg(long)]
    afferent: Option<PathBuf>,
    /// Folder of the graphs.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines"))]
    pipelines: PathBuf,
}

/// Returns the metrics as text, and an error if a metric exceeds its limit.
pub(crate) fn run(options: &Options, json: bool) -> Result<(String, Result<()>)> {
    let mut metrics = interruptions(options)?;
    metrics.extend(hour(options)?);
    metrics.push(idle(options)?);
    let text = metrics::text("conversation".to_owned(), &metrics, Vec::new(), json);
    Ok((text, metrics::verdict(&metrics)))
}

const TEXT: Out<Text> = Out::at(0, "text");
const INTERRUPT: Out<Interruption> = Out::at(0, "interrupt");
const TEXT_PORTS: &[Port] = &[TEXT.port()];
const INTERRUPT_PORTS: &[Port] = &[INTERRUPT.port()];

/// Time between two texts. Each text is interrupted once.
const PERIOD: Duration = Duration::from_millis(1200);

/// Interrupts and played audio.
#[derive(Default)]
struct Playback {
    interrupts: Vec<Timestamp>,
    /// Epoch, start and end of each block that is not silence.
    blocks: Vec<(u32, Timestamp, Timestamp)>,
    /// Number of blocks that arrived after a block of a later epoch.
    stale: u64,
}

#[derive(Default)]
struct PlaybackObserver(Mutex<Playback>);

impl Observer for PlaybackObserver {
    fn sent(&self, node: &str, port: &str, now: Timestamp, packet: &Packet) {
        let mut playback = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if packet.get::<Interruption>().is_some() {
            playback.interrupts.push(now);
        } else if let (Some(block), "speaker", "heard") = (packet.get::<AudioBlock>(), node, port) {
            let samples = block.samples.data::<f32>().unwrap_or_default();
            // The block ends after its last audible sample.
            let Some(last) = samples.iter().rposition(|sample| sample.abs() > 1e-4) else { return };
            let (epoch, at) = (packet.header.epoch, packet.header.at);
            if playback.blocks.last().is_some_and(|(other, ..)| *other > epoch) {
                playback.stale += 1;
            }
            playback.blocks.push((epoch, at, at + block.rate.duration(last + 1)));
        }
    }
}

fn interruptions(options: &Options) -> Result<Vec<Metric>> {
    let folder = tempfile::tempdir()?;
    let observer = Arc::new(PlaybackObserver::default());
    let graph = voice(options, folder.path())?;
    let run_options = RunOptions { observers: vec![observer.clone()], ..RunOptions::default() };
    let services = OpenCx::with_service(model_options());
    let report = afferent_engine::run(&graph.0, &services, run_options)?;
    ensure!(report.failures.is_empty(), "{:?}", report.failures);
    let playback = observer.0.lock().unwrap_or_else(PoisonError::into_inner);
    let interrupts = playback.interrupts.iter();
    let mut latencies: Vec<f64> =
        interrupts.filter_map(|at| time_to_silence(*at, &playback.blocks)).collect();
    ensure!(
        latencies.len() as u64 * 2 > options.interrupts,
        "only {} interrupts arrived during playback",
        latencies.len()
    );
    let count = latencies.len() as f64;
    let mut ms = |share| quantile(&mut latencies, share) / 1e6;
    Ok(vec![
        Metric::new("interrupts_while_speaking", count, ""),
        Metric::new("interrupt_to_silence", ms(0.5), "ms"),
        Metric::new("interrupt_to_silence_p95", ms(0.95), "ms").at_most(60.0),
        Metric::new("interrupt_to_silence_max", ms(1.0), "ms"),
        Metric::new("interrupt_stale_blocks", playback.stale as f64, "").at_most(0.0),
    ])
}

/// Time from `at` to the end of the audio that is playing at `at`, in nanoseconds.
fn time_to_silence(at: Timestamp, blocks: &[(u32, Timestamp, Timestamp)]) -> Option<f64> {
    let index = blocks.iter().position(|(_, start, end)| *start <= at && at < *end)?;
    let mut end = blocks[index].2;
    for (_, start, next) in &blocks[index + 1..] {
        // A longer gap is a pause in speech. The fade-out follows the device buffer without a gap.
        if start.since(end) > Duration::from_millis(30) {
            break;
        }
        end = *next;
    }
    Some(end.since(at).as_nanos() as f64)
}

/// Graph with a voice that speaks a long text every period, a loudspeaker, and a source of
/// interrupts.
fn voice(options: &Options, folder: &Path) -> Result<ClosureGraph> {
    let mut graph = ClosureGraph::default();
    let (mut spoken, count) = (0, options.interrupts);
    let texts = graph.node("texts", "texts", TEXT_PORTS, move |cx| {
        let text =
            "this is a long sentence that the voice keeps speaking until an interrupt arrives.";
        cx.send_at(TEXT, cx.now(), Text { turn: spoken, ..Text::from(text) });
        spoken += 1;
        if spoken == count {
            cx.end();
        } else {
            cx.resume_at(Timestamp::ZERO + PERIOD * u32::try_from(spoken).unwrap_or(u32::MAX));
        }
    });
    let (mut sent, mut random) = (0, fastrand::Rng::with_seed(7));
    let barge_in = graph.node("barge_in", "barge_in", INTERRUPT_PORTS, move |cx| {
        if sent > 0 {
            cx.send_at(INTERRUPT, cx.now(), Interruption { reason: "random".to_owned() });
        }
        if sent == count {
            cx.end();
        } else {
            let start = PERIOD * u32::try_from(sent).unwrap_or(u32::MAX);
            let delay = Duration::from_micros(random.u64(300_000..1_100_000));
            cx.resume_at(Timestamp::ZERO + start + delay);
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
    graph.0.interrupt = Some((barge_in, graph.output(barge_in, "interrupt")));
    Ok(graph)
}

/// Repeats the recording of the voice agent for `options.minutes`.
fn hour(options: &Options) -> Result<Vec<Metric>> {
    let folder = tempfile::tempdir()?;
    let truth = fs::read_to_string(options.pipelines.join("assets/question.json"))?;
    let truth: Value = serde_json::from_str(&truth)?;
    let questions = truth["sentences"].as_array().map_or(0, Vec::len);
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
    let expected = rounds * questions as f64;
    let last = |turn: &Value| turn["stages"].as_array()?.last()?["after_ms"].as_f64();
    let delays: Vec<f64> = turns.iter().filter_map(last).collect();
    let tenth = (delays.len() / 10).max(1);
    let median = |part: &[f64]| quantile(&mut part.to_vec(), 0.5);
    let drift = median(&delays[delays.len().saturating_sub(tenth)..])
        - median(&delays[..tenth.min(delays.len())]);
    // After a quarter of the run, all buffers and pools have their final size.
    let quarter = resident.get(resident.len() / 4).copied().unwrap_or(0.0);
    let growth = resident.last().copied().unwrap_or(0.0) - quarter;
    Ok(vec![
        Metric::new("hour_turns", turns.len() as f64, "answered"),
        Metric::new("hour_lost_turns", expected - turns.len() as f64, "").at_most(0.0),
        Metric::new("hour_drift", drift, "ms").at_most(5.0),
        Metric::new("hour_growth", growth / 1048576.0, "MiB").at_most(4.0),
    ])
}

/// CPU load of wake word detection, as a percentage of a core.
fn idle(options: &Options) -> Result<Metric> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("silence.wav");
    let (sample_format, bits_per_sample) = (SampleFormat::Int, 16);
    let spec = WavSpec { channels: 1, sample_rate: 16_000, bits_per_sample, sample_format };
    let mut writer = WavWriter::create(&path, spec)?;
    // Noise of a quiet room.
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..(options.idle * 16_000.0) as usize {
        writer.write_sample(random.i16(-8..=8))?;
    }
    writer.finalize()?;
    let sound = format!("sound.path={}", path.display());
    // The profile omits speech detection.
    let set = ["--set", &sound, "--profile", "wake_only"];
    let mut child = start(options, "wake_word.yaml", &set)?;
    // Exclude loading.
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
    Ok(Metric::new("idle_wake_word", share, "% of a core").at_most(2.0))
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
    fn silence_starts_after_contiguous_audio() {
        let ms = |ms: i64| Timestamp(ms * 1_000_000);
        let blocks =
            [(1, ms(0), ms(10)), (1, ms(10), ms(40)), (2, ms(40), ms(48)), (2, ms(90), ms(99))];
        assert_eq!(time_to_silence(ms(5), &blocks), Some(43e6));
        assert_eq!(time_to_silence(ms(60), &blocks), None);
    }
}
