//! The node `asr` with programs in the form of ExecuTorch's Parakeet and Voxtral Realtime, against the
//! loops of the reference runners in PyTorch; see `tools/stand_ins`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, ParamValues, Params, Timestamp};
use afferent_messages::{AudioBlock, SampleRate, SpeechEvent, SpeechEventKind, Transcript};
use afferent_nodes_speech::{Asr, AsrParams};
use afferent_runtime::ModelOptions;
use afferent_text::Tokenizer;
use serde_json::Value;

const RATE: SampleRate = SampleRate(16_000);

fn data(program: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data")).join(program)
}

fn cases(folder: &str) -> Vec<Value> {
    let text = fs::read_to_string(data(folder).join("cases.json")).unwrap();
    serde_json::from_str(&text).unwrap()
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
    fs::copy(data(&format!("{program}.pte")), folder.join("model.pte")).unwrap();
    fs::copy(tokenizer_file(), folder.join("tokenizer.model")).unwrap();
    folder
}

fn open(program: &str, more: &[(&str, ParamValue)]) -> Result<Asr, String> {
    let folder = folder(program);
    let opened = open_folder(&folder, more);
    fs::remove_dir_all(folder).unwrap();
    opened
}

/// Opens the model in `folder`, with utterances of up to a minute and only final transcripts.
fn open_folder(folder: &Path, more: &[(&str, ParamValue)]) -> Result<Asr, String> {
    let minute = ParamValue::Duration(Duration::from_secs(60));
    let mut values: ParamValues = [
        ("model".to_owned(), ParamValue::Path(folder.to_owned())),
        ("silence".to_owned(), minute.clone()),
        ("max_utterance".to_owned(), minute),
        ("partials".to_owned(), ParamValue::Bool(false)),
    ]
    .into();
    values.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    let models = ModelOptions::new(afferent_kernels::KERNELS);
    let cx = OpenCx::with_service(models.with_backend(afferent_backend_xnnpack::Xnnpack));
    let opened = Asr::open(AsrParams::from_values(&values).unwrap(), &cx);
    opened.map_err(|error| error.to_string())
}

/// Audio of (frequency, milliseconds), as the scripts make it; the unit of the frequency is `hz`.
fn tones(parts: &Value, hz: f64) -> Vec<f32> {
    let mut samples = Vec::new();
    for part in parts.as_array().unwrap() {
        let (frequency, ms) = (part[0].as_f64().unwrap() * hz, part[1].as_u64().unwrap());
        let level = if frequency > 0.0 { 0.3 } else { 0.0 };
        let at = |n: u64| 2.0 * std::f64::consts::PI * frequency * n as f64 / 16_000.0;
        samples.extend((0..16 * ms).map(|n| (at(n).sin() * level) as f32));
    }
    samples
}

fn block(samples: &[f32]) -> AudioBlock {
    let mut block = AudioBlock::default();
    block.reshape(RATE, 1, samples.len()).unwrap().copy_from_slice(samples);
    block
}

/// Final transcripts of `samples` that begin at `at`.
fn transcripts(asr: Asr, samples: &[f32], at: Timestamp) -> Vec<Transcript> {
    let mut bench = NodeBench::new(asr);
    let mut sent = Vec::new();
    for (number, part) in samples.chunks(1000).enumerate() {
        let part_at = at + RATE.duration(1000 * number);
        sent.extend(bench.call(Asr::AUDIO, part_at, block(part)).unwrap());
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
            Some((word, _)) if !text.starts_with(' ') && !word.ends_with('\n') => {
                word.push_str(text);
            }
            _ => words.push((text.trim_start().to_owned(), one[1].as_u64().unwrap())),
        }
    }
    words.into_iter().map(|(word, row)| (word.trim_end().to_owned(), row)).collect()
}

/// Words of transcripts, with the number of whole steps from `start` to their start.
fn heard(transcripts: &[Transcript], start: Timestamp) -> Vec<(String, u64)> {
    let words = transcripts.iter().flat_map(|transcript| &transcript.words);
    let row = |at: Timestamp| u64::try_from(at.since(start).as_millis() / 80).unwrap();
    words.map(|word| (word.text.clone(), row(word.start))).collect()
}

