//! Broken graphs and their diagnostics.

use afferent_spec::{Diagnostics, LoadOptions, Severity};

use crate::catalog::check_text;

/// Diagnostics as `line:column message`, or `file:line:column` in another file; help follows a bar.
pub(crate) fn told(faults: &Diagnostics) -> Vec<String> {
    let told = faults.iter().map(|fault| {
        let location = fault.location.as_ref().map_or_else(String::new, |location| {
            let file = location.file().trim_start_matches("graphs/g.yaml");
            format!("{file}{}:{} ", location.line(), location.column())
        });
        let warning = if fault.severity == Severity::Warning { "warning: " } else { "" };
        let help = fault.help.as_ref().map_or_else(String::new, |help| format!(" | {help}"));
        format!("{location}{warning}{}{help}", fault.message)
    });
    told.collect()
}

/// Checks that exactly the diagnostics `expected` are reported.
pub(crate) fn check(text: &str, profile: Option<&str>, set: &[&str], expected: &[&str]) {
    let set = set.iter().map(|set| (*set).to_owned()).collect();
    let options =
        LoadOptions { profile: profile.map(str::to_owned), set, ..LoadOptions::default() };
    let faults = match check_text(text, &options) {
        Ok(checked) => checked.warnings,
        Err(faults) => faults,
    };
    assert_eq!(told(&faults), expected, "\n{text}\n{faults}");
}

/// Checks a graph of the given nodes, one per line, from line 3 on.
fn nodes(lines: &str, expected: &[&str]) {
    check(&format!("afferent: 1\nnodes:\n{lines}"), None, &[], expected);
}

#[test]
fn the_form_of_the_file() {
    let cases: &[(&str, &[&str])] = &[
        (
            "",
            &[
                "1:1 a graph file is a map with the keys afferent, name, include, params, machines, inputs, outputs, nodes, budget, waterfall, interrupt, profiles",
            ],
        ),
        (
            "afferent: 1\nnodes: {a: [}",
            &["2:12 not valid YAML: mismatched bracket '[' closed by '}'"],
        ),
        (
            "afferent: 1\nparams: {q: ~}\nnodes: {s: {use: ${q}}}",
            &[
                "3:19 not valid YAML: while parsing a flow mapping, did not find expected ',' or '}' | within braces, write \"${…}\" in quotes",
            ],
        ),
        (
            "afferent: 1\nparams: {q: ~}\nnodes: {s: {use: \"${q}\"}}",
            &[
                "3:18 parameter \"q\" of the graph has no value | give it one: --set q=VALUE, or in \"params\"",
            ],
        ),
        (
            "name: x",
            &[
                "1:1 the file does not begin with \"afferent: 1\", the version of its form",
                "1:1 the graph has no \"nodes\"",
            ],
        ),
        (
            "afferent: 2\nnodes: {}",
            &[
                "1:11 version \"2\" of graph files is not known; this is 1",
                "2:8 the graph has no nodes",
            ],
        ),
        (
            "afferent: 1\nNodes: {}\nextra: 1",
            &[
                "2:1 unknown key \"Nodes\" of a graph | did you mean \"nodes\"?",
                "3:1 unknown key \"extra\" of a graph | the keys of a graph: afferent, name, include, params, machines, inputs, outputs, nodes, budget, waterfall, interrupt, profiles",
            ],
        ),
        (
            "afferent: 1\nname: [x]\nnodes: mic\nprofiles: 3",
            &[
                "2:7 \"name\" must be a text, not a list",
                "3:8 \"nodes\" must be a map of nodes by name, not a single value",
                "4:11 \"profiles\" must be a map of profiles by name, not a single value",
            ],
        ),
        (
            "afferent: 1\nnodes:\n  o: {use: idle}\n  m: {use: microphone}\n  m: {use: vad}",
            &[
                "3:3 warning: node \"o\" receives nothing: no input is connected",
                "4:3 warning: output \"m.audio\" of node \"m\" is not connected",
                "5:3 \"m\" is given twice | the first one is in line 4",
            ],
        ),
    ];
    for (text, expected) in cases {
        check(text, None, &[], expected);
    }
}

