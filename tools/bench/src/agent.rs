//! Correctness and latency of the voice agent on spoken questions.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use anyhow::{Context, Result, bail, ensure};
use hound::{SampleFormat, WavReader, WavSpec, WavWriter};
use serde_json::Value;

use crate::{
    metrics::quantile,
    process::afferent_run,
    table::{Table, format_number},
    timing,
};

/// Correctness and latency of `pipelines/voice_agent.yaml` on spoken questions.
///
/// espeak-ng synthesizes the questions in voices that are not in the training data, with pink noise.
/// Each question is a separate run of `afferent`. The recognizer of `pipelines/live_captions.yaml`
/// transcribes the audio of the answer. An answer is correct if the transcript contains all key words
/// in order. Needs espeak-ng.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Program `afferent`; default: next to this program.
    #[arg(long)]
    afferent: Option<PathBuf>,
    /// Folder of the graphs.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines"))]
    pipelines: PathBuf,
    /// Signal-to-noise ratio in decibels.
    #[arg(long, default_value_t = 15.0)]
    snr: f64,
    /// Use the virtual clock. The answers are the same, but the latency excludes model time.
    #[arg(long = "virtual")]
    virtual_clock: bool,
    /// Number of questions to ask.
    #[arg(long, default_value_t = QUESTIONS.len())]
    count: usize,
    /// Placement of the nodes.
    #[arg(long, value_enum, default_value_t = Placement::One)]
    placement: Placement,
}

/// Processes that the agent runs in.
#[derive(Debug, Clone, Copy, PartialEq, clap::ValueEnum)]
enum Placement {
    /// One process.
    One,
    /// The profile `processes` of the graph: models in processes of their own.
    Processes,
    /// `launch/kits/glasses_and_phone.yaml`, both machines on this one. Needs the feature `net` of
    /// `afferent`.
    Machines,
}

impl Placement {
    /// Graph file, and what names of nodes begin with.
    fn graph(self) -> (&'static str, &'static str) {
        match self {
            Self::One | Self::Processes => ("voice_agent.yaml", ""),
            Self::Machines => ("../launch/kits/glasses_and_phone.yaml", "agent/"),
        }
    }
}

/// Questions, and the key words of a correct answer.
const QUESTIONS: [(&str, &str); 20] = [
    ("how many days are in a week", "seven"),
    ("how many minutes are in an hour", "sixty"),
    ("how many hours are in a day", "twenty four"),
    ("how many seconds are in a minute", "sixty"),
    ("what is two plus three", "five"),
    ("what is seven plus two", "nine"),
    ("what is four times two", "eight"),
    ("turn on the lights in the kitchen", "kitchen on"),
    ("turn off the lights in the bedroom", "bedroom off"),
    ("please turn on the light in the garage", "garage on"),
    ("where are my keys", "table"),
    ("where is my phone", "kitchen"),
    ("do you know where my wallet is", "bag"),
    ("set a timer for ten minutes", "ten minutes"),
    ("set a timer for twenty five minutes", "twenty five minutes"),
    ("please set a timer for thirty seconds", "thirty seconds"),
    ("what time is it", "four ten"),
    ("what day is it today", "monday"),
    ("which month is the first", "january"),
    ("hello", "help"),
];

/// Tool results of the agent.
const TOOLS: &str = include_str!("../data/agent_tools.yaml");

/// Voices that are not in the training data.
const VOICES: [&str; 6] = [
    "gmw/en-GB-x-rp+f2",
    "gmw/en-029+m4",
    "gmw/en-GB-x-rp+Michael",
    "gmw/en-029+linda",
    "gmw/en-GB-x-rp+belinda",
    "gmw/en-029+caleb",
];

/// Result of a question.
#[derive(Default)]
struct Answer {
    /// Transcript of the question by the agent.
    transcript: String,
    /// Text of the answer.
    text: String,
    /// Transcript of the audio of the answer.
    read_back: String,
    is_correct: bool,
    /// Time from the end of speech to the first audio of the answer.
    first_audio_ms: Option<f64>,
    /// Part of `first_audio_ms` that is neither model time nor configured delay.
    framework_ms: Option<f64>,
}

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    let folder = tempfile::tempdir()?;
    let tools = folder.path().join("tools.yaml");
    fs::write(&tools, TOOLS)?;
    let columns = ["question", "transcript", "answer", "read back", "correct", "first audio ms"];
    let mut table = Table::new("questions to the voice agent", &columns);
    let mut answers = Vec::new();
    for (number, (question, keys)) in QUESTIONS.iter().take(options.count).enumerate() {
        let audio = folder.path().join("question.wav");
        let voice = VOICES[number % VOICES.len()];
        let samples = synthesize(question, voice, options.snr, number as u64)?;
        write(&audio, &samples)?;
        let answer = ask(options, folder.path(), &audio, &tools, keys);
        let answer = answer.with_context(|| format!("question {question:?}"))?;
        eprintln!("{} of {}: {question}: {}", number + 1, options.count, answer.read_back);
        table.row([
            (*question).to_owned(),
            answer.transcript.clone(),
            answer.text.clone(),
            answer.read_back.clone(),
            if answer.is_correct { "yes" } else { "NO" }.to_owned(),
            answer.first_audio_ms.map_or("-".to_owned(), format_number),
        ]);
        answers.push(answer);
    }
    let mut summary = Table::new(
        "all questions",
        &["correct", "of", "first audio ms p50", "p95", "framework ms p50", "p95"],
    );
    let all = |value: fn(&Answer) -> Option<f64>| -> Vec<f64> {
        answers.iter().filter_map(value).collect()
    };
    let (mut first_audio, mut framework) =
        (all(|answer| answer.first_audio_ms), all(|answer| answer.framework_ms));
    summary.row([
        answers.iter().filter(|answer| answer.is_correct).count().to_string(),
        answers.len().to_string(),
        format_number(timing::median(first_audio.clone())),
        format_number(quantile(&mut first_audio, 0.95)),
        format_number(timing::median(framework.clone())),
        format_number(quantile(&mut framework, 0.95)),
    ]);
    Ok(vec![table, summary])
}