#[test]
fn tokens_and_times_of_parakeet_are_those_of_the_reference_loop() {
    let tokenizer = Tokenizer::open(tokenizer_file()).unwrap();
    let start = Timestamp(5_000_000_000);
    let mut count = 0;
    for program in ["tdt", "rnnt"] {
        for case in cases("parakeet") {
            let asr = open(&format!("parakeet/{program}"), &[]).unwrap();
            let found = heard(&transcripts(asr, &tones(&case["tones"], 40.0), start), start);
            let expected = words(&case[program], &tokenizer);
            assert_eq!(found, expected, "{program}: {case}");
            count += expected.len();
        }
    }
    assert!(count > 30, "{count} words");
}

/// Steps from a sound to its token in the stand-in for Voxtral.
const DELAY: usize = 3;

/// Words of the tokens of all steps; the token that says nothing is 1.
fn words_of_steps(tokens: &Value, tokenizer: &Tokenizer) -> Vec<(String, u64)> {
    let steps = tokens.as_array().unwrap().iter().enumerate();
    let said = steps.filter(|(_, token)| token.as_u64() != Some(1));
    let said: Vec<Value> =
        said.map(|(step, token)| serde_json::json!([token, step - DELAY])).collect();
    words(&Value::Array(said), tokenizer)
}

#[test]
fn tokens_and_times_of_voxtral_are_those_of_the_reference_loop() {
    let tokenizer = Tokenizer::open(tokenizer_file()).unwrap();
    let start = Timestamp(5_000_000_000);
    let mut count = 0;
    for case in cases("voxtral") {
        let asr = open("voxtral/model", &[]).unwrap();
        let found = heard(&transcripts(asr, &tones(&case["tones"], 1.0), start), start);
        let expected = words_of_steps(&case["tokens"], &tokenizer);
        assert_eq!(found, expected, "{case}");
        count += expected.len();
    }
    assert!(count > 15, "{count} words");
}

#[test]
fn the_next_utterance_of_voxtral_starts_again() {
    let case = &cases("voxtral")[0];
    let samples = tones(&case["tones"], 1.0);
    let mut bench = NodeBench::new(open("voxtral/model", &[]).unwrap());
    let mut texts = Vec::new();
    let mut at = Timestamp::ZERO;
    for _ in 0..2 {
        let mut sent = bench.call(Asr::AUDIO, at, block(&samples)).unwrap();
        at = at + RATE.duration(samples.len());
        let end = SpeechEvent { kind: SpeechEventKind::End, probability: 0.0 };
        sent.extend(bench.call(Asr::EVENTS, at, end).unwrap());
        let found = sent.iter().filter_map(|(_, packet)| packet.get::<Transcript>());
        texts.extend(found.filter(|transcript| transcript.is_final).map(Transcript::text));
    }
    assert_eq!(texts.len(), 2);
    assert!(!texts[0].is_empty() && texts[0] == texts[1], "{texts:?}");
}

/// A folder with a form of the language model that hears, and its tokenizer.
fn hearing(form: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(data(&format!("hearing/{form}/model.pte")), folder.path().join("model.pte")).unwrap();
    fs::copy(data("hearing/tekken.json"), folder.path().join("tekken.json")).unwrap();
    folder
}

fn open_hearing(folder: &Path, language: Option<&str>) -> Result<Asr, String> {
    let language = language.map(|code| ("language", ParamValue::Text(code.to_owned())));
    open_folder(folder, language.as_slice())
}

