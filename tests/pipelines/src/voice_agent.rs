//! `voice_agent.yaml`: a spoken question is answered with speech, in time.

use std::fs;

use afferent_engine::{Report, Threads};
use afferent_graph::{AudioBlock, Text, Timestamp, ToolMessage};

use crate::bench::{Sent, pipelines, run_pipeline};

/// Runs the agent on its sample; what its nodes sent, and the report.
fn talk(name: &str, threads: Threads) -> (Vec<Sent>, Report) {
    let path = std::env::temp_dir().join(format!("afferent-{name}-{}.wav", std::process::id()));
    let set = [format!("speaker.path={}", path.display()), "log.path=/dev/null".to_owned()];
    let set: Vec<&str> = set.iter().map(String::as_str).collect();
    let nodes = &["turns", "llm", "tool", "sentences", "tts", "speaker"];
    let ran = run_pipeline("voice_agent.yaml", &set, nodes, threads);
    fs::remove_file(path).unwrap();
    ran
}

fn texts(sent: &[Sent], node: &str) -> Vec<Text> {
    let texts = sent.iter().filter(|sent| sent.node == node);
    let texts = texts.filter_map(|sent| sent.packet.get::<Text>().cloned());
    texts.filter(|text| !text.text.is_empty()).collect()
}

#[test]
fn a_spoken_wish_is_done_and_answered() {
    let (sent, report) = talk("wish", Threads::Auto);
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
    let (sent, _) = talk("soon", Threads::Auto);
    let text = fs::read_to_string(pipelines("assets/question.json")).unwrap();
    let truth: serde_json::Value = serde_json::from_str(&text).unwrap();
    let heard = sent.iter().filter(|sent| (sent.node.as_str(), sent.port) == ("speaker", "heard"));
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
    let run = |name, threads| {
        let (sent, _) = talk(name, threads);
        let mut all: Vec<(String, &str, Timestamp, u64)> = sent
            .iter()
            .map(|sent| {
                let header = sent.packet.header;
                (sent.node.clone(), sent.port, header.at, header.sequence)
            })
            .collect();
        all.sort();
        all
    };
    assert_eq!(run("single", Threads::Single), run("many", Threads::Auto));
}
