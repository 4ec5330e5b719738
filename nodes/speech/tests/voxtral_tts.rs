//! The node `tts` with Voxtral, against the loop of the reference runner over the same modules in PyTorch;
//! see `tools/stand_ins/voxtral_tts.py`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, ParamValues, Params, Timestamp};
use afferent_messages::{AudioBlock, SampleRate, Text, Word};
use afferent_nodes_speech::{Tts, TtsParams};
use afferent_runtime::ModelOptions;
use serde_json::Value;

const RATE: SampleRate = SampleRate(24_000);
const FRAME: usize = 1920;
/// Pause after a sentence.
const PAUSE: usize = 6000;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// A folder as a user has it: the programs, the tokenizer, and voices.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let voices = folder.path().join("voice_embedding");
    fs::create_dir(&voices).unwrap();
    for name in ["model.pte", "codec_decoder.pte"] {
        fs::copy(data("voxtral_tts").join(name), folder.path().join(name)).unwrap();
    }
    for name in ["calm.pt", "loud.bin"] {
        fs::copy(data("voxtral_tts").join(name), voices.join(name)).unwrap();
    }
    fs::copy(data("hearing/tekken.json"), folder.path().join("tekken.json")).unwrap();
    folder
}

fn open(folder: &Path, more: &[(&str, ParamValue)]) -> Result<Tts, String> {
    let mut values: ParamValues =
        [("model".to_owned(), ParamValue::Path(folder.to_owned()))].into();
    values.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    let cx = OpenCx::with_service(ModelOptions::new(afferent_kernels::KERNELS));
    let opened = Tts::open(TtsParams::from_values(&values).unwrap(), &cx);
    opened.map_err(|error| error.to_string())
}

/// Samples and words of `text`; words have the number of their first sample.
fn speak(
    bench: &mut NodeBench<Tts>,
    text: &str,
    at: Timestamp,
) -> (Vec<f32>, Vec<(String, usize)>) {
    let (mut samples, mut words) = (Vec::new(), Vec::new());
    for (_, packet) in bench.call(Tts::TEXT, at, Text::from(text)).unwrap() {
        if let Some(word) = packet.get::<Word>() {
            let start = packet.header.at.since(at);
            words.push((word.text.clone(), RATE.samples(start)));
        } else if let Some(block) = packet.get::<AudioBlock>() {
            assert_eq!(block.rate, RATE);
            samples.extend_from_slice(block.channel(0).unwrap());
        }
    }
    (samples, words)
}

fn cases() -> Vec<Value> {
    let text = fs::read_to_string(data("voxtral_tts/cases.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn bench(folder: &Path, case: &Value) -> NodeBench<Tts> {
    let voice = ParamValue::Text(case["voice"].as_str().unwrap().to_owned());
    let number = |name: &str| ParamValue::Int(case[name].as_i64().unwrap());
    let more = [("voice", voice), ("seed", number("seed")), ("steps", number("steps"))];
    NodeBench::new(open(folder, &more).unwrap())
}

/// Checks the audio of a case at the start of `samples`; returns its length with the pause.
fn check(case: &Value, samples: &[f32]) -> usize {
    let len = usize::try_from(case["frames"].as_u64().unwrap()).unwrap() * FRAME;
    let every = case["every_997"].as_array().unwrap();
    let mut loud = 0.0_f64;
    for (at, (expected, found)) in every.iter().zip(samples[..len].iter().step_by(997)).enumerate()
    {
        let expected = expected.as_f64().unwrap();
        let error = (expected - f64::from(*found)).abs();
        assert!(error < 1e-4, "sample {}: {found}, {expected}: {case}", at * 997);
        loud = loud.max(expected.abs());
    }
    assert!(loud > 0.05, "{case}");
    assert!(samples[len..len + PAUSE].iter().all(|&sample| sample == 0.0), "{case}");
    len + PAUSE
}

#[test]
fn audio_is_that_of_the_reference_loop() {
    let folder = folder();
    for case in cases() {
        let mut bench = bench(folder.path(), &case);
        let text = case["text"].as_str().unwrap();
        let (samples, words) = speak(&mut bench, text, Timestamp(5_000_000_000));
        assert_eq!(check(&case, &samples), samples.len());
        let written: Vec<&str> =
            text.split(' ').map(|word| word.trim_matches(['.', ',', '!'])).collect();
        let spoken: Vec<&str> = words.iter().map(|(word, _)| word.as_str()).collect();
        assert_eq!(spoken, written);
        assert!(words.is_sorted_by_key(|(_, at)| *at) && words[1].1 > 0, "{words:?}");
    }
}

#[test]
fn the_next_sentence_reads_the_same_voice() {
    let folder = folder();
    let case = &cases()[0];
    let mut bench = bench(folder.path(), case);
    let text = case["text"].as_str().unwrap();
    let (samples, _) = speak(&mut bench, &format!("{text} {text}"), Timestamp(0));
    let second = check(case, &samples);
    // The seed and the voice are those of the first sentence.
    assert_eq!(second + check(case, &samples[second..]), samples.len());
}

#[test]
fn errors_name_what_is_missing() {
    let folder = folder();
    let text = |text: &str| ParamValue::Text(text.to_owned());
    let told = |more: &[(&str, ParamValue)]| open(folder.path(), more).err().unwrap();
    let unknown = told(&[("voice", text("shy"))]);
    assert_eq!(unknown, "parameter voice: the model has the voices calm, loud, not shy");
    let language = told(&[("language", text("de"))]);
    assert!(
        language.ends_with("requires a Supertonic or Kokoro model; this one is Voxtral"),
        "{language}"
    );
    let pace = told(&[("pace", ParamValue::Float(1.5))]);
    assert_eq!(pace, "parameter pace: must be 1: Voxtral speaks at the pace of its voice");
    let calm = folder.path().join("voice_embedding/calm.pt");
    fs::write(&calm, "PK").unwrap();
    assert!(told(&[]).contains("calm.pt: it is no file of torch.save"), "{}", told(&[]));
    fs::remove_file(folder.path().join("codec_decoder.pte")).unwrap();
    let codec = told(&[]);
    assert!(codec.contains("and a program codec_decoder with forward"), "{codec}");
}