#[test]
fn transcripts_of_models_that_hear_are_those_of_the_reference_loop() {
    let mut count = 0;
    for case in cases("hearing") {
        let form = case["form"].as_str().unwrap();
        let folder = hearing(form);
        let asr = open_hearing(folder.path(), case["language"].as_str()).unwrap();
        let samples = tones(&case["tones"], 1.0);
        let found = transcripts(asr, &samples, Timestamp(5_000_000_000));
        let text = found.iter().map(Transcript::text).collect::<Vec<_>>().join(" ");
        assert_eq!(text, case["text"].as_str().unwrap().trim(), "{form}: {case}");
        let words: Vec<_> = found.iter().flat_map(|transcript| &transcript.words).collect();
        assert!(words.is_sorted_by_key(|word| word.start), "{words:?}");
        count += words.len();
    }
    assert!(count > 60, "{count} words");
}

#[test]
fn the_prompt_of_a_model_that_hears_is_that_of_its_package() {
    let folder = hearing("optimum");
    let write = |user: &str| {
        let card = format!(
            "afferent_model: 1\nname: v\ntask: speech_recognition\ncontract: voxtral\nvariants:\n- {{file: \
             model.pte, backend: portable, precision: fp32}}\ntokenizer: tekken.json\nlicense: MIT\n\
             provenance: a test\nchat: {{user: '{user}', answer: 'lang:es[TRANSCRIBE]', end: </s>}}\n"
        );
        fs::write(folder.path().join("model.yaml"), card).unwrap();
    };
    let cases = cases("hearing");
    let is_spanish = |case: &&Value| case["form"] == "optimum" && case["language"] == "es";
    let case = cases.iter().find(is_spanish).unwrap();
    write("[INST]{audio}[/INST]");
    let asr = open_hearing(folder.path(), None).unwrap();
    let found = transcripts(asr, &tones(&case["tones"], 1.0), Timestamp(0));
    assert_eq!(found[0].text(), case["text"].as_str().unwrap().trim());
    let told = open_hearing(folder.path(), Some("es")).err().unwrap();
    assert!(told.starts_with("parameter language: the prompt is that of `chat`"), "{told}");
    write("[INST][/INST]");
    let told = open_hearing(folder.path(), None).err().unwrap();
    assert!(told.contains("chat.user in model.yaml has no {audio}"), "{told}");
}

#[test]
fn tokens_of_moonshine_are_those_of_the_reference_loop() {
    let tokenizer = Tokenizer::open(tokenizer_file()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for name in ["moonshine_tiny_encoder.pte", "moonshine_tiny_decoder.pte"] {
        fs::copy(data("moonshine").join(name), folder.path().join(name)).unwrap();
    }
    fs::copy(tokenizer_file(), folder.path().join("tokenizer.model")).unwrap();
    let mut count = 0;
    for case in cases("moonshine") {
        let asr = open_folder(folder.path(), &[]).unwrap();
        let found = transcripts(asr, &tones(&case["tones"], 1.0), Timestamp(7));
        let text = found.iter().map(Transcript::text).collect::<Vec<_>>().join(" ");
        let tokens = case["tokens"].as_array().unwrap().iter().filter_map(Value::as_u64);
        let tokens: Vec<u32> = tokens.map(|token| u32::try_from(token).unwrap()).collect();
        let expected = tokenizer.decode(&tokens).unwrap();
        let expected: Vec<&str> = expected.split_whitespace().collect();
        assert_eq!(text, expected.join(" "), "{case}");
        count += tokens.len();
    }
    assert!(count > 30, "{count} tokens");
    let language = ("language", ParamValue::Text("en".to_owned()));
    let told = open_folder(folder.path(), &[language]).err().unwrap();
    assert_eq!(told, "parameter language: requires a Whisper model; this one is Moonshine");
}

#[test]
fn parameters_of_other_models_are_rejected() {
    let told =
        open("parakeet/tdt", &[("language", ParamValue::Text("de".to_owned()))]).err().unwrap();
    assert_eq!(told, "parameter language: requires a Whisper model; this one is a transducer");
    let told =
        open("parakeet/tdt", &[("hot_words", ParamValue::Text("x".to_owned()))]).err().unwrap();
    assert!(told.starts_with("parameter hot_words: requires a model with CTC"), "{told}");
}
