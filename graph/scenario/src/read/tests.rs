//! Tests of the scenario reader: parsed values and error locations.

use std::{path::Path, time::Duration};

use super::*;
use crate::spec::{Act, Anchor, Goal, When};

const HEAD: &str = "afferent: 1\nscenario: x\ngraph: g.yaml\n";

fn read(body: &str) -> Result<Vec<Case>, Diagnostics> {
    parse(&format!("{HEAD}{body}"), Path::new("folder/x.yaml"))
}

/// Formats errors as `line:column message | help`, with lines counted after the file head.
fn faults(body: &str) -> Vec<String> {
    let Err(faults) = read(body) else { panic!("it was accepted: {body}") };
    let text = |fault: &Diagnostic| {
        let location = fault.location.as_ref().unwrap();
        let help = fault.help.as_ref().map(|help| format!(" | {help}")).unwrap_or_default();
        let line = location.line().saturating_sub(HEAD.lines().count());
        format!("{line}:{} {}{help}", location.column(), fault.message)
    };
    faults.iter().map(text).collect()
}

#[test]
fn every_form_of_a_turn_is_read() {
    let body = r#"
turns:
  - {name: first, say: "hello there", voice: en-gb, rate: 120, level: -26dB, noise: {snr: 15}, at: 1s}
  - {play: hello.wav, after: 200ms, trim: true}
  - {send: {to: asr.transcript, payload: {text: hi}}, after: {event: vad.events, where: {event: speech_end}, nth: 2}}
  - {silence: 2s, after: {begin: first, delay: 30ms}}
  - {interrupt: true, after: {delay: 1s}}
"#;
    let case = &read(body).unwrap_or_else(|faults| panic!("{faults}"))[0];
    assert_eq!(case.graph, Path::new("folder/g.yaml"));
    let [say, play, send, silence, interrupt] = case.turns.as_slice() else { panic!("not five") };
    assert!(matches!(&say.act, Act::Say(speech, shape)
        if speech.rate == 120 && shape.level_dbfs == Some(-26.0) && shape.snr_db == Some(15.0)));
    assert!(matches!(say.when, When::At(at) if at == Duration::from_secs(1)));
    assert!(matches!(&play.act, Act::Play(path, shape)
        if path == Path::new("folder/hello.wav") && shape.trim));
    assert!(matches!(play.when, When::After(Anchor::End(0), delay) if delay.as_millis() == 200));
    assert!(matches!(&send.act, Act::Send(send) if send.fields[0].1 == "hi"));
    assert!(matches!(send.when, When::After(Anchor::Event { nth: 2, since: Some(1), .. }, _)));
    assert!(matches!(silence.when, When::After(Anchor::Begin(0), _)));
    assert!(matches!(interrupt.when, When::After(Anchor::End(3), _)));
}

#[test]
fn every_form_of_an_expectation_is_read() {
    let body = r#"
turns:
  - say: hello
    expect:
      - {event: a.b, within: 800ms}
      - {event: a.b, absent: true, after: begin}
      - {event: a, where: {score_min: 0.5, text: yes}, count: {min: 1, max: 3}, after: {event: c.d}}
      - {order: [a.b, {event: c.d, where: {x: 1}}], after: start}
      - {budget: {from: a.b, to: c.d, p95: 1s}}
"#;
    let case = &read(body).unwrap_or_else(|faults| panic!("{faults}"))[0];
    let goals: Vec<_> = case.checks.iter().map(|check| (&check.goal, check.after)).collect();
    assert!(matches!(goals[0], (Goal::Count { least: 1, most: None, .. }, Anchor::End(0))));
    assert!(matches!(goals[1], (Goal::Count { most: Some(0), .. }, Anchor::Begin(0))));
    assert!(matches!(
        goals[2],
        (Goal::Count { least: 1, most: Some(3), .. }, Anchor::Event { .. })
    ));
    assert!(matches!(goals[3], (Goal::Order(order), Anchor::Start) if order.len() == 2));
    assert!(matches!(goals[4].0, Goal::Budget { limits: [None, Some(_), None], .. }));
    assert_eq!(case.checks[1].within, None);
    assert_eq!(case.checks[3].within, Some(Duration::from_secs(5)));
}

#[test]
fn cases_override_and_vary_the_file() {
    let body = r#"
set: {asr.beam: 10}
turns: [{say: hello}]
cases:
  - {name: a, set: {asr.silence: 1s}}
  - {name: b, vary: {delay: [0ms, 1s], level: {from: -30dB, to: -10dB, step: 10dB}},
     turns: [{say: bye, level: "${level}", after: "${delay}"}]}
"#;
    let cases = read(body).unwrap_or_else(|faults| panic!("{faults}"));
    let names: Vec<_> = cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names.len(), 7);
    assert_eq!(names[..3], ["x/a", "x/b [delay=0ms, level=-30dB]", "x/b [delay=0ms, level=-20dB]"]);
    let params = cases[0].nodes.as_ref().and_then(|nodes| nodes.get("asr")?.get("params"));
    assert_eq!(params.and_then(Node::as_map).map(Vec::len), Some(2));
    let Act::Say(_, shape) = &cases[6].turns[0].act else { panic!("not a say turn") };
    assert_eq!(shape.level_dbfs, Some(-10.0));
}

