//! The node `tts` with Kokoro in both forms, against a plain loop over the same modules in PyTorch; see
//! `tools/stand_ins/kokoro.py`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, ParamValues, Params, Timestamp};
use afferent_messages::{AudioBlock, SampleRate, Text, Word};
use afferent_nodes_speech::{Tts, TtsParams};
use afferent_runtime::ModelOptions;
use serde_json::Value;

const RATE: SampleRate = SampleRate(24_000);
/// Samples of a frame.
const FRAME: usize = 600;

fn data() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/kokoro"))
}

/// A folder as a user has it: the programs of a form, the dictionary, and voices.
fn folder(form: &str) -> PathBuf {
    let thread = std::thread::current().id();
    let name = format!("afferent-kokoro-{form}-{thread:?}-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    fs::create_dir_all(folder.join("voices")).unwrap();
    for entry in fs::read_dir(data().join(form)).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
    }
    fs::copy(data().join("lexicon.txt"), folder.join("lexicon.txt")).unwrap();
    for voice in ["af_one.bin", "bm_two.bin"] {
        fs::copy(data().join(voice), folder.join("voices").join(voice)).unwrap();
    }
    folder
}

fn open(folder: &Path, more: &[(&str, ParamValue)]) -> Result<Tts, String> {
    let mut values: ParamValues =
        [("model".to_owned(), ParamValue::Path(folder.to_owned()))].into();
    values.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    let models = ModelOptions::new(afferent_kernels::KERNELS);
    let cx = OpenCx::with_service(models.with_backend(afferent_backend_xnnpack::Xnnpack));
    let opened = Tts::open(TtsParams::from_values(&values).unwrap(), &cx);
    opened.map_err(|error| error.to_string())
}

fn text(value: &str) -> ParamValue {
    ParamValue::Text(value.to_owned())
}

fn size(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap()).unwrap()
}

/// Start and end of each word of a part, in samples of the kept sound.
fn word_times(part: &Value) -> Vec<(usize, usize)> {
    let frames: Vec<usize> = part["frames"].as_array().unwrap().iter().map(size).collect();
    let (first, len) = (size(&part["first"]), size(&part["len"]));
    let at = |token: usize| {
        let sample = FRAME * frames[..token].iter().sum::<usize>();
        sample.clamp(first, first + len) - first
    };
    let (mut words, mut token) = (Vec::new(), 1);
    for word in part["phonemes"].as_str().unwrap().split(' ') {
        let symbols = word.trim_end_matches(['.', ',', '!', '?']).chars().count();
        words.push((at(token), at(token + symbols)));
        token += word.chars().count() + 1;
    }
    words
}