#[test]
fn the_form_of_a_node() {
    nodes(
        " m: {usr: microphone, thread: []}\n o: {in: m}\n p:\n q: {use: print, in: {from: x.y.z}}",
        &[
            "3:6 unknown key \"usr\" of node \"m\" | did you mean \"use\"?",
            "3:31 \"thread\" of node \"m\" must be a text, not a list",
            "4:2 node \"o\" does not say what it is: \"use\" is missing",
            "5:3 node \"p\" must be a map of \"use\" and other keys, not nothing",
            "6:29 \"from\" of \"in\" of node \"q\" must be written \"node.port\", not \"x.y.z\"",
        ],
    );
    nodes(
        " 1m: {use: microphone}\n o: {use: print, in: 1m}",
        &[
            "3:2 \"1m\" cannot be the name of a node | a name is made of letters, digits and \"_\", and starts with a letter",
        ],
    );
}

#[test]
fn streams() {
    nodes(
        " m: {use: microphone}\n v: {use: vad, in: m}\n p: {use: print, in: [v, v.event, m, n.x, m.a]}\n s: {use: microphone, in: m}\n q: {use: print, in: p}",
        &[
            "5:23 node \"v\" has several outputs | write one of audio, events",
            "5:28 unknown output \"event\" of node \"v\" | did you mean \"events\"?",
            "5:38 unknown node \"n\" | the nodes: m, v, p, s, q",
            "5:45 unknown output \"a\" of node \"m\" | the outputs of microphone: audio",
            "6:27 node \"s\" has no inputs: microphone makes its own packets",
            "7:22 node \"p\" has no outputs",
        ],
    );
    nodes(
        " m: {use: microphone}\n v: {use: vad, in: {audoi: m, audio: m}}\n a: {use: asr, in: m, params: {language: en}}\n w: {use: log_mel, in: [m, m]}\n x: {use: log_mel}\n p: {use: print, in: [v.audio, w, x, a]}",
        &[
            "4:21 unknown input \"audoi\" of node \"v\" | did you mean \"audio\"?",
            "5:20 node \"a\" has several inputs | write \"in: {features: ..., events: ...}\"",
            "6:28 input \"audio\" of node \"w\" is connected twice | it takes one stream; a node that merges streams can stand before it",
            "7:2 input \"audio\" of node \"x\" is not connected | it takes audio/Block, as from m.audio, v.audio",
        ],
    );
    nodes(
        " m: {use: microphone}\n v: {use: vad, in: m}\n a: {use: asr, in: {features: v.events, events: v.audio}, params: {language: en}}\n p: {use: print, in: a}",
        &[
            "5:33 input \"features\" of node \"a\" takes signal/Features, but \"v.events\" sends speech/Event",
            "5:51 input \"events\" of node \"a\" takes speech/Event, but \"v.audio\" sends audio/Block | \"v.events\" sends speech/Event",
        ],
    );
    nodes(
        " m: {use: microphone}\n a: {use: asr, in: {events: n.events}, params: {language: en}}\n p: {use: print, in: [a, m]}",
        &[
            "4:2 input \"features\" of node \"a\" is not connected",
            "4:29 unknown node \"n\" | the nodes: m, a, p",
        ],
    );
}

