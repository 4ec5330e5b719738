//! CPU time of voice activity detection.

use std::{
    path::PathBuf,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use afferent_engine::{RunOptions, Threads};
use afferent_graph::{In, NodeDef, OnFull, OpenCx, Out, ParamValue, Port, Timestamp};
use afferent_messages::{AudioBlock, SampleRate, SpeechEvent, SpeechEventKind};
use afferent_nodes_speech::Vad;
use afferent_spec::CheckedNode;
use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{
    bench_target::model_options,
    closure_graph::{ClosureGraph, policy},
    metrics::{self, Metric},
    process,
    timing::median,
};

/// CPU time of voice activity detection for 20 ms of audio.
///
/// The node `vad` runs in a graph on one thread as fast as possible; the time includes the engine. The
/// peers process the same audio with the same network as ONNX, written by
/// `tools/bench/export_vad.py`: sherpa-onnx in blocks of 20 ms, and onnxruntime called from Python for
/// each window, as pipecat does. Each runs on one thread.
///
/// Fails if Afferent is slower than sherpa-onnx.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Python with `sherpa-onnx`, `onnxruntime` and `numpy` in its environment.
    #[arg(long, value_name = "PYTHON", requires = "onnx")]
    sherpa: Option<PathBuf>,
    /// ONNX model for the peers.
    #[arg(long, value_name = "FILE")]
    onnx: Option<PathBuf>,
    /// Mono WAV file at 16 kHz, which is repeated.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/assets/question.wav"))]
    sound: PathBuf,
    /// Package of the voice activity detector.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/models/vad"))]
    model: PathBuf,
    /// Duration of the audio per round in seconds.
    #[arg(long, default_value_t = 600)]
    seconds: usize,
    /// Number of rounds.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

const RATE: SampleRate = SampleRate(16_000);
const BLOCK_SAMPLES: usize = 320;
const AUDIO: Out<AudioBlock> = Out::at(0, "audio");
const EVENTS: In<SpeechEvent> = In::at(0, "events");
const SOURCE_PORTS: &[Port] = &[AUDIO.port()];
const SINK_PORTS: &[Port] = &[EVENTS.port()];

/// Returns the metrics as text, and an error if a metric exceeds its limit.
pub(crate) fn run(options: &Options, json: bool) -> Result<(String, Result<()>)> {
    let mut reader = hound::WavReader::open(&options.sound)
        .with_context(|| format!("cannot read {}", options.sound.display()))?;
    let spec = reader.spec();
    ensure!(
        (spec.sample_rate, spec.channels, spec.bits_per_sample) == (RATE.0, 1, 16),
        "{} must be 16-bit mono at 16 kHz",
        options.sound.display()
    );
    let samples = reader.samples::<i16>().map(|sample| Ok(f32::from(sample?) / 32768.0));
    let audio: Arc<[f32]> = samples.collect::<Result<Vec<f32>>>()?.into();
    ensure!(audio.len() >= BLOCK_SAMPLES, "{} is empty", options.sound.display());
    let mut times: [Vec<f64>; 3] = Default::default();
    let (mut found, mut peer_found) = (0, f64::NAN);
    for _ in 0..options.rounds.max(1) {
        let (micros, starts) = run_graph(options, &audio)?;
        times[0].push(micros);
        found = starts;
        if let Some(result) = run_peers(options)? {
            let number = |name: &str| {
                result[name].as_f64().with_context(|| format!("the peer printed no {name}"))
            };
            times[1].push(number("sherpa_us")?);
            times[2].push(number("onnxruntime_us")?);
            peer_found = number("segments")?;
        }
    }
    let [own, sherpa, runtime] = times.map(median);
    let mut per_block = Metric::new("vad_20_ms", own, "us");
    let mut segments = Metric::new("vad_segments", found as f64, "");
    let mut notes = Vec::new();
    if options.sherpa.is_some() {
        per_block = per_block.peer("sherpa-onnx", sherpa).at_most(sherpa);
        segments = segments.peer("sherpa-onnx", peer_found);
    } else {
        notes.push("sherpa-onnx: skipped (pass --sherpa PYTHON --onnx FILE)".to_owned());
    }
    let mut metrics = vec![per_block];
    if options.sherpa.is_some() {
        metrics.push(Metric::new("vad_20_ms", own, "us").peer("onnxruntime, Python", runtime));
    }
    metrics.push(segments);
    let title = format!("{} s of audio, {} rounds", options.seconds, options.rounds);
    Ok((metrics::text(title, &metrics, notes, json), metrics::verdict(&metrics)))
}

/// Runs the graph. Returns the CPU time per block in microseconds, and the number of speech starts.
fn run_graph(options: &Options, audio: &Arc<[f32]>) -> Result<(f64, usize)> {
    let blocks = options.seconds * RATE.0 as usize / BLOCK_SAMPLES;
    let mut graph = ClosureGraph::default();
    let (audio, mut sent) = (audio.clone(), 0);
    let source = graph.node("sound", "one", SOURCE_PORTS, move |cx| {
        let mut block = cx.loan(AUDIO);
        if let Ok(samples) = block.reshape(RATE, 1, BLOCK_SAMPLES) {
            let from = audio.iter().cycle().skip(sent * BLOCK_SAMPLES % audio.len());
            samples.iter_mut().zip(from).for_each(|(sample, from)| *sample = *from);
        }
        let at = Duration::from_millis(20) * u32::try_from(sent).unwrap_or(u32::MAX);
        cx.send_at(AUDIO, Timestamp::ZERO + at, block);
        sent += 1;
        if sent == blocks {
            cx.end();
        }
    });
    let params = [("model".to_owned(), ParamValue::Path(options.model.clone()))].into();
    let node = CheckedNode { params, ..CheckedNode::new("vad", NodeDef::of::<Vad>()) };
    graph.0.nodes.push(node);
    let vad = graph.0.nodes.len() - 1;
    let starts = Arc::new(AtomicUsize::new(0));
    let sink_starts = starts.clone();
    let sink = graph.node("starts", "one", SINK_PORTS, move |cx| {
        let is_start = |event: &SpeechEvent| event.kind == SpeechEventKind::Start;
        if cx.get(EVENTS).is_some_and(is_start) {
            sink_starts.fetch_add(1, Ordering::Relaxed);
        }
    });
    graph.edge((source, "audio"), (vad, "audio"), policy(OnFull::Block, 4));
    graph.edge((vad, "events"), (sink, "events"), policy(OnFull::Block, 4));
    let services = OpenCx::with_service(model_options());
    let run_options = RunOptions { threads: Threads::Single, ..RunOptions::default() };
    let before = process::cpu_seconds_of(std::process::id())?;
    let report = afferent_engine::run(&graph.0, &services, run_options)?;
    let used = process::cpu_seconds_of(std::process::id())? - before;
    ensure!(report.failures.is_empty(), "{:?}", report.failures);
    Ok((used * 1e6 / blocks as f64, starts.load(Ordering::Relaxed)))
}

/// Runs the peers, if configured, and returns the JSON object that they print.
fn run_peers(options: &Options) -> Result<Option<Value>> {
    let (Some(python), Some(onnx)) = (&options.sherpa, &options.onnx) else { return Ok(None) };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/sherpa_vad.py");
    let output = Command::new(python)
        .arg(script)
        .args([onnx, &options.sound])
        .arg(options.seconds.to_string())
        .output()
        .with_context(|| format!("cannot start {}", python.display()))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} {script}: {stderr}", python.display());
    Ok(Some(serde_json::from_slice(&output.stdout).context("the peer printed no JSON")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speech_is_detected_in_the_recording() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines");
        let options = Options {
            sherpa: None,
            onnx: None,
            sound: format!("{root}/assets/question.wav").into(),
            model: format!("{root}/models/vad").into(),
            seconds: 20,
            rounds: 1,
        };
        let (text, verdict) = run(&options, false).unwrap();
        verdict.unwrap();
        assert!(text.contains("sherpa-onnx: skipped"), "{text}");
        let samples = hound::WavReader::open(&options.sound).unwrap().into_samples::<i16>();
        let audio: Vec<f32> = samples.map(|sample| f32::from(sample.unwrap()) / 32768.0).collect();
        assert!(run_graph(&options, &audio.into()).unwrap().1 > 0);
    }
}
