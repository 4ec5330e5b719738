//! Words at the start of speech and after a pause are heard, with their times.

use afferent_messages::Transcript;

use crate::bench::{run_pipeline, services};

/// Sounds by `data/first_word.py`: speech from the first sample on, and a pause of 0.26 s within a
/// sentence.
const NO_LEAD_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/no_lead_in.wav");
const PAUSE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/pause.wav");
const PAUSE_END_S: f64 = 1.513;

/// Words of the final transcripts of a graph for a sound, each with its start in seconds.
fn words(graph: &str, sound: &str, set: &[&str]) -> Vec<(String, f64)> {
    let path = format!("sound.path={sound}");
    let set = [set, &[&path]].concat();
    let (sent, _) = run_pipeline(graph, &set, &["asr"], &services());
    let transcripts = sent.iter().filter_map(|sent| sent.packet.get::<Transcript>());
    let finals = transcripts.filter(|transcript| transcript.is_final);
    let words = finals.flat_map(|transcript| &transcript.words);
    words.map(|word| (word.text.clone(), word.start.as_secs_f64())).collect()
}

/// Words with the detector of speech, and with a key that is held all the time.
fn both(sound: &str) -> [Vec<(String, f64)>; 2] {
    let held = ["text.path=/dev/null", "key.held=0s-60s"];
    [
        words("live_captions.yaml", sound, &["log.path=/dev/null"]),
        words("push_to_talk_dictation.yaml", sound, &held),
    ]
}

fn text(words: &[(String, f64)]) -> String {
    words.iter().map(|(word, _)| word.as_str()).collect::<Vec<_>>().join(" ")
}

#[test]
fn speech_may_begin_at_the_first_sample() {
    for words in both(NO_LEAD_IN) {
        assert_eq!(text(&words), "turn off the lights");
        assert!(words[0].1 < 0.15, "{words:?}");
    }
}

#[test]
fn a_pause_within_a_sentence_costs_no_word() {
    for words in both(PAUSE) {
        assert_eq!(text(&words), "set a timer for ten minutes");
        for (word, start) in [(0, 0.25), (4, PAUSE_END_S)] {
            assert!(
                (words[word].1 - start).abs() < 0.15,
                "word {word} starts at {start}: {words:?}"
            );
        }
    }
}
