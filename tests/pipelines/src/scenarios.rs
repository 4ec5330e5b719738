//! Scenario files: results, reports, and determinism.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use afferent_engine::Threads;
use afferent_graph::{Cx, Node, NodeDef, NodeError, OpenCx, Port, ports};
use afferent_messages::{AudioBlock, Text};
use afferent_scenario::{Case, Options, Outcome, Runner, junit, load};

use crate::bench::{catalog, pipelines, services};

/// The cases of a file of `data/`.
fn cases(file: &str) -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(file);
    load(&path).unwrap_or_else(|faults| panic!("{faults}"))
}

fn run(cases: &[Case], threads: Threads) -> Vec<Outcome> {
    let services = services();
    let catalog = catalog();
    let mut runner = Runner::new(&catalog, &services, Options { threads, ..Options::default() });
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
            let location = fault.diagnostic.location.as_ref().expect("it is written somewhere");
            (location.line(), location.column(), fault.diagnostic.message.as_str())
        })
        .collect();
    let expected = [
        (
            17,
            17,
            "expected asr.transcript with text that contains \"lights\" within 5s of the start: it did not occur",
        ),
        (
            18,
            17,
            "expected asr.transcript with txt \"timer\" within 5s of the start: it did not occur",
        ),
        (19, 16, "expected no asr.transcript with event \"final\": it occurred"),
    ];
    assert_eq!(found, expected);
    let help = lights.faults[1].diagnostic.help.as_deref();
    assert_eq!(help, Some("asr.transcript has no field \"txt\"; it has event, utterance, text"));
    assert!(text.contains("text \"set a timer"), "the events that did happen:\n{text}");

    let xml = junit(&outcomes).unwrap();
    // Of all, and of the file.
    for part in ["tests=\"2\"", "failures=\"1\""] {
        assert_eq!(xml.matches(part).count(), 2, "{part}: {xml}");
    }
    assert!(xml.contains("name=\"heard/lights\"") && xml.contains("it did not occur"), "{xml}");
}

#[test]
fn a_conversation_of_fakes_is_interrupted_at_every_moment() {
    let cases = cases("conversation.yaml");
    for outcome in run(&cases, Threads::Auto) {
        println!("{} {:?}", outcome.name, outcome.length);
        assert!(outcome.passed(), "{}:\n{}", outcome.name, outcome.render(false));
    }
    // The result does not depend on the threads.
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
    for part in ["wrong.yaml:4:7", "\"asr\"", "wrong.yaml:5:24", "did you mean \"threshold\"?"] {
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

/// Sends a different text in every run.
struct Fickle;

static RUNS: AtomicU64 = AtomicU64::new(0);

ports! {
    impl Fickle {
        /// Audio; ignored.
        in AUDIO: AudioBlock;
        /// The number of the run.
        out TEXT: Text;
    }
}

impl Node for Fickle {
    type Params = ();

    const NAME: &'static str = "fickle";
    const SUMMARY: &'static str = "Sends another text in every run.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "none";

    fn open((): (), _: &OpenCx) -> Result<Self, NodeError> {
        RUNS.fetch_add(1, Ordering::Relaxed);
        Ok(Self)
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let text = format!("run {}", RUNS.load(Ordering::Relaxed));
        cx.send(Self::TEXT, Text::from(text.as_str()));
        Ok(())
    }
}

#[test]
fn runs_that_differ_fail() {
    let folder = tempfile::tempdir().unwrap();
    let (graph, path) = (folder.path().join("graph.yaml"), folder.path().join("fickle.yaml"));
    let text = "afferent: 1\nnodes:\n  sound: {use: wav_source, params: {path: no.wav}}\n  \
                odd: {use: fickle, in: sound.audio}\n  log: {use: event_log, in: odd.text}\n";
    fs::write(&graph, text).unwrap();
    let text = "afferent: 1\nscenario: fickle\ngraph: graph.yaml\nturns: [{silence: 100ms}]\n";
    fs::write(&path, text).unwrap();
    let (services, cases) = (services(), load(&path).unwrap());
    let catalog = catalog().with_node(NodeDef::of::<Fickle>());
    let mut runner = Runner::new(&catalog, &services, Options::default());
    let text = runner.run(&cases[0]).render(false);
    let expected =
        "run 2 differs from run 1: the first difference is at 0.020 s, packet 0 of odd.text";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn every_shipped_scenario_can_be_read() {
    let folder = pipelines("scenarios");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let cases: Vec<_> = files.flat_map(|path| load(&path).unwrap()).collect();
    assert!(cases.len() > 10, "{}", cases.len());
}