#[test]
fn what_happens_under_load() {
    nodes(
        " m: {use: microphone}\n p: {use: print, in: {from: m, queue: 0}}\n q: {use: print, in: {from: m, on_full: latest, queue: 2}}\n r: {use: print, in: {from: m, queue: -1, max_age: -5ms}}\n s: {use: print, in: {from: m, queue: many, max_age: 5}}\n t: {use: print, in: {form: m, on_full: [x], max_age: 0s}}\n u: {use: print, in: {queue: 99999999999999999999, from: m}}\n w: {use: print, in: {max_age: 1s}}",
        &[
            "4:39 \"queue\" of the stream from \"m\" to \"p\" must be between 1 and 65536",
            "5:56 \"queue\" of the stream from \"m\" to \"q\" must be 1 with \"latest\", not 2 | to keep more than the newest packet, write \"on_full: drop_oldest\"",
            "6:39 \"queue\" of \"in\" of node \"r\" must be at least 1, not -1",
            "6:52 \"max_age\" of \"in\" of node \"r\" must not be negative",
            "7:39 \"queue\" of \"in\" of node \"s\" must be an integer, not \"many\"",
            "7:54 \"max_age\" of \"in\" of node \"s\": \"5\" is not a time with its unit, such as 20ms or 1.5s",
            "8:23 unknown key \"form\" of \"in\" of node \"t\" | did you mean \"from\"?",
            "8:41 \"on_full\" of \"in\" of node \"t\" must be a text, not a list",
            "8:55 \"max_age\" of \"in\" of node \"t\" must be longer than none",
            "9:30 \"queue\" of the stream from \"m\" to \"u\" must be between 1 and 65536",
            "10:22 \"in\" of node \"w\" does not say where it comes \"from\"",
        ],
    );
}

#[test]
fn threads_and_what_is_under_way() {
    nodes(
        " m: {use: microphone, cpu: two, priority: 100, spin: 0us}\n p: {use: print, in: {from: m, in_flight: 0}, thread: x, cpu: 0}\n q: {use: print, in: {from: m, in_flight: few}, thread: x, cpu: 1, priority: hi}\n r: {use: print, in: {from: m, in_flight: 65537}}",
        &[
            "3:28 \"cpu\" of node \"m\" must be the number of a processor, from 0 on, not \"two\"",
            "3:43 \"priority\" of node \"m\" must be an integer from 1 to 99, not \"100\"",
            "3:54 \"spin\" of node \"m\" must be longer than none",
            "4:43 \"in_flight\" of \"in\" of node \"p\" must be a number from 1 on, or unlimited, not \"0\"",
            "5:2 nodes \"p\" and \"q\" share the thread \"x\" and differ in \"cpu\" | write \"cpu\" once, or give them different threads",
            "5:43 \"in_flight\" of \"in\" of node \"q\" must be a number from 1 on, or unlimited, not \"few\"",
            "5:78 \"priority\" of node \"q\" must be an integer from 1 to 99, not \"hi\"",
            "6:43 \"in_flight\" of the stream from \"m\" to \"r\" must be between 1 and 65536, or unlimited",
        ],
    );
}

#[test]
fn joins() {
    nodes(
        " m: {use: microphone}\n v: {use: vad, in: m}\n a: {use: asr, in: {features: {from: l, sync: exct}, events: {from: v.events, sync: latest}}, params: {language: en}}\n l: {use: log_mel, in: {from: v.audio, sync: exact}}\n b: {use: asr, in: {features: l, events: {from: v.events, sync: interpolate}}, params: {language: en}}\n c: {use: asr, in: {features: l, events: {from: v.events, timeout: 5ms}}, params: {language: en}}\n d: {use: asr, in: {features: l, events: {from: v.events, sync: {window: {befor: 1s}}}}, params: {language: en}}\n e: {use: asr, in: {features: l, events: {from: v.events, sync: approx}}, params: {language: en}, on_time_fault: clmp}\n p: {use: print, in: [a, b, c, d, e]}",
        &[
            "5:47 \"sync\" of input \"features\" of node \"a\": \"exct\" is not one of exact, approx, latest, interpolate, window, barrier | did you mean \"exact\"?",
            "6:2 node \"l\" joins streams, but none leads | leave out the \"sync\" of one: the node is called for each of its packets",
            "7:65 speech/Event cannot be interpolated | write \"sync: {approx: 10ms}\" for the packet that is nearest",
            "8:68 \"timeout\" of the stream from \"v\" to \"c\" has no \"sync\" | it says how long a packet of another stream waits for this one",
            "9:75 unknown key \"befor\" of \"window\" of \"sync\" of input \"events\" of node \"d\" | did you mean \"before\"?",
            "10:65 \"sync\" of input \"events\" of node \"e\": \"approx\" needs times: {approx: 10ms}",
            "10:114 \"on_time_fault\" of node \"e\": \"clmp\" is not one of drop, clamp, restart | did you mean \"clamp\"?",
        ],
    );
    nodes(
        " m: {use: microphone}\n v: {use: vad, in: m}\n p: {use: print, in: [m, v.audio, {from: v.events, sync: {latest: 50ms}}]}",
        &["5:2 node \"p\" joins streams, but \"m\", \"v\" all lead | give all but one a \"sync\""],
    );
}

