//! Subgraphs and substitution.

use std::{
    fs,
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
};

use afferent_graph::{OpenCx, PortKind};
use afferent_spec::{Checked, Diagnostics, LoadOptions, load_and_check};

use crate::{broken::told, catalog::catalog};

/// Writes `files` to a folder and checks the first one.
pub(crate) fn load(
    files: &[(&str, &str)],
    options: &LoadOptions,
) -> (PathBuf, Result<Checked, Diagnostics>) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = format!("afferent-parts-{}-{number}", std::process::id());
    let folder = std::env::temp_dir().join(folder);
    for (name, text) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("it has a folder")).expect("it can be made");
        fs::write(path, text).expect("it can be written");
    }
    let checked = load_and_check(&folder.join(files[0].0), options, &catalog(), &OpenCx::default());
    fs::remove_dir_all(&folder).expect("it is there");
    (folder, checked)
}

pub(crate) const EARS: &str = "afferent: 1
params: {threshold: 0.5, model: ~}
inputs: {audio: [vad.audio, mel.audio]}
outputs: {events: vad.events, features: mel}
nodes:
  vad: {use: vad, params: {threshold: \"${threshold}\", model: \"${model}\"}}
  mel: {use: log_mel}
  spare: {use: vad, in: vad.audio, params: {model: own/spare}}
  end: {use: print, in: spare.events}
";

const HEAD: &str = "afferent: 1
budget: {from: ears.events, to: asr.words, p95: 1s}
interrupt: {on: mic, cancels: [ears, asr]}
nodes:
  mic: {use: microphone}
  ears: {graph: parts/ears.yaml, in: {audio: mic}, params: {model: models/vad}}
  asr: {use: asr, in: {features: ears.features, events: ears.events}, params: {language: en}}
  out: {use: print, in: asr}
";

#[test]
fn a_graph_is_a_node() {
    let set = vec!["ears.threshold=0.25".to_owned()];
    let options = LoadOptions { set, ..LoadOptions::default() };
    let (folder, checked) = load(&[("head.yaml", HEAD), ("parts/ears.yaml", EARS)], &options);
    let graph = checked.unwrap_or_else(|faults| panic!("{faults}")).graph;
    let names: Vec<_> = graph.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["mic", "ears/vad", "ears/mel", "ears/spare", "ears/end", "asr", "out"]);
    let edges = graph.edges.iter().map(|edge| {
        let from = graph.port_name(edge.from, PortKind::Output);
        format!("{from} > {}", graph.port_name(edge.to, PortKind::Input))
    });
    let mut edges: Vec<_> = edges.collect();
    edges.sort();
    let expected = [
        "asr.words > out.in",
        "ears/mel.features > asr.features",
        "ears/spare.events > ears/end.in",
        "ears/vad.audio > ears/spare.audio",
        "ears/vad.events > asr.events",
        "mic.audio > ears/mel.audio",
        "mic.audio > ears/vad.audio",
    ];
    assert_eq!(edges, expected);
    let param = |node: usize, name: &str| graph.nodes[node].params[name].to_string();
    assert_eq!(param(1, "threshold"), "0.25");
    let path = |path: &str| folder.join(path).display().to_string();
    assert_eq!(param(1, "model"), path("models/vad"), "a path is relative to its own file");
    assert_eq!(param(3, "model"), path("parts/own/spare"));
    let canceled: Vec<_> = graph.nodes.iter().map(|node| node.canceled).collect();
    assert_eq!(canceled, [false, true, true, true, true, true, false]);
    assert_eq!((graph.budgets[0].from.node, graph.budgets[0].to.node), (1, 5));
}

#[test]
fn graphs_nest() {
    let middle = "afferent: 1\ninputs: {audio: low.audio}\noutputs: {events: low.events}\nnodes:\n  low: {graph: ears.yaml, params: {model: m}}\n";
    let top = "afferent: 1\nnodes:\n  mic: {use: microphone}\n  mid: {graph: parts/middle.yaml, in: mic}\n  out: {use: print, in: mid}\n";
    let files = [("top.yaml", top), ("parts/middle.yaml", middle), ("parts/ears.yaml", EARS)];
    let (_, checked) = load(&files, &LoadOptions::default());
    let graph = checked.unwrap_or_else(|faults| panic!("{faults}")).graph;
    assert_eq!(graph.nodes[1].name, "mid/low/vad");
    assert_eq!(graph.edges.len(), 5);
}

/// Diagnostics as `told`, without the folder.
fn check(files: &[(&str, &str)], expected: &[&str]) {
    check_with(files, &LoadOptions::default(), expected);
}

/// As [`check`], with `options`.
pub(crate) fn check_with(files: &[(&str, &str)], options: &LoadOptions, expected: &[&str]) {
    let (folder, checked) = load(files, options);
    let Err(faults) = checked else { panic!("it was accepted") };
    let folder = format!("{}/", folder.display());
    let told: Vec<_> = told(&faults).iter().map(|fault| fault.replace(&folder, "")).collect();
    assert_eq!(told, expected, "{faults}");
}

#[test]
fn faults_are_told_in_the_file_where_they_are() {
    let head = HEAD.replace("ears.features", "ears.feature").replace("{model:", "{modl:");
    let ears =
        EARS.replace("use: log_mel", "use: log_mal").replace("vad.events, f", "vat.events, f");
    check(
        &[("head.yaml", &head), ("parts/ears.yaml", &ears)],
        &[
            "head.yaml6:3 graph \"ears\" needs the parameter \"model\"",
            "head.yaml6:61 unknown parameter \"modl\" of graph \"ears\" | did you mean \"model\"?",
            "head.yaml7:39 unknown output \"feature\" of graph \"ears\" | did you mean \"features\"?",
            "parts/ears.yaml4:19 unknown node \"vat\" | did you mean \"vad\"?",
            "parts/ears.yaml7:14 unknown kind \"log_mal\" of node \"ears/mel\" | did you mean \"log_mel\"?",
        ],
    );
    let once = "afferent: 1\nnodes:\n  a: {graph: a.yaml}\n";
    let (_, checked) = load(&[("a.yaml", once)], &LoadOptions::default());
    assert!(checked.unwrap_err().to_string().contains("a graph cannot be a part of itself"));
    let lost = "afferent: 1\nnodes:\n  m: {use: microphone}\n  a: {graph: lost.yaml, in: m}\n  p: {use: print, in: a}\n";
    let (_, checked) = load(&[("b.yaml", lost)], &LoadOptions::default());
    let faults = checked.unwrap_err();
    assert_eq!(faults.errors(), 1, "{faults}");
    assert!(faults.to_string().contains("lost.yaml: No such file"), "{faults}");
}

#[test]
fn a_graph_has_one_interrupt_and_one_waterfall() {
    let ears = format!(
        "{EARS}interrupt: {{on: vad.events, cancels: [mel]}}\nbudget: {{from: vad.evens, to: mel.audio, p95: 1s}}\nwaterfall: [vad.audio, mal.features]\nprofiles:\n  bare: {{interrupt: ~, budget: ~, waterfall: ~}}\n"
    );
    check(
        &[("head.yaml", HEAD), ("parts/ears.yaml", &ears)],
        &[
            "parts/ears.yaml10:1 \"interrupt\" of graph \"ears\" is a second one: a graph has one \"interrupt\" | the other one is in head.yaml, line 3; leave one of them out",
            "parts/ears.yaml11:20 unknown port \"evens\" of node \"ears/vad\" | did you mean \"events\"?",
            "parts/ears.yaml12:24 unknown node \"ears/mal\" | did you mean \"ears/mel\"?",
        ],
    );
    let with = |profile: &str| HEAD.replace("{graph:", &format!("{{profile: {profile}, graph:"));
    let head = with("bare");
    let files = [("head.yaml", head.as_str()), ("parts/ears.yaml", &ears)];
    let (_, checked) = load(&files, &LoadOptions::default());
    assert_eq!(checked.unwrap_or_else(|faults| panic!("{faults}")).graph.budgets.len(), 1);
    let (_, checked) =
        load(&[("head.yaml", &with("barre")), ("parts/ears.yaml", &ears)], &LoadOptions::default());
    let faults = checked.unwrap_err().to_string();
    assert!(faults.contains("head.yaml:6:19") && faults.contains("\"bare\"?"), "{faults}");
}

#[test]
fn what_a_profile_of_a_part_removes_is_told() {
    let head = HEAD.replace("{graph:", "{profile: quiet, graph:");
    let ears = format!(
        "{EARS}budget: {{from: vad.events, to: end.in, p95: 1s}}\nprofiles:\n  quiet: {{nodes: {{spare: ~, end: ~}}}}\n"
    );
    check(
        &[("head.yaml", &head), ("parts/ears.yaml", &ears)],
        &["parts/ears.yaml10:32 unknown node \"ears/end\" | profile \"quiet\" removes it"],
    );
}

#[test]
fn values_stand_for_others() {
    let graph = |path: &str| {
        format!(
            "afferent: 1\nparams: {{dir: in}}\nnodes:\n  m: {{use: wav_source, params: {{path: {path}}}}}\n  p: {{use: print, in: m}}\n"
        )
    };
    let cases = [
        ("\"${dir}/a.wav\"", "in/a.wav"),
        ("\"x${env:AFFERENT_IS_NOT_SET:-default}y\"", "xdefaulty"),
        ("\"$${dir}\"", "${dir}"),
        ("\"${dir}\"", "in"),
    ];
    for (path, expected) in cases {
        let (folder, checked) = load(&[("g.yaml", &graph(path))], &LoadOptions::default());
        let graph = checked.unwrap_or_else(|faults| panic!("{faults}")).graph;
        let expected = folder.join(expected).display().to_string();
        assert_eq!(graph.nodes[0].params["path"].to_string(), expected);
    }
    let faults = [
        ("\"${dri}\"", "unknown parameter \"dri\" of the graph | did you mean \"dir\"?"),
        (
            "\"${dir\"",
            "\"${\" is not closed by \"}\" | for the characters themselves, write \"$${\"",
        ),
        (
            "\"${env:AFFERENT_IS_NOT_SET}\"",
            "the environment variable \"AFFERENT_IS_NOT_SET\" is not set | with a default: \"${env:AFFERENT_IS_NOT_SET:-default}\"",
        ),
        (
            "\"${env:}\"",
            "the environment variable \"\" is not set | with a default: \"${env::-default}\"",
        ),
    ];
    for (path, expected) in faults {
        check(&[("g.yaml", &graph(path))], &[&format!("g.yaml4:39 {expected}")]);
    }
}

#[test]
fn a_value_from_outside_is_filled_in_once() {
    let part = "afferent: 1\nparams: {path: ~, other: \"${env:AFFERENT_IS_NOT_SET:-o}\"}\noutputs: {audio: m.audio}\nnodes:\n  m: {use: wav_source, params: {path: \"${path}${other}\"}}\n";
    let top = "afferent: 1\nnodes:\n  in: {graph: part.yaml, params: {path: \"$${env:AFFERENT_IS_NOT_SET}\"}}\n  p: {use: print, in: in}\n";
    let files = [("top.yaml", top), ("part.yaml", part)];
    let (folder, checked) = load(&files, &LoadOptions::default());
    let graph = checked.unwrap_or_else(|faults| panic!("{faults}")).graph;
    let expected = folder.join("${env:AFFERENT_IS_NOT_SET}o").display().to_string();
    assert_eq!(graph.nodes[0].params["path"].to_string(), expected);
}

#[test]
fn params_that_are_no_map_are_refused() {
    let part =
        "afferent: 1\nparams: [path]\noutputs: {audio: m.audio}\nnodes:\n  m: {use: microphone}\n";
    let top = "afferent: 1\nparams: 3\nnodes:\n  in: {graph: part.yaml, params: [a]}\n  p: {use: print, in: in}\n";
    check(
        &[("top.yaml", top), ("part.yaml", part)],
        &[
            "top.yaml2:9 \"params\" of the graph must be a map of values by name, not a single value",
            "top.yaml4:34 \"params\" of node \"in\" must be a map of parameters by name, not a list",
            "part.yaml2:9 \"params\" of the graph must be a map of values by name, not a list",
        ],
    );
}

/// Each of seven files repeats its parameter sixteen times.
#[test]
fn values_have_a_limit_with_what_they_repeat() {
    let name = |level: usize| format!("l{level}.yaml");
    let file = |level: usize| {
        let text = "${a}".repeat(16);
        let next = name(level + 1);
        format!(
            "afferent: 1\nparams: {{a: xxxxxxxxxxxxxxxx}}\nnodes:\n  n: {{graph: {next}, params: {{a: \"{text}\"}}}}\n"
        )
    };
    let last = "afferent: 1\nparams: {a: ~}\nnodes:\n  m: {use: microphone}\n";
    let mut files: Vec<_> = (0..7).map(|level| (name(level), file(level))).collect();
    files.push((name(7), last.to_owned()));
    let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let faults = load(&files, &LoadOptions::default()).1.unwrap_err();
    assert_eq!(faults.errors(), 1, "{faults}");
    let text = faults.to_string();
    assert!(text.contains("l5.yaml:4:") && text.contains("bytes of values"), "{text}");
}

#[test]
fn a_file_is_based_on_others() {
    let common = "afferent: 1\nname: common\nparams: {level: 0.5}\nnodes:\n  mic: {use: microphone}\n  vad: {use: vad, in: mic, params: {model: m, threshold: \"${level}\", min_silence: 1s}}\n  mel: {use: log_mel, in: vad.audio}\n  out: {use: print, in: mel}\nprofiles:\n  loud: {nodes: {vad: {params: {threshold: 0.9}}}}\n";
    let more = "afferent: 1\nnodes:\n  log: {use: print, in: vad.events}\n";
    let top = "afferent: 1\ninclude: [base/common.yaml, base/more.yaml]\nname: top\nparams: {level: 0.25}\nnodes:\n  vad: {params: {min_silence: 2s}}\n  out: ~\n  asr: {use: asr, in: {features: mel}, params: {language: en}}\n  end: {use: print, in: asr}\n";
    let files = [("top.yaml", top), ("base/common.yaml", common), ("base/more.yaml", more)];
    let (folder, checked) = load(&files, &LoadOptions::default());
    let checked = checked.unwrap();
    let graph = &checked.graph;
    let names: Vec<_> = graph.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(
        (graph.name.as_str(), names),
        ("top", vec!["mic", "vad", "mel", "log", "asr", "end"])
    );
    let read =
        checked.origin.files.iter().map(|(path, text)| {
            (path.strip_prefix(&folder).unwrap().to_str().unwrap(), text.as_str())
        });
    assert_eq!(read.collect::<Vec<_>>(), files);
    let level = ("level".to_owned(), "0.25".to_owned());
    assert_eq!(checked.origin.params.into_iter().collect::<Vec<_>>(), [level]);
    let graph = checked.graph;
    let params = |graph: &afferent_spec::CheckedGraph| {
        let vad = &graph.nodes[1].params;
        ["model", "threshold", "min_silence"].map(|name| vad[name].to_string())
    };
    let model = folder.join("base/m").display().to_string();
    assert_eq!(params(&graph), [model.clone(), "0.25".to_owned(), "2s".to_owned()]);
    let options = LoadOptions { profile: Some("loud".to_owned()), ..LoadOptions::default() };
    let graph = load(&files, &options).1.unwrap().graph;
    assert_eq!(params(&graph)[1], "0.9", "a profile of what is included");
}

#[test]
fn faults_of_what_is_included_stand_in_its_file() {
    let base = "nodes:\n  mic: {use: microphon}\n";
    let top = "afferent: 1\ninclude: base.yaml\nnodes:\n  out: {use: print, in: mic.audio}\n";
    let (_, checked) = load(&[("top.yaml", top), ("base.yaml", base)], &LoadOptions::default());
    let text = checked.unwrap_err().to_string();
    assert!(text.contains("base.yaml:1:1") && text.contains("afferent: 1"), "{text}");
    assert!(
        text.contains("base.yaml:2:14") && text.contains("did you mean \"microphone\"?"),
        "{text}"
    );
    let lost = "afferent: 1\ninclude: lost.yaml\nnodes:\n  mic: {use: microphone}\n";
    let text = load(&[("top.yaml", lost)], &LoadOptions::default()).1.unwrap_err().to_string();
    assert!(text.contains("top.yaml:2:10") && text.contains("cannot read"), "{text}");
    // A file that includes itself twice ends with one error.
    let own = "afferent: 1\ninclude: [top.yaml, top.yaml]\nnodes:\n  mic: {use: microphone}\n";
    let faults = load(&[("top.yaml", own)], &LoadOptions::default()).1.unwrap_err();
    let deep = faults.to_string().matches("nest deeper than 8 levels").count();
    assert_eq!(deep, 1, "{faults}");
}

#[test]
fn ports_that_small_files_multiply_are_bounded() {
    let ports = |port: &str| vec![port; 30].join(", ");
    let mut files = vec![(
        "0.yaml".to_owned(),
        format!("afferent: 1\ninputs: {{a: [{}]}}\nnodes:\n  g: {{use: print}}\n", ports("g")),
    )];
    for depth in 1..6 {
        let text = format!(
            "afferent: 1\ninputs: {{a: [{}]}}\nnodes:\n  g: {{graph: {}.yaml}}\n",
            ports("g.a"),
            depth - 1
        );
        files.insert(0, (format!("{depth}.yaml"), text));
    }
    let files: Vec<_> = files.iter().map(|(name, text)| (&**name, &**text)).collect();
    let faults = load(&files, &LoadOptions::default()).1.unwrap_err().to_string();
    assert!(faults.contains("hold more than"), "{faults}");
}