fn ask(options: &Options, folder: &Path, audio: &Path, tools: &Path, keys: &str) -> Result<Answer> {
    let answer = folder.join("answer.wav");
    let (_, prefix) = options.placement.graph();
    let set = |name: &str, path: &Path| format!("{name}={}", path.display());
    let own = |name: &str, path: &Path| set(&format!("{prefix}{name}"), path);
    let settings =
        [own("sound.path", audio), own("speaker.path", &answer), own("tool.tools", tools)];
    let events = run_agent(options, folder, &settings)?;
    let texts = |node: &str, event: Option<&str>| {
        let node = format!("{prefix}{node}");
        let of_node = events.iter().filter(|line| line["node"] == node.as_str());
        let of_kind = of_node.filter(|line| event.is_none_or(|event| line["event"] == event));
        let texts = of_kind.filter_map(|line| line["text"].as_str());
        texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")
    };
    let (transcript, text) = (texts("asr", Some("final")), texts("sentences", None));
    let summary = events.iter().find_map(|line| line.get("summary"));
    let turn = summary.and_then(|summary| summary["waterfall"].as_array()?.first().cloned());
    let stages = turn.as_ref().and_then(|turn| turn["stages"].as_array()).cloned();
    let stages = stages.unwrap_or_default();
    let after = |stage: &Value| stage["after_ms"].as_f64().unwrap_or(0.0);
    let framework = stages.windows(2).filter_map(|pair| {
        let output = pair[1]["output"].as_str()?.strip_prefix(prefix)?;
        let is_counted = ["llm.answer", "sentences.text", "tts.audio"].contains(&output);
        let model = pair[1]["model_ms"].as_f64()?;
        is_counted.then(|| (after(&pair[1]) - after(&pair[0]) - model).max(0.0))
    });
    let framework = framework.sum();
    let captions = afferent(options, "live_captions.yaml", &[set("sound.path", &answer)], true)?;
    let finals = captions.iter().filter(|line| line["event"] == "final");
    let finals: Vec<_> = finals.filter_map(|line| line["text"].as_str()).collect();
    let read_back = finals.join(" ");
    let is_correct = contains_in_order(&read_back, keys);
    let first_audio_ms = stages.last().map(after);
    let framework_ms = (!stages.is_empty()).then_some(framework);
    Ok(Answer { transcript, text, read_back, is_correct, first_audio_ms, framework_ms })
}

/// True if `text` contains the words of `keys` in order.
fn contains_in_order(text: &str, keys: &str) -> bool {
    let mut words = text.split_whitespace();
    keys.split_whitespace().all(|key| words.any(|word| word == key))
}

/// Runs the agent and returns the JSON lines that its machines print.
fn run_agent(options: &Options, folder: &Path, settings: &[String]) -> Result<Vec<Value>> {
    let (graph, _) = options.placement.graph();
    let mut settings = settings.to_vec();
    match options.placement {
        Placement::One => return afferent(options, graph, &settings, options.virtual_clock),
        Placement::Processes => {
            let mut command = command(options, graph, &settings)?;
            command.args(["--profile", "processes"]);
            return json_lines(graph, command.stderr(Stdio::inherit()).output()?);
        }
        Placement::Machines => {}
    }
    settings.push(format!("cue.path={}", folder.join("wake.txt").display()));
    let start = |machine| -> Result<Child> {
        let mut command = command(options, graph, &settings)?;
        command.args(["--machine", machine]).stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn().context("afferent")
    };
    let (glasses, phone) = (start("glasses")?, start("phone")?);
    let mut events = json_lines(graph, glasses.wait_with_output()?)?;
    // The first machine reports on all.
    let heard = json_lines(graph, phone.wait_with_output()?)?;
    events.extend(heard.into_iter().filter(|line| line.get("summary").is_none()));
    Ok(events)
}

