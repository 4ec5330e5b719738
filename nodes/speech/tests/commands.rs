//! The models `asr` and `vad` of `pipelines` on recorded commands: words, word times, partial
//! transcripts, and events.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;

use afferent_graph::{Node, NodeBench, OpenCx, Packet, ParamValue, Params, Timestamp};
use afferent_messages::{AudioBlock, SampleRate, SpeechEvent, SpeechEventKind, Transcript};
use afferent_nodes_speech::{Asr, AsrParams, Vad, VadParams};

const RATE: SampleRate = SampleRate(16_000);

fn pipelines(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines")).join(path)
}

fn bench(settings: &[(&str, ParamValue)]) -> NodeBench<Asr> {
    let model = ("model", ParamValue::Path(pipelines("models/asr")));
    let values = [model].into_iter().chain(settings.iter().cloned());
    let values = values.map(|(name, value)| (name.to_owned(), value)).collect();
    let params = AsrParams::from_values(&values).unwrap();
    let cx = OpenCx::with_service(
        afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS)
            .with_backend(afferent_backend_xnnpack::Xnnpack),
    );
    NodeBench::new(Asr::open(params, &cx).unwrap())
}

/// Text of each sentence, its end, and the starts of its words, in seconds.
fn truth() -> Vec<(String, f64, Vec<f64>)> {
    let text = std::fs::read_to_string(pipelines("assets/commands.json")).unwrap();
    let truth: serde_json::Value = serde_json::from_str(&text).unwrap();
    let sentences = truth["sentences"].as_array().unwrap().iter().map(|sentence| {
        let starts = sentence["word_starts_s"].as_array().unwrap().iter();
        (
            sentence["text"].as_str().unwrap().to_owned(),
            sentence["end_s"].as_f64().unwrap(),
            starts.map(|start| start.as_f64().unwrap()).collect(),
        )
    });
    sentences.collect()
}

fn sound() -> Vec<f32> {
    let mut reader = hound::WavReader::open(pipelines("assets/commands.wav")).unwrap();
    reader.samples::<i16>().map(|sample| f32::from(sample.unwrap()) / 32768.0).collect()
}

/// Transcripts for `sound` that begins at `from`, in blocks of `size` samples.
fn run(
    asr: &mut NodeBench<Asr>,
    sound: &[f32],
    from: Timestamp,
    size: usize,
) -> Vec<(Timestamp, Transcript)> {
    let mut heard = Vec::new();
    for (at, block) in blocks(sound, from, size, 1.0) {
        heard.extend(transcripts(&asr.call(Asr::AUDIO, at, block).unwrap()));
    }
    heard
}

/// Blocks of `size` samples of `sound` that begins at `from`; timestamps are stretched by `slow`.
fn blocks(
    sound: &[f32],
    from: Timestamp,
    size: usize,
    slow: f64,
) -> impl Iterator<Item = (Timestamp, AudioBlock)> {
    sound.chunks(size).enumerate().map(move |(number, part)| {
        let mut block = AudioBlock::default();
        block.reshape(RATE, 1, part.len()).unwrap().copy_from_slice(part);
        (from + RATE.duration(number * size).mul_f64(slow), block)
    })
}

fn vad() -> NodeBench<Vad> {
    let values = [("model".to_owned(), ParamValue::Path(pipelines("models/vad")))].into();
    let cx = OpenCx::with_service(
        afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS)
            .with_backend(afferent_backend_xnnpack::Xnnpack),
    );
    NodeBench::new(Vad::open(VadParams::from_values(&values).unwrap(), &cx).unwrap())
}