#[test]
fn supervision() {
    nodes(
        " m: {use: microphone, on_error: degrade}\n p: {use: print, in: m, on_error: restrt}\n q: {use: print, in: m, on_error: {restart: {backof: 1s, limit: 0}}}\n r: {use: print, in: m, on_error: {degrade: lost}, deadline: 0ms}\n s: {use: print, in: m, on_error: [stop], deadline: 5}\n t: {use: print, in: m, on_error: {restart: ~, degrade: ~}}",
        &[
            "3:33 source \"m\" cannot degrade: it has no packet to pass over | write \"on_error: restart\"",
            "4:35 \"on_error\" of node \"p\": \"restrt\" is not one of stop, restart, degrade | did you mean \"restart\"?",
            "5:46 unknown key \"backof\" of \"restart\" of \"on_error\" of node \"q\" | did you mean \"backoff\"?",
            "5:65 \"limit\" of \"restart\" of \"on_error\" of node \"q\" must be an integer from 1 on, not \"0\"",
            "6:45 \"degrade\" of \"on_error\" of node \"r\": \"lost\" is not one of nothing, last | did you mean \"last\"?",
            "6:62 \"deadline\" of node \"r\" must be longer than none",
            "7:35 \"on_error\" of node \"s\" must be one of stop, restart, degrade, not a list",
            "7:53 \"deadline\" of node \"s\": \"5\" is not a time with its unit, such as 20ms or 1.5s",
            "8:35 \"on_error\" of node \"t\" must be one of stop, restart, degrade, not a map",
        ],
    );
}

#[test]
fn parameters() {
    nodes(
        " m: {use: wav_source, params: {Path: a.wav, pace: maxx, gain_db: 30}}\n v: {use: vad, in: m, params: {threshold: high, min_silence: 20, model: [x], zzz: 1}}\n w: {use: wav_source, params: {gain_db: loud}}\n l: {use: log_mel, in: v.audio, params: [1]}\n a: {use: asr, in: {features: l}, params: {language: \"english\"}}\n p: {use: print, in: [a, w]}",
        &[
            "3:32 unknown parameter \"Path\" of node \"m\" | did you mean \"path\"?",
            "3:51 parameter \"pace\" of node \"m\": \"maxx\" is not one of realtime, max | did you mean \"max\"?",
            "3:66 parameter \"gain_db\" of node \"m\": 30 is out of range: -60 to 20 dB",
            "4:43 parameter \"threshold\" of node \"v\": \"high\" is not a number",
            "4:62 parameter \"min_silence\" of node \"v\": \"20\" is not a time with its unit, such as 20ms or 1.5s",
            "4:73 parameter \"model\" of node \"v\" must be a single value, not a list",
            "4:78 unknown parameter \"zzz\" of node \"v\" | the parameters of vad: threshold, min_silence, model, limit",
            "5:2 node \"w\" needs the parameter \"path\" | path: a path. The sound.",
            "5:41 parameter \"gain_db\" of node \"w\": \"loud\" is not a number",
            "6:41 \"params\" of node \"l\" must be a map of parameters by name, not a list",
            "7:54 parameter \"language\" of node \"a\": \"english\" is not two letters (in a)",
        ],
    );
}

#[test]
fn the_whole() {
    nodes(
        " m: {use: microphone}\n x: {use: mix, in: [m, z]}\n y: {use: mix, in: x}\n z: {use: mix, in: y}\n s: {use: mix, in: s}\n p: {use: print, in: z}",
        &[
            "4:24 the graph has a cycle: x → y → z → x | packets flow one way; a stream that leads back is written {from: node.port, feedback: true}",
            "7:20 the graph has a cycle: s → s | packets flow one way; a stream that leads back is written {from: node.port, feedback: true}",
        ],
    );
    nodes(
        " i: {use: idle}",
        &[
            "2:1 the graph has no source: none of its nodes makes packets of its own",
            "3:2 warning: node \"i\" receives nothing: no input is connected",
        ],
    );
}

