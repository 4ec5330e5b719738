//! `wake_word.yaml`: the phrases of the sample are found in time, and other speech is not.

use std::fs;

use afferent_engine::Threads;
use afferent_graph::OpenCx;
use afferent_messages::{KeywordEvent, SpeechEvent, SpeechEventKind};
use serde::Deserialize;

use crate::bench::{Sent, hash_streams, pipelines, portable, run_pipeline, services};

/// Contents of the sample; times in seconds.
#[derive(Deserialize)]
struct Truth {
    phrases: Vec<Phrase>,
    speech: Vec<Span>,
}

#[derive(Deserialize)]
struct Phrase {
    label: String,
    start_s: f64,
    end_s: f64,
}

#[derive(Deserialize)]
struct Span {
    start_s: f64,
    end_s: f64,
}

const QUIET: &[&str] = &["log.path=/dev/null"];

fn keywords(sent: &[Sent]) -> Vec<(f64, String)> {
    let events = sent.iter().filter_map(|sent| {
        let event = sent.packet.get::<KeywordEvent>()?;
        Some((sent.packet.header.at.as_secs_f64(), event.label.clone()))
    });
    events.collect()
}

fn truth() -> Truth {
    let text = fs::read_to_string(pipelines("assets/wake_word.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn phrases_of_an_unseen_voice_are_found_within_300_ms() {
    find_phrases(&services());
}

#[test]
fn portable_programs_find_them_too() {
    find_phrases(&portable());
}

fn find_phrases(cx: &OpenCx) {
    let (sent, report) = run_pipeline("wake_word.yaml", QUIET, &["wake"], cx);
    let found = keywords(&sent);
    let expected = truth().phrases;
    let labels: Vec<_> = found.iter().map(|(_, label)| label.as_str()).collect();
    let wanted: Vec<_> = expected.iter().map(|phrase| phrase.label.as_str()).collect();
    assert_eq!(labels, wanted, "{found:?}");
    for ((at, label), phrase) in found.iter().zip(&expected) {
        println!("{label}: {:.0} ms after its end", (at - phrase.end_s) * 1e3);
        assert!(*at > phrase.start_s && *at <= phrase.end_s + 0.3, "{label} at {at} s");
    }
    let dropped: u64 = report.edges.iter().map(|edge| edge.counts.dropped()).sum();
    assert_eq!(dropped, 0);
}

#[test]
fn other_speech_does_not_wake() {
    let set = ["log.path=/dev/null", "sound.path=assets/other_speech.wav"];
    let (sent, report) = run_pipeline("wake_word.yaml", &set, &["wake"], &services());
    assert_eq!(keywords(&sent), []);
    assert!(report.media_ns > 59_000_000_000, "the whole minute was heard");
}

#[test]
fn speech_is_found_where_there_is_speech() {
    let (sent, _) = run_pipeline("wake_word.yaml", QUIET, &["vad"], &services());
    let mut found: Vec<Span> = Vec::new();
    for sent in &sent {
        let Some(event) = sent.packet.get::<SpeechEvent>() else { continue };
        let at = sent.packet.header.at.as_secs_f64();
        match event.kind {
            SpeechEventKind::Start => found.push(Span { start_s: at, end_s: f64::INFINITY }),
            SpeechEventKind::End => found.last_mut().unwrap().end_s = at,
        }
    }
    let inside = |at: f64| found.iter().any(|span| span.start_s <= at && at < span.end_s);
    let spoken = |at: f64| truth().speech.iter().any(|s| s.start_s <= at && at < s.end_s);
    let instants: Vec<f64> = (0..120).map(|tenth| f64::from(tenth) / 10.0).collect();
    let right = instants.iter().filter(|&&at| inside(at) == spoken(at)).count();
    assert!(right * 100 >= instants.len() * 90, "{right} of {} instants", instants.len());
}

#[test]
fn one_thread_gives_what_many_give() {
    let run = |threads| hash_streams("wake_word.yaml", QUIET, threads);
    assert_eq!(run(Threads::Single), run(Threads::Auto));
}
