//! `live_captions.yaml` and `push_to_talk_dictation.yaml`: the speech of the sample is transcribed.

use std::fs;

use afferent_messages::Transcript;

use crate::bench::{Sent, pipelines, run_pipeline, services};

/// Sentences of the sample, each with its end in seconds.
fn truth() -> Vec<(String, f64)> {
    let text = fs::read_to_string(pipelines("assets/commands.json")).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let sentence = |sentence: &serde_json::Value| {
        (sentence["text"].as_str().unwrap().to_owned(), sentence["end_s"].as_f64().unwrap())
    };
    value["sentences"].as_array().unwrap().iter().map(sentence).collect()
}

fn finals(sent: &[Sent]) -> Vec<(String, f64)> {
    let transcripts = sent.iter().filter_map(|sent| {
        let transcript = sent.packet.get::<Transcript>().filter(|found| found.is_final)?;
        Some((transcript.text(), transcript.words.last()?.end.as_secs_f64()))
    });
    transcripts.collect()
}

#[test]
fn sentences_of_an_unseen_voice_are_heard_with_their_times() {
    let set = ["log.path=/dev/null"];
    let (sent, _) = run_pipeline("live_captions.yaml", &set, &["asr"], &services());
    let (found, expected) = (finals(&sent), truth());
    let texts =
        |all: &[(String, f64)]| all.iter().map(|(text, _)| text.clone()).collect::<Vec<_>>();
    assert_eq!(texts(&found), texts(&expected));
    for ((text, at), (_, end)) in found.iter().zip(&expected) {
        assert!((at - end).abs() < 0.25, "{text}: ends at {at} s, not {end} s");
    }
}

#[test]
fn only_what_is_said_while_the_key_is_held_is_written() {
    let path = std::env::temp_dir().join(format!("afferent-dictation-{}", std::process::id()));
    let set = [format!("text.path={}", path.display())];
    let set: Vec<&str> = set.iter().map(String::as_str).collect();
    run_pipeline("push_to_talk_dictation.yaml", &set, &[], &services());
    let written = fs::read_to_string(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let said = truth();
    assert_eq!(written, format!("{}\n{}\n", said[0].0, said[2].0));
}
