//! Profiles and settings that are wrong, and files that cannot be read.

use std::time::Duration;

use afferent_graph::{Catalog, OpenCx};
use afferent_spec::{CheckedGraph, LoadOptions, load_and_check};

use crate::{
    broken::{check, told},
    parts::{EARS, check_with, load},
};

#[test]
fn profiles_and_settings() {
    let text = "afferent: 1
nodes:
  mic: {use: wav_source, params: {path: a.wav}}
  vad: {use: vad, in: mic}
  out: {use: print, in: vad.audio}
profiles:
  live:
    nodes:
      mic: {use: microphone, params: {devise: x}}
      vat: {params: {threshold: 2}}
      out: {prams: {}}
  bare: {nodes: {vad: ~}, name: x}
  loud: {nodes: {mic: {params: {gain_db: 99}}}}
";
    let always = [
        "10:7 profile \"live\" changes node \"vat\", which the graph does not have | did you mean \"vad\"?",
        "11:13 unknown key \"prams\" of node \"out\" | did you mean \"params\"?",
        "12:27 unknown key \"name\" of profile \"bare\" | the keys of profile \"bare\": machines, nodes, params, budget, waterfall, interrupt",
    ];
    let with = |more: &[(usize, &'static str)]| {
        let mut all = always.to_vec();
        more.iter().for_each(|(at, fault)| all.insert(*at, fault));
        all
    };
    check(text, None, &[], &always);
    check(
        text,
        Some("live"),
        &[],
        &with(&[(
            0,
            "9:39 unknown parameter \"devise\" of node \"mic\" | the parameters of microphone: there are none",
        )]),
    );
    check(
        text,
        Some("bare"),
        &[],
        &with(&[(0, "5:25 unknown node \"vad\" | profile \"bare\" removes it")]),
    );
    check(
        text,
        Some("loud"),
        &[],
        &with(&[(
            3,
            "13:42 parameter \"gain_db\" of node \"mic\": 99 is out of range: -60 to 20 dB",
        )]),
    );
    check(
        text,
        Some("lives"),
        &[],
        &with(&[(3, "--profile1:1 there is no profile \"lives\" | did you mean \"live\"?")]),
    );
    check(
        text,
        None,
        &["vad.treshold=0.5", "vid.x=1", "vad", "vad.threshold=[", "mic.gain_db= 99 "],
        &with(&[
            (
                3,
                "--set1:5 unknown parameter \"treshold\" of node \"vad\" | did you mean \"threshold\"?",
            ),
            (
                4,
                "--set1:1 --set changes node \"vid\", which the graph does not have | did you mean \"vad\"?",
            ),
            (5, "--set1:1 \"vad\" is not written \"node.param=value\" or \"param=value\""),
            (6, "--set1:15 parameter \"threshold\" of node \"vad\": \"[\" is not a number"),
            (
                7,
                "--set1:13 parameter \"gain_db\" of node \"mic\": 99 is out of range: -60 to 20 dB",
            ),
        ]),
    );
}

#[test]
fn values_are_filled_in_before_profiles_are_looked_at() {
    let text = "afferent: 1
params: {limit: 50ms, gone: 1ms}
nodes:
  mic: {use: microphone}
  out: {use: print, in: mic}
profiles:
  slow: {nodes: {out: {deadline: \"${limit}\", on_error: \"${env:AFFERENT_IS_NOT_SET}\"}}}
  fast: {nodes: {out: {deadline: \"${gone}\", cpu: x}}}
";
    let fast =
        "8:50 \"cpu\" of node \"out\" must be the number of a processor, from 0 on, not \"x\"";
    check(text, None, &[], &[fast]);
    let unset = "7:56 the environment variable \"AFFERENT_IS_NOT_SET\" is not set | with a default: \"${env:AFFERENT_IS_NOT_SET:-default}\"";
    check(text, Some("slow"), &[], &[unset, fast]);
    let late = "2:17 \"deadline\" of node \"out\": \"soon\" is not a time with its unit, such as 20ms or 1.5s";
    let text = text.replace("50ms", "soon");
    check(&text, Some("slow"), &[], &[late, unset, fast]);
}

const MIDDLE: &str = "afferent: 1
inputs: {audio: low.audio}
outputs: {events: low.events, features: low.features}
nodes:
  low: {graph: ears.yaml, params: {model: m}}
";

const TOP: &str = "afferent: 1
params: {quiet: 0.8, loud: 0.1}
budget: {from: mic, to: out, p95: 1s}
nodes:
  mic: {use: microphone}
  mid: {graph: parts/middle.yaml, in: mic}
  out: {use: print, in: [mid.events, mid.features]}
profiles:
  quiet:
    nodes:
      mid/low/vad: {params: {threshold: \"${quiet}\", min_silence: 1s}}
      mid/low/end: ~
      mid: {nodes: {log: {use: print, in: low.events}}}
    params: {quiet: 0.9}
    budget: {from: mic, to: out, p95: 5ms}
    interrupt: {on: mic, cancels: [mid]}
";

const FILES: [(&str, &str); 3] =
    [("top.yaml", TOP), ("parts/middle.yaml", MIDDLE), ("parts/ears.yaml", EARS)];

#[test]
fn changes_reach_into_parts() {
    let graph = |profile: Option<&str>, set: &[&str]| {
        let set = set.iter().map(|set| (*set).to_owned()).collect();
        let options =
            LoadOptions { profile: profile.map(str::to_owned), set, ..LoadOptions::default() };
        load(&FILES, &options).1.unwrap_or_else(|faults| panic!("{faults}")).graph
    };
    let plain = graph(None, &[]);
    assert_eq!((plain.nodes.len(), plain.interrupt), (6, None));
    let quiet = graph(Some("quiet"), &[]);
    let names: Vec<_> = quiet.nodes.iter().map(|node| node.name.as_str()).collect();
    let expected = ["mic", "mid/low/vad", "mid/low/mel", "mid/low/spare", "mid/log", "out"];
    assert_eq!(names, expected);
    let canceled: Vec<_> = quiet.nodes.iter().map(|node| node.canceled).collect();
    assert_eq!(canceled, [false, true, true, true, true, false]);
    assert_eq!(
        (quiet.budgets.len(), quiet.budgets[0].limits[1]),
        (1, Some(Duration::from_millis(5)))
    );
    let param = |graph: &CheckedGraph, name: &str| {
        graph.nodes[1].params.get(name).map(|value| value.to_string())
    };
    assert_eq!(param(&quiet, "threshold").as_deref(), Some("0.9"));
    assert_eq!(param(&quiet, "min_silence").as_deref(), Some("1s"));
    let set = ["quiet=0.6", "mid/low/vad.min_silence=~", "mid/low.model=other"];
    let set = graph(Some("quiet"), &set);
    assert_eq!(param(&set, "threshold").as_deref(), Some("0.6"));
    assert_eq!(param(&set, "min_silence"), param(&plain, "min_silence"));
    assert!(param(&set, "model").is_some_and(|model| model.ends_with("other")));
    let set = graph(Some("quiet"), &["mid/low/vad.threshold=0.25"]);
    assert_eq!(param(&set, "threshold").as_deref(), Some("0.25"));
}

#[test]
fn paths_that_lead_nowhere() {
    let set = [
        "mid/lwo/vad.threshold=1",
        "mid/low/vat.threshold=1",
        "mid/low/mel/x.y=1",
        "mid/low/vad.treshold=1",
        "mic/x.y=1",
        "quite=1",
        "mid.x=1",
    ];
    let set = set.map(str::to_owned).to_vec();
    check_with(
        &FILES,
        &LoadOptions { set, ..LoadOptions::default() },
        &[
            "--set1:1 --set changes node \"mid/lwo\", which the graph does not have | did you mean \"mid/low\"?",
            "--set1:1 --set changes node \"mid/low/vat\", which the graph does not have | did you mean \"mid/low/vad\"?",
            "--set1:1 --set changes a node in \"mid/low/mel\", which is not a graph",
            "--set1:13 unknown parameter \"treshold\" of node \"mid/low/vad\" | did you mean \"threshold\"?",
            "--set1:1 --set changes a node in \"mic\", which is not a graph",
            "--set1:1 --set sets parameter \"quite\", which the graph does not have | did you mean \"quiet\"?",
            "--set1:5 unknown parameter \"x\" of graph \"mid\" | the parameters of \"mid\": there are none",
        ],
    );
    let top = TOP
        .replace("mid/low/vad:", "mid/low/vda:")
        .replace("params: {quiet: 0.9}", "params: {quite: 0.9}")
        .replace("mid: {nodes", "mid: {node");
    let files = [("top.yaml", top.as_str()), FILES[1], FILES[2]];
    let profile = Some("quiet".to_owned());
    check_with(
        &files,
        &LoadOptions { profile, ..LoadOptions::default() },
        &[
            "top.yaml11:7 the file \"top.yaml\" changes node \"mid/low/vda\", which the graph does not have | did you mean \"mid/low/vad\"?",
            "top.yaml13:13 unknown key \"node\" of node \"mid\" | did you mean \"nodes\"?",
            "top.yaml14:14 profile \"quiet\" sets parameter \"quite\", which the graph does not have | did you mean \"quiet\"?",
            "parts/ears.yaml8:3 warning: outputs \"mid/low/spare.audio\", \"mid/low/spare.events\" of node \"mid/low/spare\" are not connected",
        ],
    );
}

#[test]
fn files_that_cannot_be_read() {
    let folder = std::env::temp_dir().join(format!("afferent-broken-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let cases: [(&str, &[u8], &str); 2] = [
        ("latin.yaml", b"afferent: 1\nname: caf\xe9\n", "line 2 is not UTF-8 text"),
        ("long.yaml", &vec![b'#'; (1 << 20) + 1], "it is longer than 1048576 bytes"),
    ];
    for (name, bytes, expected) in cases {
        let path = folder.join(name);
        std::fs::write(&path, bytes).unwrap();
        let faults =
            load_and_check(&path, &LoadOptions::default(), &Catalog::default(), &OpenCx::default());
        let expected = [format!("cannot read {}: {expected}", path.display())];
        assert_eq!(told(&faults.unwrap_err()), expected);
    }
    std::fs::remove_dir_all(&folder).unwrap();
    let faults =
        load_and_check(&folder, &LoadOptions::default(), &Catalog::default(), &OpenCx::default());
    assert!(faults.unwrap_err().to_string().starts_with("error: cannot read "));
}
