//! The shipped recogniser on the sample sound: its words, their times, partial results, events.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;

use afferent_graph::{
    AudioBlock, Node, NodeBench, OpenCx, Packet, ParamValue, Params, SampleRate, SpeechEvent,
    SpeechEventKind, Timestamp, Transcript,
};
use afferent_nodes_speech::{Asr, AsrParams};

const RATE: SampleRate = SampleRate(16_000);

fn pipelines(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines")).join(path)
}

fn bench(settings: &[(&str, ParamValue)]) -> NodeBench<Asr> {
    let model = ("model", ParamValue::Path(pipelines("models/asr")));
    let values = [model].into_iter().chain(settings.iter().cloned());
    let values = values.map(|(name, value)| (name.to_owned(), value)).collect();
    let params = AsrParams::from_values(&values).unwrap();
    let cx = OpenCx { kernels: afferent_kernels::KERNELS, ..OpenCx::default() };
    NodeBench::new(Asr::open(params, &cx).unwrap())
}

/// Sentences with the second where each ends and those where its words start.
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

/// What the node sends for sound in blocks of `size` samples that begins at `from`.
fn hear(
    asr: &mut NodeBench<Asr>,
    sound: &[f32],
    from: Timestamp,
    size: usize,
) -> Vec<(Timestamp, Transcript)> {
    let mut heard = Vec::new();
    for (number, part) in sound.chunks(size).enumerate() {
        let mut block = AudioBlock::default();
        block.reshape(RATE, 1, part.len()).unwrap().copy_from_slice(part);
        let at = from + RATE.duration(number * size);
        heard.extend(transcripts(&asr.call(Asr::AUDIO, at, block).unwrap()));
    }
    heard
}

fn transcripts(sent: &[(&'static str, Packet)]) -> Vec<(Timestamp, Transcript)> {
    let transcript =
        |packet: &Packet| (packet.header.at, packet.get::<Transcript>().unwrap().clone());
    sent.iter().map(|(_, packet)| transcript(packet)).collect()
}

#[test]
fn sentences_are_heard_with_the_times_of_their_words() {
    let mut asr = bench(&[]);
    let mut heard = hear(&mut asr, &sound(), Timestamp::ZERO, 320);
    heard.extend(transcripts(&asr.finish(Timestamp::ZERO).unwrap()));
    let finals: Vec<_> = heard.iter().filter(|(_, heard)| heard.is_final).collect();
    let texts: Vec<_> = finals.iter().map(|(_, heard)| heard.text()).collect();
    let truth = truth();
    assert_eq!(texts, truth.iter().map(|(text, ..)| text.clone()).collect::<Vec<_>>());
    for ((_, transcript), (_, end, starts)) in finals.iter().zip(&truth) {
        // The synthesiser tells one start for two small words that it joins.
        let told = transcript.words.len() == starts.len();
        for (word, start) in transcript.words.iter().zip(starts).filter(|_| told) {
            let early = start - word.start.as_secs_f64();
            assert!(early.abs() < 0.2, "{} is {early:.3} s early", word.text);
            assert!(word.end > word.start, "{word:?}");
        }
        let late = transcript.words.last().unwrap().end.as_secs_f64() - end;
        assert!(late.abs() < 0.2, "the end is {late:.3} s late");
        let partials = heard.iter().filter(|(_, heard)| heard.utterance == transcript.utterance);
        assert!(partials.count() > 3, "there were partial transcripts");
    }
}

#[test]
fn an_event_ends_the_utterance_and_blocks_may_be_long() {
    let mut asr = bench(&[("partials", ParamValue::Bool(false))]);
    let (text, end, _) = truth().remove(0);
    let samples = RATE.samples(std::time::Duration::from_secs_f64(end + 0.2));
    let heard = hear(&mut asr, &sound()[..samples], Timestamp(5), samples);
    assert!(heard.is_empty(), "{heard:?}");
    let event = SpeechEvent { kind: SpeechEventKind::End, probability: 0.0 };
    let sent = transcripts(&asr.call(Asr::EVENTS, Timestamp(5), event).unwrap());
    let texts: Vec<_> = sent.iter().map(|(_, heard)| (heard.text(), heard.is_final)).collect();
    assert_eq!(texts, [(text, true)]);
    assert!(asr.finish(Timestamp(5)).unwrap().is_empty(), "nothing is left");
}

#[test]
fn what_is_half_heard_is_forgotten() {
    let mut asr = bench(&[("lexicon", ParamValue::Bool(false))]);
    let heard = hear(&mut asr, &sound()[..24_000], Timestamp::ZERO, 480);
    assert!(!heard.is_empty() && heard.iter().all(|(_, heard)| !heard.is_final));
    assert!(asr.cancel(Timestamp::ZERO).unwrap().is_empty());
    assert!(asr.finish(Timestamp::ZERO).unwrap().is_empty());
}