#[test]
fn audio_and_words_are_those_of_the_reference_loop_in_both_forms() {
    let cases = fs::read_to_string(data().join("cases.json")).unwrap();
    let cases: Vec<Value> = serde_json::from_str(&cases).unwrap();
    let start = Timestamp(5_000_000_000);
    for form in ["one", "several"] {
        let folder = folder(form);
        for case in &cases {
            let said = case["text"].as_str().unwrap();
            let mut more = vec![("voice", text(case["voice"].as_str().unwrap()))];
            more.push(("phonemizer", text("own")));
            more.extend(case["speed"].as_f64().map(|value| ("pace", ParamValue::Float(value))));
            let mut bench = NodeBench::new(open(&folder, &more).unwrap());
            let sent = bench.call(Tts::TEXT, start, Text::from(said)).unwrap();
            let (mut found, mut words) = (Vec::new(), Vec::new());
            for (_, packet) in &sent {
                if let Some(block) = packet.get::<AudioBlock>() {
                    assert_eq!(block.rate, RATE);
                    assert_eq!(packet.header.at, start + RATE.duration(found.len()));
                    found.extend_from_slice(block.channel(0).unwrap());
                } else {
                    let word = packet.get::<Word>().unwrap();
                    words.push((packet.header.at.since(start), word.duration));
                }
            }
            let (mut at, mut expected_words) = (0, Vec::new());
            for part in case["parts"].as_array().unwrap() {
                let len = size(&part["len"]);
                let every = part["every_97"].as_array().unwrap();
                for (expected, found) in every.iter().zip(found[at..at + len].iter().step_by(97)) {
                    let expected = expected.as_f64().unwrap();
                    let error = (expected - f64::from(*found)).abs();
                    assert!(error < 1e-4, "{form}, {}: {found}, {expected}", part["phonemes"]);
                }
                expected_words.extend(
                    word_times(part)
                        .into_iter()
                        .map(|(from, to)| (RATE.duration(at + from), RATE.duration(to - from))),
                );
                let pause = Duration::from_millis(part["pause_ms"].as_u64().unwrap());
                at += len + RATE.samples(pause);
            }
            assert_eq!(found.len(), at, "{form}: {said}");
            assert!(found.iter().any(|sample| sample.abs() > 0.05), "{form}: {said}");
            assert_eq!(words.len(), expected_words.len(), "{form}: {said}");
            for (word, expected) in words.iter().zip(&expected_words) {
                let close = |a: Duration, b: Duration| a.abs_diff(b) < Duration::from_micros(1);
                let is_same = close(word.0, expected.0) && close(word.1, expected.1);
                assert!(is_same, "{form}: {said}: {word:?}, {expected:?}");
            }
        }
        fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn errors_name_what_is_missing() {
    let folder = folder("one");
    let check = |more: &[(&str, ParamValue)], expected: &str| {
        let told = open(&folder, more).err().unwrap();
        assert!(told.contains(expected), "{told}");
    };
    let own = ("phonemizer", text("own"));
    check(
        &[("voice", text("x"))],
        "parameter voice: the model has the voices af_one, bm_two, not x",
    );
    check(
        &[("steps", ParamValue::Int(5))],
        "parameter steps: requires a Supertonic or Voxtral model",
    );
    check(&[("language", text("de")), own.clone()], "own knows English only");
    fs::remove_file(folder.join("lexicon.txt")).unwrap();
    check(std::slice::from_ref(&own), "own needs a lexicon.txt in the folder of the model");
    fs::remove_dir_all(folder.join("voices")).unwrap();
    fs::write(folder.join("short.bin"), [0; 100]).unwrap();
    check(std::slice::from_ref(&own), "the model needs a voice: put a file with rows of 256 f32");
    fs::remove_file(folder.join("duration_predictor_xnnpack_fp32.pte")).unwrap();
    fs::remove_file(folder.join("synthesizer_xnnpack_fp32.pte")).unwrap();
    fs::copy(
        data().join("one/duration_predictor_xnnpack_fp32.pte"),
        folder.join("synthesizer.pte"),
    )
    .unwrap();
    fs::copy(data().join("several/duration_predictor.pte"), folder.join("duration_predictor.pte"))
        .unwrap();
    check(&[own], "synthesizer has another form:");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn packages_list_their_voices() {
    let folder = folder("one");
    fs::rename(folder.join("voices/bm_two.bin"), folder.join("deep.dat")).unwrap();
    let manifest = "afferent_model: 1\nname: x\ntask: text_to_speech\ncontract: kokoro-rne@0.10\n\
                    license: l\nprovenance: p\nvoices: {deep: deep.dat, high: voices/af_one.bin}\n\
                    programs:\n  duration_predictor:\n  \
                    - {file: duration_predictor_xnnpack_fp32.pte, backend: XnnpackBackend, precision: fp32}\n  \
                    synthesizer:\n  \
                    - {file: synthesizer_xnnpack_fp32.pte, backend: XnnpackBackend, precision: fp32}\n";
    fs::write(folder.join("model.yaml"), manifest).unwrap();
    let own = ("phonemizer", text("own"));
    assert!(open(&folder, std::slice::from_ref(&own)).is_ok());
    assert!(open(&folder, &[("voice", text("high")), own.clone()]).is_ok());
    let told = open(&folder, &[("voice", text("af_one")), own]).err().unwrap();
    assert_eq!(told, "parameter voice: the model has the voices deep, high, not af_one");
    fs::write(folder.join("model.yaml"), manifest.replace("deep.dat", "../deep.dat")).unwrap();
    let told = open(&folder, &[]).err().unwrap();
    assert!(told.contains("voices.deep has \"../deep.dat\", which must be a path"), "{told}");
    fs::remove_dir_all(folder).unwrap();
}