fn command(options: &Options, graph: &str, settings: &[String]) -> Result<Command> {
    let mut command = afferent_run(options.afferent.as_deref(), &options.pipelines.join(graph))?;
    settings.iter().for_each(|setting| _ = command.args(["--set", setting]));
    Ok(command)
}

fn json_lines(graph: &str, output: Output) -> Result<Vec<Value>> {
    ensure!(output.status.success(), "{graph} failed: {}", output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// Runs a graph and returns the JSON lines that it prints.
fn afferent(
    options: &Options,
    graph: &str,
    settings: &[String],
    virtual_clock: bool,
) -> Result<Vec<Value>> {
    let mut command = command(options, graph, settings)?;
    if virtual_clock {
        command.arg("--virtual");
    }
    json_lines(graph, command.stderr(Stdio::inherit()).output().context("afferent")?)
}

/// Synthesizes `text` at 22,050 Hz, with leading and trailing silence, and adds noise.
fn synthesize(text: &str, voice: &str, snr_db: f64, seed: u64) -> Result<Vec<f32>> {
    let file = tempfile::NamedTempFile::with_suffix(".wav")?;
    let status = Command::new("espeak-ng")
        .args(["-v", voice, "-s", "165", "-w"])
        .arg(file.path())
        .arg(text)
        .status()
        .context("cannot start espeak-ng; run apt-get install espeak-ng")?;
    ensure!(status.success(), "espeak-ng failed for the voice {voice}: {status}");
    let mut reader = WavReader::open(file.path())?;
    if reader.spec().sample_rate != RATE {
        bail!("espeak-ng wrote {} Hz, expected {RATE}", reader.spec().sample_rate);
    }
    let speech: Vec<f32> = reader
        .samples::<i16>()
        .map(|sample| sample.map(|sample| f32::from(sample) / 32768.0))
        .collect::<Result<_, _>>()?;
    let gain = SPEECH_RMS / active_rms(&speech).max(1e-6);
    let mut audio = vec![0.0; RATE as usize / 2];
    audio.extend(speech.iter().map(|sample| sample * gain));
    audio.resize(audio.len() + TAIL_S * RATE as usize, 0.0);
    let noise = pink_noise(audio.len(), seed);
    let gain = SPEECH_RMS * 10.0_f32.powf(-snr_db as f32 / 20.0) / active_rms(&noise);
    for (sample, noise) in audio.iter_mut().zip(&noise) {
        *sample = (*sample + noise * gain).clamp(-1.0, 1.0);
    }
    Ok(audio)
}

const RATE: u32 = 22_050;
/// RMS amplitude of the speech.
const SPEECH_RMS: f32 = 0.08;
/// Trailing silence, during which the agent answers.
const TAIL_S: usize = 6;

/// RMS amplitude over the 10 ms windows that are within 30 dB of the loudest one.
fn active_rms(samples: &[f32]) -> f32 {
    let power = |part: &[f32]| part.iter().map(|x| x * x).sum::<f32>() / part.len() as f32;
    let powers: Vec<f32> = samples.chunks(RATE as usize / 100).map(power).collect();
    let loudest = powers.iter().copied().fold(0.0, f32::max);
    let active: Vec<f32> = powers.into_iter().filter(|power| *power >= loudest * 1e-3).collect();
    (active.iter().sum::<f32>() / active.len().max(1) as f32).sqrt()
}

/// Pink noise (-3 dB per octave): white noise filtered by three poles.
fn pink_noise(len: usize, seed: u64) -> Vec<f32> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut state = [0.0_f32; 3];
    let poles = [(0.997_65, 0.099_046), (0.963, 0.296_516_4), (0.57, 1.052_691_3)];
    let next = |_| {
        let white = random.f32() * 2.0 - 1.0;
        for (state, (pole, gain)) in state.iter_mut().zip(poles) {
            *state = pole * *state + gain * white;
        }
        state.iter().sum::<f32>() + 0.1848 * white
    };
    (0..len).map(next).collect()
}

fn write(path: &Path, samples: &[f32]) -> Result<()> {
    let (sample_format, bits_per_sample) = (SampleFormat::Int, 16);
    let spec = WavSpec { channels: 1, sample_rate: RATE, bits_per_sample, sample_format };
    let mut writer = WavWriter::create(path, spec)?;
    samples.iter().try_for_each(|sample| writer.write_sample((sample * 32767.0) as i16))?;
    Ok(writer.finalize()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_words_must_be_in_order() {
        assert!(contains_in_order("it is twenty past four", "twenty four"));
        assert!(!contains_in_order("it is four twenty", "twenty four"));
        assert!(!contains_in_order("", "four"));
    }

    #[test]
    fn pink_noise_falls_with_frequency() {
        let noise = pink_noise(40_000, 1);
        let power = |samples: &[f32]| samples.iter().map(|x| x * x).sum::<f32>();
        let steps: Vec<f32> = noise.windows(2).map(|pair| (pair[1] - pair[0]) / 2.0).collect();
        assert!(power(&steps) < 0.3 * power(&noise));
    }
}
