//! `voice_agent.yaml`: a spoken question is answered with speech, in time.

use std::fs;

use afferent_engine::{Report, Threads};
use afferent_graph::OpenCx;
use afferent_messages::{AudioBlock, Text, ToolMessage};

use crate::bench::{Sent, hash_streams, pipelines, run_pipeline, services};

/// Calls `run` with the graph of the agent and settings that let it talk to a file of this `name`.
fn with_agent<T>(name: &str, run: impl FnOnce(&str, &[&str]) -> T) -> T {
    let path = std::env::temp_dir().join(format!("afferent-{name}-{}.wav", std::process::id()));
    let speaker = format!("speaker.path={}", path.display());
    let ran = run("voice_agent.yaml", &[&speaker, "log.path=/dev/null"]);
    fs::remove_file(path).unwrap();
    ran
}

/// Runs the agent on its sample; returns the packets of its nodes, and the report.
fn talk(name: &str, cx: &OpenCx) -> (Vec<Sent>, Report) {
    let nodes = &["turns", "llm", "tool", "sentences", "tts", "speaker"];
    with_agent(name, |graph, set| run_pipeline(graph, set, nodes, cx))
}

fn texts(sent: &[Sent], node: &str) -> Vec<Text> {
    let texts = sent.iter().filter(|sent| sent.node == node);
    let texts = texts.filter_map(|sent| sent.packet.get::<Text>().cloned());
    texts.filter(|text| !text.text.is_empty()).collect()
}

#[test]
fn a_spoken_wish_is_done_and_answered() {
    do_wish("wish", &services());
}

fn do_wish(name: &str, cx: &OpenCx) {
    let (sent, report) = talk(name, cx);
    assert!(report.failures.is_empty(), "{:?}", report.failures);
    let asked = texts(&sent, "turns");
    assert_eq!(asked[1].text, "turn on the lights in the kitchen");
    let calls: Vec<_> = sent.iter().filter_map(|sent| sent.packet.get::<ToolMessage>()).collect();
    let told = |call: &&ToolMessage| (call.turn, call.tool.clone(), call.json.clone());
    let call = |json: &str| (1, "set_light".to_owned(), json.to_owned());
    let expected = [call("{\"room\":\"kitchen\",\"state\":\"on\"}"), call("{\"ok\":true}")];
    assert_eq!(calls.iter().map(told).collect::<Vec<_>>(), expected);
    let answered: Vec<_> = texts(&sent, "sentences").into_iter().filter(|t| t.turn == 1).collect();
    assert_eq!(answered[0].text, "the kitchen light is on.");
}

#[test]
fn the_first_sound_comes_soon_after_the_speech() {
    let (sent, _) = talk("soon", &services());
    let text = fs::read_to_string(pipelines("assets/question.json")).unwrap();
    let truth: serde_json::Value = serde_json::from_str(&text).unwrap();
    let heard = sent.iter().filter(|sent| (&*sent.node, &*sent.port) == ("speaker", "heard"));
    let heard = heard.filter(|sent| {
        let block = sent.packet.get::<AudioBlock>().unwrap();
        block.channel(0).unwrap().iter().any(|sample| sample.abs() > 1e-4)
    });
    let heard: Vec<f64> = heard.map(|sent| sent.packet.header.at.as_secs_f64()).collect();
    for sentence in truth["sentences"].as_array().unwrap() {
        let end = sentence["end_s"].as_f64().unwrap();
        let first = heard.iter().find(|at| **at >= end).unwrap();
        println!("first sound {:.0} ms after the end of speech", (first - end) * 1e3);
        assert!(first - end < 0.6, "speech ended at {end} s, first sound at {first} s");
    }
}

#[test]
fn one_thread_gives_what_many_give() {
    let run = |name, threads| with_agent(name, |graph, set| hash_streams(graph, set, threads));
    assert_eq!(run("single", Threads::Single), run("many", Threads::Auto));
}
