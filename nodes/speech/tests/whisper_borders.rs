//! Long utterances that Whisper reads in parts: no word is lost or doubled at the borders.
//!
//! The model of `tools/stand_ins/whisper_tones.py` hears tones as words without a mistake.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, Params, Timestamp};
use afferent_messages::{AudioBlock, SampleRate, Transcript};
use afferent_nodes_speech::{Asr, AsrParams};
use serde_json::Value;

const RATE: f64 = 16_000.0;
/// Utterances, and samples of a block.
const UTTERANCES: u64 = 500;
const BLOCK: usize = 320;

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// Frequency and word of each tone.
fn tones() -> Vec<(f64, String)> {
    let text = fs::read_to_string(data().join("whisper_tones/words.json")).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    let list = |name: &str| value[name].as_array().unwrap().clone();
    let pairs = list("tones_hz").into_iter().zip(list("words"));
    pairs.map(|(hz, word)| (hz.as_f64().unwrap(), word.as_str().unwrap().to_owned())).collect()
}

/// Tones with pauses in noise, for `seconds`, and their words.
fn utterance(
    random: &mut fastrand::Rng,
    tones: &[(f64, String)],
    seconds: f64,
) -> (Vec<f32>, Vec<String>) {
    let (mut samples, mut words) = (Vec::new(), Vec::new());
    let mut between = |low: f64, high: f64| low + (high - low) * random.f64();
    while (samples.len() as f64) < seconds * RATE {
        let (hz, word) = &tones[between(0.0, tones.len() as f64) as usize];
        let len = (between(0.12, 0.4) * RATE) as usize;
        samples.extend((0..len).map(|at| {
            let t = at as f64 / RATE;
            let fade = (t / 0.01).min((len - at) as f64 / RATE / 0.01).min(1.0);
            0.3 * fade * (std::f64::consts::TAU * hz * t).sin()
        }));
        words.push(word.clone());
        let pause = (between(0.08, 0.3) * RATE) as usize;
        samples.extend(std::iter::repeat_n(0.0, pause));
    }
    let noise = samples.iter().map(|sample| *sample + between(-1e-3, 1e-3));
    (noise.map(|sample| sample as f32).collect(), words)
}

fn open(folder: &Path, more: &[(&str, ParamValue)]) -> NodeBench<Asr> {
    let mut values = vec![("model".to_owned(), ParamValue::Path(folder.to_owned()))];
    values.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    let params = AsrParams::from_values(&values.into_iter().collect()).unwrap();
    let models = afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS);
    NodeBench::new(Asr::open(params, &OpenCx::with_service(models)).unwrap())
}

/// The final transcripts, and the number of words of partial ones that the final ones have changed.
fn transcripts(bench: &mut NodeBench<Asr>, samples: &[f32]) -> (Vec<Transcript>, usize) {
    let (mut finals, mut changed, mut partial) = (Vec::new(), 0, Transcript::default());
    let mut take = |sent: Vec<(&'static str, afferent_graph::Packet)>| {
        for (_, packet) in sent {
            let Some(found) = packet.get::<Transcript>() else { continue };
            if found.is_final {
                // The words of a partial transcript after a cut are those of the next utterance.
                let pairs = found.words.iter().zip(&partial.words);
                changed += pairs.filter(|(new, old)| new.text != old.text).count();
                partial = Transcript::default();
                finals.push(found.clone());
            } else {
                partial = found.clone();
            }
        }
    };
    let mut at = Timestamp::ZERO;
    for part in samples.chunks(BLOCK) {
        let mut block = AudioBlock::default();
        block.reshape(SampleRate(16_000), 1, part.len()).unwrap().copy_from_slice(part);
        let length = block.duration();
        take(bench.call(Asr::AUDIO, at, block).unwrap());
        at = at + length;
    }
    take(bench.finish(at).unwrap());
    (finals, changed)
}

#[test]
fn no_word_is_lost_or_doubled_at_borders() {
    let folder = std::env::temp_dir().join(format!("afferent-tones-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::copy(data().join("whisper_tones/model.pte"), folder.join("model.pte")).unwrap();
    fs::copy(data().join("whisper/tokenizer.json"), folder.join("tokenizer.json")).unwrap();
    let tones = tones();
    let (mut borders, mut words) = (0, 0);
    for number in 0..UTTERANCES {
        let mut random = fastrand::Rng::with_seed(number);
        let seconds = 5.0 + 7.0 * random.f64();
        let (samples, expected) = utterance(&mut random, &tones, seconds);
        let limit = std::time::Duration::from_millis(2000 + 100 * (number % 21));
        // Partial transcripts of a tenth of the utterances.
        let partials = ParamValue::Bool(number % 10 == 0);
        let settings = [
            ("max_utterance", ParamValue::Duration(limit)),
            ("language", ParamValue::Text("en".to_owned())),
            ("partials", partials),
        ];
        let mut bench = open(&folder, &settings);
        let (found, changed) = transcripts(&mut bench, &samples);
        let heard: Vec<&str> =
            found.iter().flat_map(|one| one.words.iter().map(|word| word.text.trim())).collect();
        assert_eq!(heard, expected, "utterance {number}");
        assert_eq!(changed, 0, "utterance {number}");
        borders += found.len() - 1;
        words += expected.len();
    }
    fs::remove_dir_all(&folder).unwrap();
    println!("{UTTERANCES} utterances, {words} words, {borders} borders");
    assert!(borders > 2 * UTTERANCES as usize, "{borders}");
}