#[test]
fn cases_merge_node_settings() {
    let body = r#"
nodes: {wav: {params: {path: a.wav, block: 20ms}}, log: {in: wav}}
turns: [{say: hello}]
cases:
  - {name: adds, nodes: {wav: {params: {block: 50ms}}}}
  - {name: replaces, nodes: {wav: {use: scripted}, log: ~}}
"#;
    let cases = read(body).unwrap_or_else(|faults| panic!("{faults}"));
    let node = |case: &Case, name: &str| case.nodes.as_ref()?.get(name).cloned();
    let wav = node(&cases[0], "wav").unwrap();
    let setting = |name: &str| wav.get("params")?.get(name).map(|value| value.value.clone());
    let word = |text: &str| Some(Value::Scalar { text: text.to_owned(), quoted: false });
    assert_eq!((setting("path"), setting("block")), (word("a.wav"), word("50ms")));
    assert!(node(&cases[0], "log").unwrap().get("in").is_some());
    assert!(node(&cases[1], "wav").unwrap().get("params").is_none());
    assert!(node(&cases[1], "log").unwrap().is_null());
}

#[test]
fn combinations_are_counted_before_they_are_created() {
    let numbers = (0..8000).map(|number| number.to_string()).collect::<Vec<_>>().join(", ");
    let body = format!("turns: [{{say: hello}}]\nvary: {{a: [{numbers}], b: [{numbers}]}}\n");
    let faults = read(&body).unwrap_err().to_string();
    assert!(faults.contains("\"vary\" gives more than"), "{faults}");
}

#[test]
fn errors_have_locations_and_help() {
    let turn = |text: &str| format!("turns:\n  - {text}\n");
    let cases = [
        (turn("{sya: hello}"), "2:6 unknown key \"sya\" of turn 1 | did you mean \"say\"?"),
        (turn("{say: hello, play: a.wav}"), "2:18 turn 1 has two actions: split it into two turns"),
        (
            turn("{at: 1s}"),
            "2:5 turn 1 has no action: write one of say, play, send, silence, interrupt",
        ),
        (turn("{play: a.wav, voice: en}"), "2:19 \"voice\" is not valid for \"play\""),
        (
            turn("{say: hello, at: 1s, after: 2s}"),
            "2:33 a turn begins \"at\" a time or \"after\" something, not both",
        ),
        (
            turn("{say: hello, rate: 5}"),
            "2:24 \"rate\", in words a minute, must be 80 to 450, not \"5\"",
        ),
        (turn("{say: hello, level: loud}"), "2:25 \"level\" must be -90 to 0 dB, not \"loud\""),
        (
            turn("{say: hello, after: {end: frist}}"),
            "2:31 there is no turn \"frist\" | the turns with a \"name\": there are none",
        ),
        (
            turn("{say: hello, expect: {evnt: a.b}}"),
            "2:27 unknown key \"evnt\" of an expectation | did you mean \"event\"?",
        ),
        (
            turn("{say: hello, expect: {event: a.b.c}}"),
            "2:34 \"event\" must be written \"node.port\", not \"a.b.c\"",
        ),
        (
            turn("{say: hello, expect: {event: a.b, where: {x_min: y}}}"),
            "2:54 \"x_min\" must be a number, not \"y\"",
        ),
        (
            turn("{say: hello, expect: {event: a.b, order: [a, b]}}"),
            "2:46 \"order\" is another expectation: write it as a separate item",
        ),
        (
            turn("{say: hello, expect: {event: a, after: later}}"),
            "2:44 \"after: later\" is not a known time here | write start, begin or end (of this turn), {begin: TURN}, {end: TURN} or {event: NODE.PORT}",
        ),
        (
            turn("{send: {payload: {text: hi}}}"),
            "2:12 \"send\" has no \"to\" | write a node and its port: \"to: asr.transcript\"",
        ),
        (
            turn("{say: \"${what}\"}"),
            "2:11 unknown parameter \"what\" of the graph | the parameters of this graph: there are none",
        ),
        (
            "duraton: 1s\nexpect: {event: a}\n".to_owned(),
            "1:1 unknown key \"duraton\" of a scenario file | did you mean \"duration\"?",
        ),
        (
            "vary: {x: {from: 1s, to: 2ms, step: 1s}}\nexpect: {event: a}\n".to_owned(),
            "1:11 \"x\" of \"vary\" has several units: use the same unit",
        ),
    ];
    for (body, expected) in cases {
        let found = faults(&body);
        assert!(
            found.first().map(String::as_str) == Some(expected),
            "{body}{found:?}\n{expected:?}"
        );
    }
    let Err(found) = parse("scenario: x\n", Path::new("x.yaml")) else { panic!("it was accepted") };
    assert_eq!(found.errors(), 3, "{found}");
    assert!(load(Path::new("no.yaml")).unwrap_err().to_string().contains("cannot read no.yaml"));
}
