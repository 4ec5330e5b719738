//! The node `asr` with transducers in the form of ExecuTorch's Parakeet, against the greedy loop of the
//! reference runner in PyTorch.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{fs, path::PathBuf, time::Duration};

use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, ParamValues, Params, Timestamp};
use afferent_messages::{AudioBlock, SampleRate, Transcript};
use afferent_nodes_speech::{Asr, AsrParams};
use afferent_runtime::ModelOptions;
use afferent_text::Tokenizer;
use serde_json::Value;

const RATE: SampleRate = SampleRate(16_000);

fn data() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/parakeet"))
}

/// SentencePiece tokenizer whose pieces the programs say.
fn tokenizer_file() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../runtime/text/tests/data/bpe.model"))
}

/// A folder as the exporter writes it: the program and the tokenizer.
fn folder(program: &str) -> PathBuf {
    let name =
        format!("afferent-{program}-{:?}-{}", std::thread::current().id(), std::process::id());
    let folder = std::env::temp_dir().join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::copy(data().join(format!("{program}.pte")), folder.join("model.pte")).unwrap();
    fs::copy(tokenizer_file(), folder.join("tokenizer.model")).unwrap();
    folder
}

fn open(program: &str, more: &[(&str, ParamValue)]) -> Result<Asr, String> {
    let folder = folder(program);
    let mut values: ParamValues = [
        ("model".to_owned(), ParamValue::Path(folder.clone())),
        ("silence".to_owned(), ParamValue::Duration(Duration::from_secs(60))),
        ("partials".to_owned(), ParamValue::Bool(false)),
    ]
    .into();
    values.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    let models = ModelOptions::new(afferent_kernels::KERNELS);
    let cx = OpenCx::with_service(models.with_backend(afferent_backend_xnnpack::Xnnpack));
    let opened = Asr::open(AsrParams::from_values(&values).unwrap(), &cx);
    fs::remove_dir_all(folder).unwrap();
    opened.map_err(|error| error.to_string())
}

/// Audio of (band, milliseconds), as the script makes it.
fn tones(parts: &Value) -> Vec<f32> {
    let mut samples = Vec::new();
    for part in parts.as_array().unwrap() {
        let (band, ms) = (part[0].as_f64().unwrap(), part[1].as_u64().unwrap());
        let level = if band > 0.0 { 0.3 } else { 0.0 };
        let at = |n: u64| 2.0 * std::f64::consts::PI * 40.0 * band * n as f64 / 16_000.0;
        samples.extend((0..16 * ms).map(|n| (at(n).sin() * level) as f32));
    }
    samples
}

/// Final transcripts of `samples` that begin at `at`.
fn transcripts(asr: Asr, samples: &[f32], at: Timestamp) -> Vec<Transcript> {
    let mut bench = NodeBench::new(asr);
    let mut sent = Vec::new();
    for (number, part) in samples.chunks(1000).enumerate() {
        let mut block = AudioBlock::default();
        block.reshape(RATE, 1, part.len()).unwrap().copy_from_slice(part);
        sent.extend(bench.call(Asr::AUDIO, at + RATE.duration(1000 * number), block).unwrap());
    }
    sent.extend(bench.finish(at + RATE.duration(samples.len())).unwrap());
    sent.iter().filter_map(|(_, packet)| packet.get::<Transcript>()).cloned().collect()
}

/// Words of tokens and rows, with their starts in rows.
fn words(said: &Value, tokenizer: &Tokenizer) -> Vec<(String, u64)> {
    let mut words: Vec<(String, u64)> = Vec::new();
    let mut tokens = Vec::new();
    for one in said.as_array().unwrap() {
        let before = tokenizer.decode(&tokens).unwrap();
        tokens.push(u32::try_from(one[0].as_u64().unwrap()).unwrap());
        let all = tokenizer.decode(&tokens).unwrap();
        let text = &all[before.len()..];
        match words.last_mut() {
            Some((word, _)) if !text.starts_with(' ') => word.push_str(text),
            _ => words.push((text.trim_start().to_owned(), one[1].as_u64().unwrap())),
        }
    }
    words
}

#[test]
fn tokens_and_times_are_those_of_the_reference_loop() {
    let cases = fs::read_to_string(data().join("cases.json")).unwrap();
    let cases: Value = serde_json::from_str(&cases).unwrap();
    let tokenizer = Tokenizer::open(tokenizer_file()).unwrap();
    let start = Timestamp(5_000_000_000);
    let mut count = 0;
    for program in ["tdt", "rnnt"] {
        for case in cases.as_array().unwrap() {
            let found = transcripts(open(program, &[]).unwrap(), &tones(&case["tones"]), start);
            let found: Vec<(String, u64)> = found
                .iter()
                .flat_map(|transcript| &transcript.words)
                .map(|word| {
                    let row = word.start.since(start).as_millis() / 80;
                    (word.text.clone(), u64::try_from(row).unwrap())
                })
                .collect();
            let expected = words(&case[program], &tokenizer);
            assert_eq!(found, expected, "{program}: {case}");
            count += expected.len();
        }
    }
    assert!(count > 30, "{count} words");
}

#[test]
fn parameters_of_other_models_are_rejected() {
    let told = open("tdt", &[("language", ParamValue::Text("de".to_owned()))]).err().unwrap();
    assert_eq!(told, "parameter language: requires a Whisper model; this one is a transducer");
    let told = open("tdt", &[("hot_words", ParamValue::Text("x".to_owned()))]).err().unwrap();
    assert!(told.starts_with("parameter hot_words: requires a model with CTC"), "{told}");
}
