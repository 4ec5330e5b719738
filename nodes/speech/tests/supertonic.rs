//! The node `tts` with Supertonic in both forms, against a plain loop over the same modules in PyTorch;
//! see `tools/stand_ins/supertonic.py`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use afferent_graph::{Node, NodeBench, OpenCx, Packet, ParamValue, ParamValues, Params, Timestamp};
use afferent_messages::{AudioBlock, SampleRate, Text, Word};
use afferent_nodes_speech::{Tts, TtsParams};
use afferent_runtime::ModelOptions;
use serde_json::Value;

const RATE: SampleRate = SampleRate(44_100);
/// Pauses after a sentence, and after a part of one.
const PAUSES_MS: [u64; 2] = [250, 100];

fn data() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/supertonic"))
}

/// A folder as a user has it: the programs of a form, the numbers of the letters, and voices.
fn folder(form: &str) -> PathBuf {
    let thread = std::thread::current().id();
    let name = format!("afferent-supertonic-{form}-{thread:?}-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    fs::create_dir_all(folder.join("voice_styles")).unwrap();
    for entry in fs::read_dir(data().join(form)).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
    }
    fs::copy(data().join("unicode_indexer.json"), folder.join("unicode_indexer.json")).unwrap();
    for voice in ["F1.json", "M1.json"] {
        fs::copy(data().join(voice), folder.join("voice_styles").join(voice)).unwrap();
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

/// Parameters of a case.
fn parameters(case: &Value) -> Vec<(&'static str, ParamValue)> {
    let mut found = Vec::new();
    for name in ["voice", "language"] {
        found.extend(case[name].as_str().map(|value| (name, text(value))));
    }
    for name in ["seed", "steps"] {
        found.extend(case[name].as_i64().map(|value| (name, ParamValue::Int(value))));
    }
    found.extend(case["pace"].as_f64().map(|value| ("pace", ParamValue::Float(value))));
    found
}

fn speak(tts: Tts, said: &str, at: Timestamp) -> Vec<(&'static str, Packet)> {
    NodeBench::new(tts).call(Tts::TEXT, at, Text::from(said)).unwrap()
}

/// Samples of the blocks, which must have no gaps.
fn samples(sent: &[(&'static str, Packet)], start: Timestamp) -> Vec<f32> {
    let (mut all, mut next) = (Vec::new(), start);
    for (_, packet) in sent.iter().filter(|(port, _)| *port == Tts::AUDIO.name()) {
        let block = packet.get::<AudioBlock>().unwrap();
        assert_eq!((packet.header.at, block.rate), (next, RATE));
        assert!(block.channel(0).unwrap().len() <= 22_050);
        next = next + block.duration();
        all.extend_from_slice(block.channel(0).unwrap());
    }
    all
}

#[test]
fn audio_is_that_of_the_reference_loop_in_both_forms() {
    let cases = fs::read_to_string(data().join("cases.json")).unwrap();
    let cases: Vec<Value> = serde_json::from_str(&cases).unwrap();
    let start = Timestamp(5_000_000_000);
    for (form, tolerance) in [("four", 1e-4), ("one", 4e-3)] {
        let folder = folder(form);
        for case in &cases {
            let tts = open(&folder, &parameters(case)).unwrap();
            let said = case["text"].as_str().unwrap();
            let found = samples(&speak(tts, said, start), start);
            let (mut at, mut loud) = (0, 0.0_f64);
            let parts = case[form].as_array().unwrap();
            for (part, text) in parts.iter().zip(case["parts"].as_array().unwrap()) {
                let len = usize::try_from(part["len"].as_u64().unwrap()).unwrap();
                let every = part["every_997"].as_array().unwrap();
                for (expected, found) in every.iter().zip(found[at..at + len].iter().step_by(997)) {
                    let expected = expected.as_f64().unwrap();
                    let error = (expected - f64::from(*found)).abs();
                    assert!(error < tolerance, "{form}, {text}: {found}, {expected}");
                    loud = loud.max(expected.abs());
                }
                let text = text.as_str().unwrap();
                let is_end = text.ends_with(['.', '!', '?', '”']);
                let pause = PAUSES_MS[usize::from(!is_end)];
                let pause = RATE.samples(std::time::Duration::from_millis(pause));
                assert!(found[at + len..at + len + pause].iter().all(|&sample| sample == 0.0));
                at += len + pause;
            }
            assert_eq!(found.len(), at, "{form}: {said}");
            assert!(loud > 0.01, "{form}: {said}");
        }
        fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn words_divide_the_time_of_their_sentence() {
    let folder = folder("four");
    let start = Timestamp(1_000_000_000);
    let sent = speak(open(&folder, &[]).unwrap(), "One two. (Three) — four!", start);
    let words = sent.iter().filter_map(|(_, packet)| {
        packet.get::<Word>().map(|word| (packet.header.at, word.clone()))
    });
    let words: Vec<(Timestamp, Word)> = words.collect();
    let texts: Vec<(&str, u32)> =
        words.iter().map(|(_, word)| (word.text.as_str(), word.position)).collect();
    assert_eq!(texts, [("One", 1), ("two", 2), ("Three", 3), ("four", 5)]);
    assert!(words.is_sorted_by_key(|(at, _)| *at));
    let len = words[1].0.since(words[0].0).as_secs_f64();
    // "One" has three letters and a space, "two." five with the space.
    let ratio = words[1].1.duration.as_secs_f64() / len;
    assert!((ratio - 1.25).abs() < 0.01, "{ratio}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn letters_that_the_model_does_not_know_are_reported() {
    for (form, is_spoken) in [("four", true), ("one", false)] {
        let folder = folder(form);
        let start = Timestamp(0);
        let sent = speak(open(&folder, &[]).unwrap(), "北京", start);
        let unspoken = sent.iter().find(|(port, _)| *port == Tts::UNSPOKEN.name());
        assert_eq!(unspoken.unwrap().1.get::<Text>().unwrap().text, "北京");
        // The four programs have a number for unknown letters.
        assert_eq!(!samples(&sent, start).is_empty(), is_spoken, "{form}");
        fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn errors_name_what_is_missing() {
    let folder = folder("four");
    let check = |more: &[(&str, ParamValue)], expected: &str| {
        let told = open(&folder, more).err().unwrap();
        assert!(told.contains(expected), "{told}");
    };
    check(&[("voice", text("Z9"))], "parameter voice: the model has the voices F1, M1, not Z9");
    check(&[("language", text("xx"))], "parameter language: the model knows ar, bg,");
    check(&[("phonemizer", text("own"))], "parameter phonemizer: requires a Kokoro model");
    fs::write(folder.join("voice_styles/A.json"), r#"{"style_ttl": {"data": []}}"#).unwrap();
    check(&[], "A.json: missing field `style_dp`");
    fs::remove_dir_all(folder.join("voice_styles")).unwrap();
    check(&[], "the model needs a voice: put a JSON with style_dp and style_ttl");
    fs::remove_file(folder.join("unicode_indexer.json")).unwrap();
    check(&[], "Supertonic needs unicode_indexer.json: put it into the folder of the model");
    fs::remove_file(folder.join("vocoder_xnnpack_fp32.pte")).unwrap();
    check(&[], "vocoder is missing among duration_predictor.forward(");
    let other = data().join("../kokoro/one/duration_predictor_xnnpack_fp32.pte");
    fs::copy(other, folder.join("vocoder.pte")).unwrap();
    check(&[], "vocoder has another form: ");
    fs::remove_dir_all(folder).unwrap();
}
