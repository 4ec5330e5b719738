//! What detection of speech costs.

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
    figures::{self, Figure},
    process,
    scripted::{Scripted, policy},
    subject::model_options,
    timing::median,
};

/// Processor time that detection of speech takes for 20 ms of sound.
///
/// The node `vad` runs in a graph on one thread, as fast as sound is there, all of the engine
/// included. The peers get the same sound and the same network as ONNX, which
/// `tools/bench/export_vad.py` writes: sherpa-onnx in blocks of 20 ms, and onnxruntime called from
/// Python for each window, as pipecat does; each on one thread.
///
/// Fails when ours takes longer than sherpa-onnx.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// A Python whose environment has `sherpa-onnx`, `onnxruntime` and `numpy`.
    #[arg(long, value_name = "PYTHON", requires = "onnx")]
    sherpa: Option<PathBuf>,
    /// The network for the peers.
    #[arg(long, value_name = "FILE")]
    onnx: Option<PathBuf>,
    /// Sound of one channel at 16 kHz, which is repeated.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/assets/question.wav"))]
    sound: PathBuf,
    /// The detector.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/models/vad"))]
    model: PathBuf,
    /// Seconds of sound in each round.
    #[arg(long, default_value_t = 600)]
    seconds: usize,
    /// How often everything is measured.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

const RATE: SampleRate = SampleRate(16_000);
const BLOCK: usize = 320;
const AUDIO: Out<AudioBlock> = Out::at(0, "audio");
const EVENTS: In<SpeechEvent> = In::at(0, "events");
const SOURCE: &[Port] = &[AUDIO.port()];
const SINK: &[Port] = &[EVENTS.port()];

/// The figures as text, and whether they are as they should be.
pub(crate) fn run(options: &Options, json: bool) -> Result<(String, Result<()>)> {
    let mut reader = hound::WavReader::open(&options.sound)
        .with_context(|| format!("cannot read {}", options.sound.display()))?;
    let spec = reader.spec();
    ensure!(
        (spec.sample_rate, spec.channels, spec.bits_per_sample) == (RATE.0, 1, 16),
        "{} is not of one channel of 16 bits at 16 kHz",
        options.sound.display()
    );
    let samples = reader.samples::<i16>().map(|sample| Ok(f32::from(sample?) / 32768.0));
    let sound: Arc<[f32]> = samples.collect::<Result<Vec<f32>>>()?.into();
    ensure!(sound.len() >= BLOCK, "{} is empty", options.sound.display());
    let mut times: [Vec<f64>; 3] = Default::default();
    let (mut found, mut peers_found) = (0, f64::NAN);
    for _ in 0..options.rounds.max(1) {
        let (micros, starts) = ours(options, &sound)?;
        times[0].push(micros);
        found = starts;
        if let Some(said) = peers(options)? {
            let number =
                |name: &str| said[name].as_f64().context("the peer printed something else");
            times[1].push(number("sherpa_us")?);
            times[2].push(number("onnxruntime_us")?);
            peers_found = number("pieces")?;
        }
    }
    let [ours, sherpa, runtime] = times.map(median);
    let mut per_block = Figure::new("vad_20_ms", ours, "us");
    let mut pieces = Figure::new("vad_pieces", found as f64, "");
    let mut notes = Vec::new();
    if options.sherpa.is_some() {
        per_block = per_block.peer("sherpa-onnx", sherpa).at_most(sherpa);
        pieces = pieces.peer("sherpa-onnx", peers_found);
    } else {
        notes.push("sherpa-onnx: skipped (pass --sherpa PYTHON --onnx FILE)".to_owned());
    }
    let mut figures = vec![per_block];
    if options.sherpa.is_some() {
        figures.push(Figure::new("vad_20_ms", ours, "us").peer("onnxruntime, Python", runtime));
    }
    figures.push(pieces);
    let title = format!("speech in {} s of sound, {} rounds", options.seconds, options.rounds);
    Ok((figures::text(title, &figures, notes, json), figures::verdict(&figures)))
}

/// Microseconds of processor time for a block, and how often speech began.
fn ours(options: &Options, sound: &Arc<[f32]>) -> Result<(f64, usize)> {
    let blocks = options.seconds * RATE.0 as usize / BLOCK;
    let mut graph = Scripted::default();
    let (sound, mut sent) = (sound.clone(), 0);
    let source = graph.node("sound", "one", SOURCE, move |cx| {
        let mut block = cx.loan(AUDIO);
        if let Ok(samples) = block.reshape(RATE, 1, BLOCK) {
            let from = sound.iter().cycle().skip(sent * BLOCK % sound.len());
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
    let counted = starts.clone();
    let sink = graph.node("starts", "one", SINK, move |cx| {
        let is_start = |event: &SpeechEvent| event.kind == SpeechEventKind::Start;
        if cx.get(EVENTS).is_some_and(is_start) {
            counted.fetch_add(1, Ordering::Relaxed);
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

/// What the peers print, if there are any.
fn peers(options: &Options) -> Result<Option<Value>> {
    let (Some(python), Some(onnx)) = (&options.sherpa, &options.onnx) else { return Ok(None) };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/sherpa_vad.py");
    let output = Command::new(python)
        .arg(script)
        .args([onnx, &options.sound])
        .arg(options.seconds.to_string())
        .output()
        .with_context(|| format!("cannot start {}", python.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} {script}: {said}", python.display());
    Ok(Some(serde_json::from_slice(&output.stdout).context("the peer printed no JSON")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speech_is_found_in_the_sample() {
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
        let sound: Vec<f32> = samples.map(|sample| f32::from(sample.unwrap()) / 32768.0).collect();
        assert!(ours(&options, &sound.into()).unwrap().1 > 0);
    }
}