#[test]
fn streams_that_lead_back() {
    let back = |back: &str| {
        format!(
            " m: {{use: microphone}}\n x: {{use: mix, in: [m, {{from: y, feedback: {back}}}]}}\n \
             y: {{use: mix, in: x}}\n p: {{use: print, in: y}}"
        )
    };
    nodes(&back("true"), &[]);
    nodes(
        &back("true, queue: 3, on_full: latest"),
        &[
            "4:57 \"queue\" of the stream from \"y\" to \"x\" must be 1 with \"latest\", not 3 | to keep more than the newest packet, write \"on_full: drop_oldest\"",
        ],
    );
    nodes(
        &back("true, on_full: block"),
        &[
            "4:59 \"on_full: block\" of the stream from \"y\" to \"x\" could wait for itself | a stream with \"feedback\" drops what it has no room for: write drop_oldest, drop_newest or latest",
        ],
    );
    nodes(
        &back("maybe"),
        &[
            "4:31 the graph has a cycle: x → y → x | packets flow one way; a stream that leads back is written {from: node.port, feedback: true}",
            "4:44 \"feedback\" of \"in\" of node \"x\" must be true or false, not \"maybe\"",
        ],
    );
    nodes(
        " m: {use: microphone}\n x: {use: mix, in: {from: x, feedback: true}}\n p: {use: print, in: [m, x]}",
        &[
            "4:2 node \"x\" has no input but \"feedback\" | nothing would tell it that the graph ends: leave out one \"feedback\"",
        ],
    );
}

#[test]
fn budgets_and_the_interrupt() {
    let text = "afferent: 1
nodes:
  m: {use: microphone}
  v: {use: vad, in: m}
  p: {use: print, in: v.audio}
budget:
  - {from: m.audio, to: p.in, p95: 5ms}
  - {from: n.audio, to: v, p95: 0s}
  - {form: m, to: v.audoi}
interrupt: {on: v.evens, cancels: [p, q]}
";
    check(
        text,
        None,
        &[],
        &[
            "8:12 unknown node \"n\" | the nodes: m, v, p",
            "8:25 \"v\" does not say which port | the ports of vad: audio, events",
            "8:33 \"p95\" of \"budget\" must be longer than none",
            "9:5 \"budget\" has no limit: p50, p95, p99, max",
            "9:6 unknown key \"form\" of \"budget\" | did you mean \"from\"?",
            "9:21 unknown port \"audoi\" of node \"v\" | did you mean \"audio\"?",
            "10:19 unknown output \"evens\" of node \"v\" | did you mean \"events\"?",
            "10:39 unknown node \"q\" | the nodes: m, v, p",
        ],
    );
    let text = "afferent: 1\nnodes: {m: {use: microphone}, p: {use: print, in: m}}\ninterrupt: {on: m, cancels: [p, m]}";
    check(
        text,
        None,
        &[],
        &[
            "3:33 node \"m\" interrupts and is canceled by it | its packet would make itself obsolete; take the node out of \"cancels\"",
        ],
    );
    let text = "afferent: 1\nnodes: {m: {use: microphone}, p: {use: print, in: m}}\ninterrupt: {on: m, cancels: []}";
    check(text, None, &[], &["3:29 \"cancels\" of \"interrupt\" names no node"]);
    let text = "afferent: 1\nnodes: {m: {use: microphone}, p: {use: print, in: m}}\ninterrupt: {on: m, cancel: p}\nbudget: m";
    check(
        text,
        None,
        &[],
        &[
            "3:20 unknown key \"cancel\" of \"interrupt\" | did you mean \"cancels\"?",
            "4:9 \"budget\" must be a map of \"from\", \"to\" and a limit such as \"p95\", not a single value",
        ],
    );
}
