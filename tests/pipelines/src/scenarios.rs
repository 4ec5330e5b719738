//! Scenario files: what they find, what they report, and that every run is the same.

use std::{fs, path::Path};

use afferent_engine::Threads;
use afferent_scenario::{Case, Options, Outcome, Runner, junit, load};

use crate::bench::{NODES, pipelines, services};

/// The cases of a file of `data/`.
fn cases(file: &str) -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(file);
    load(&path).unwrap_or_else(|faults| panic!("{faults}"))
}

fn run(cases: &[Case], threads: Threads) -> Vec<Outcome> {
    let services = services();
    let mut runner = Runner::new(NODES, &services, Options { threads, ..Options::default() });
    cases.iter().map(|case| runner.run(case)).collect()
}

#[test]
fn what_is_played_is_heard_in_time_and_what_is_not_is_shown() {
    let outcomes = run(&cases("heard.yaml"), Threads::Auto);
    let [timer, lights] = outcomes.as_slice() else { panic!("there are two cases") };
    assert!(timer.passed(), "{}", timer.render(false));
    assert_eq!((timer.name.as_str(), timer.runs), ("heard/timer", 2));
    assert!(timer.length.as_secs_f64() < 6.0, "{:?}", timer.length);

    let text = lights.render(false);
    println!("{text}");
    let found: Vec<_> = lights
        .faults
        .iter()
        .map(|fault| {
            let place = fault.diagnostic.place.as_ref().expect("it is written somewhere");
            (place.line(), place.column(), fault.diagnostic.message.as_str())
        })
        .collect();
    let expected = [
        (
            18,
            17,
            "expected asr.transcript with text that contains \"lights\" within 5s of the start: it did not come",
        ),
        (
            19,
            17,
            "expected asr.transcript with txt \"timer\" within 5s of the start: it did not come",
        ),
        (20, 16, "expected no asr.transcript with event \"final\": it came"),
    ];
    assert_eq!(found, expected);
    let help = lights.faults[1].diagnostic.help.as_deref();
    assert_eq!(help, Some("asr.transcript has no field \"txt\"; it has event, utterance, text"));
    assert!(text.contains("text \"set a timer"), "the events that did happen:\n{text}");

    let xml = junit(&outcomes).unwrap();
    assert!(xml.contains("tests=\"2\"") && xml.contains("failures=\"1\""), "{xml}");
    assert!(xml.contains("name=\"heard/lights\"") && xml.contains("it did not come"), "{xml}");
}

#[test]
fn a_conversation_of_fakes_is_interrupted_at_every_moment() {
    let cases = cases("conversation.yaml");
    for outcome in run(&cases, Threads::Auto) {
        println!("{} {:?}", outcome.name, outcome.length);
        assert!(outcome.passed(), "{}:\n{}", outcome.name, outcome.render(false));
    }
    // What is expected does not hang on the threads either.
    for outcome in run(&cases, Threads::Single) {
        assert!(outcome.passed(), "{}:\n{}", outcome.name, outcome.render(false));
    }
}

#[test]
fn faults_of_names_stand_where_they_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wrong.yaml");
    let graph = pipelines("live_captions.yaml");
    let text = format!(
        r#"afferent: 1
scenario: wrong
graph: {}
set: {{ars.beam: 10}}
nodes: {{vad: {{params: {{treshold: 0.5}}}}}}
turns: [{{silence: 1s}}]
"#,
        graph.display()
    );
    fs::write(&path, text).unwrap();
    let case = load(&path).unwrap();
    let text = run(&case, Threads::Auto)[0].render(false);
    println!("{text}");
    for part in ["wrong.yaml:4:7", "\"asr\"", "wrong.yaml:5:23", "did you mean \"threshold\"?"] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    let text = format!(
        r#"afferent: 1
scenario: wrong
graph: {}
turns:
  - {{silence: 1s, expect: [{{event: asr.transcrpt}}, {{event: vda.events}}]}}
  - {{send: {{to: vad.events, payload: {{event: speech_strt}}}}}}
  - {{send: {{to: resample.audio}}}}
"#,
        graph.display()
    );
    fs::write(&path, text).unwrap();
    let case = load(&path).unwrap();
    let text = run(&case, Threads::Auto)[0].render(false);
    println!("{text}");
    for part in [
        "node \"asr\" has no output \"transcrpt\"",
        "did you mean \"transcript\"?",
        "the graph has no node \"vda\"",
        "\"event\" must be speech_start or speech_end, not \"speech_strt\"",
        "resample.audio takes audio/Block, which a scenario cannot send",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
}

#[test]
fn every_shipped_scenario_can_be_read() {
    let folder = pipelines("scenarios");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let cases: Vec<_> = files.flat_map(|path| load(&path).unwrap()).collect();
    assert!(cases.len() > 10, "{}", cases.len());
}