/// Speech events of `sent` with their timestamps.
fn events(sent: &[(&'static str, Packet)]) -> Vec<(Timestamp, SpeechEventKind)> {
    let events = sent
        .iter()
        .map(|(_, packet)| packet.get::<SpeechEvent>().map(|event| (packet.header.at, event.kind)));
    events.flatten().collect()
}

fn transcripts(sent: &[(&'static str, Packet)]) -> Vec<(Timestamp, Transcript)> {
    let transcript =
        |packet: &Packet| (packet.header.at, packet.get::<Transcript>().unwrap().clone());
    sent.iter().map(|(_, packet)| transcript(packet)).collect()
}

#[test]
fn sentences_are_recognized_with_word_times() {
    let mut asr = bench(&[]);
    let mut heard = run(&mut asr, &sound(), Timestamp::ZERO, 320);
    heard.extend(transcripts(&asr.finish(Timestamp::ZERO).unwrap()));
    let finals: Vec<_> = heard.iter().filter(|(_, heard)| heard.is_final).collect();
    let texts: Vec<_> = finals.iter().map(|(_, heard)| heard.text()).collect();
    let truth = truth();
    assert_eq!(texts, truth.iter().map(|(text, ..)| text.clone()).collect::<Vec<_>>());
    for ((_, transcript), (_, end, starts)) in finals.iter().zip(&truth) {
        // The synthesizer reports one start for two short words that it joins.
        let has_starts = transcript.words.len() == starts.len();
        for (word, start) in transcript.words.iter().zip(starts).filter(|_| has_starts) {
            let early = start - word.start.as_secs_f64();
            assert!(early.abs() < 0.2, "{} is {early:.3} s early", word.text);
            assert!(word.end > word.start, "{word:?}");
        }
        let late = transcript.words.last().unwrap().end.as_secs_f64() - end;
        assert!(late.abs() < 0.2, "the end is {late:.3} s late");
        let partials = heard.iter().filter(|(_, heard)| heard.utterance == transcript.utterance);
        assert!(partials.count() > 3, "partial transcripts are missing");
    }
}

#[test]
fn an_event_ends_the_utterance_of_a_long_block() {
    let mut asr = bench(&[("partials", ParamValue::Bool(false))]);
    let (text, end, _) = truth().remove(0);
    let samples = RATE.samples(std::time::Duration::from_secs_f64(end + 0.2));
    let heard = run(&mut asr, &sound()[..samples], Timestamp(5), samples);
    assert!(heard.is_empty(), "{heard:?}");
    let event = SpeechEvent { kind: SpeechEventKind::End, probability: 0.0 };
    let sent = transcripts(&asr.call(Asr::EVENTS, Timestamp(5), event).unwrap());
    let texts: Vec<_> = sent.iter().map(|(_, heard)| (heard.text(), heard.is_final)).collect();
    assert_eq!(texts, [(text, true)]);
    assert!(asr.finish(Timestamp(5)).unwrap().is_empty(), "no utterance is left");
}

#[test]
fn a_long_utterance_is_cut_between_words() {
    let (sound, truth) = (sound(), truth());
    let seconds = |seconds: f64| RATE.samples(std::time::Duration::from_secs_f64(seconds));
    // All sentences without the pauses between them.
    let spoken: Vec<f32> = truth
        .iter()
        .flat_map(|(_, end, starts)| &sound[seconds(starts[0])..seconds(*end)])
        .copied()
        .collect();
    let words = |longest: u64| {
        let longest = ParamValue::Duration(std::time::Duration::from_secs(longest));
        let mut asr = bench(&[("max_utterance", longest)]);
        let mut heard = run(&mut asr, &spoken, Timestamp::ZERO, 320);
        heard.extend(transcripts(&asr.finish(Timestamp::ZERO).unwrap()));
        let finals: Vec<_> = heard.iter().filter(|(_, heard)| heard.is_final).collect();
        let words = finals.iter().flat_map(|(_, heard)| &heard.words);
        (finals.len(), words.map(|word| (word.text.clone(), word.start)).collect::<Vec<_>>())
    };
    let (whole, cut) = (words(60), words(3));
    assert_eq!((whole.0, cut.0), (1, 3));
    let texts = |words: &[(String, Timestamp)]| {
        words.iter().map(|(text, _)| text.clone()).collect::<Vec<_>>()
    };
    assert_eq!(texts(&whole.1), texts(&cut.1));
    for ((text, expected), (_, found)) in whole.1.iter().zip(&cut.1) {
        let off = found.as_secs_f64() - expected.as_secs_f64();
        assert!(off.abs() < 0.06, "{text} is {off:.3} s off");
    }
}

#[test]
fn an_interrupt_discards_the_utterance() {
    let mut asr = bench(&[("lexicon", ParamValue::Bool(false))]);
    let heard = run(&mut asr, &sound()[..24_000], Timestamp::ZERO, 480);
    assert!(!heard.is_empty() && heard.iter().all(|(_, heard)| !heard.is_final));
    assert!(asr.cancel(Timestamp::ZERO).unwrap().is_empty());
    assert!(asr.finish(Timestamp::ZERO).unwrap().is_empty());
}

#[test]
fn clock_drift_is_corrected() {
    let (sound, slow) = (sound(), 1.03);
    let times = |slow: f64| -> Vec<Timestamp> {
        let (mut asr, mut vad) = (bench(&[("partials", ParamValue::Bool(false))]), vad());
        let (mut times, mut starts) = (Vec::new(), Vec::new());
        for (at, block) in blocks(&sound, Timestamp::ZERO, 480, slow) {
            let heard = transcripts(&asr.call(Asr::AUDIO, at, block.clone()).unwrap());
            times.extend(heard.iter().flat_map(|(_, heard)| &heard.words).map(|word| word.start));
            starts.extend(events(&vad.call(Vad::AUDIO, at, block).unwrap()));
        }
        assert!(starts.is_sorted_by(|a, b| a.0 < b.0), "{starts:?}");
        times.extend(starts.iter().map(|(at, _)| *at));
        times
    };
    let (exact, found) = (times(1.0), times(slow));
    assert!(exact.len() > 20 && exact.len() == found.len(), "{exact:?}, {found:?}");
    for (exact, found) in exact.iter().zip(&found) {
        // Drift is corrected in pauses: at the end of a sentence it reaches a tenth of a second.
        let off = found.as_secs_f64() - slow * exact.as_secs_f64();
        assert!(off.abs() < 0.15, "{exact} is {off:.3} s off");
    }
}

#[test]
fn timestamps_do_not_decrease_when_a_clock_restarts() {
    let (sound, second) = (&sound()[..24_000], Timestamp(1_000_000_000));
    let (mut asr, mut vad) = (bench(&[]), vad());
    let mut sent = Vec::new();
    for (at, block) in blocks(sound, Timestamp(20 * second.0), 480, 1.0) {
        asr.call(Asr::AUDIO, at, block.clone()).unwrap();
        sent.extend(vad.call(Vad::AUDIO, at, block).unwrap());
    }
    assert_eq!(events(&sent).last().unwrap().1, SpeechEventKind::Start);
    let (at, block) = blocks(sound, second, 480, 1.0).next().unwrap();
    let heard = transcripts(&asr.call(Asr::AUDIO, at, block.clone()).unwrap());
    let [(sent_at, Transcript { is_final: true, .. })] = heard.as_slice() else {
        panic!("{heard:?}")
    };
    assert!(sent_at.since(second).as_millis() < 150, "later than the first window: {sent_at}");
    let sent = events(&vad.call(Vad::AUDIO, at, block).unwrap());
    assert_eq!(sent, [(second, SpeechEventKind::End)]);
}
