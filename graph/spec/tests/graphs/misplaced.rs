//! Faults of machines and processes.

use afferent_graph::OpenCx;
use afferent_spec::{LoadOptions, Loaded, MachineConfig, PlacementOptions, check, parse};

use crate::{
    broken::told,
    catalog::{catalog, check_text},
    parts::check_with,
    placed::TEXT,
};

/// Diagnostics of `TEXT` with the first `from` of each pair replaced; warnings of a sound graph
/// too.
fn faults(changes: &[(&str, &str)], placement: &PlacementOptions) -> Vec<String> {
    let text = changes.iter().fold(TEXT.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    });
    let options = LoadOptions { placement: placement.clone(), ..LoadOptions::default() };
    match check_text(&text, &options) {
        Ok(checked) => told(&checked.warnings),
        Err(faults) => told(&faults),
    }
}

fn check_one(from: &str, to: &str, expected: &str) {
    assert_eq!(faults(&[(from, to)], &PlacementOptions::default()), [expected], "{to}");
}

#[test]
fn names() {
    let form =
        "a name is made of at most 64 letters, digits, \"_\" and \"-\", and starts with a letter";
    check_one(
        "in: mic, machine: base",
        "in: mic, machine: bass",
        "7:37 unknown machine \"bass\" | did you mean \"base\"?",
    );
    for name in ["g/pu", "", "..", "gpu.1"] {
        let expected = format!("7:52 \"{name}\" cannot be the name of a process | {form}");
        check_one("process: gpu", &format!("process: \"{name}\""), &expected);
    }
    check_one(
        "process: gpu",
        "process: [a]",
        "7:52 \"process\" of node \"vad\" must be a text, not a list",
    );
    let expected = format!("5:3 \".x\" cannot be the name of a machine | {form}");
    let changes = [
        ("base: {}", "base: {}\n  .x: {listen: tcp/0.0.0.0:1}"),
        ("use: microphone", "use: microphone, machine: .x"),
    ];
    let found = faults(&changes, &PlacementOptions::default());
    assert_eq!(found, [expected]);
    check_one("base: {}", "base: {}\n  idle:", "5:3 warning: machine \"idle\" runs no node");
    let text =
        "afferent: 1\nnodes:\n  m: {use: microphone}\n  p: {use: print, in: m, machine: a}\n";
    let found = told(&check_text(text, &LoadOptions::default()).unwrap_err());
    let expected = "4:35 machine \"a\" is not declared: the graph has no \"machines\" | write \"machines: {a: {}}\" ahead of \"nodes\"";
    assert_eq!(found, [expected]);
}

#[test]
fn machines() {
    check_one(
        "base: {}",
        "base: {listn: tcp/0.0.0.0:1}",
        "4:10 unknown key \"listn\" of machine \"base\" | did you mean \"listen\"?",
    );
    check_one(
        "base: {}",
        "base: {address: tcp/10.0.0.2:1}",
        "4:10 machine \"base\" has an \"address\", which a graph file does not fix | give it at the start: --at base=ADDRESS",
    );
    check_one(
        "base: {}",
        "base: 3",
        "4:9 machine \"base\" must be a map of \"listen\", not a single value",
    );
    check_one(
        "quic/0",
        "tls/0",
        "3:19 \"tls/0.0.0.0:7450\": tls links are not supported | write \"quic/0.0.0.0:7450\", which is encrypted too: tls links of zenoh lose their stream under load (zenoh #2557)",
    );
    check_one(
        "quic/0",
        "0",
        "3:19 \"0.0.0.0:7450\" is not the address of a machine | it is written \"PROTOCOL/HOST:PORT\", such as \"quic/0.0.0.0:7450\"",
    );
    check_one(
        "{listen: quic/0.0.0.0:7450}",
        "{}",
        "7:23 machines \"robot\" and \"base\" exchange packets, and neither listens | let one of them listen: \"robot: {listen: quic/0.0.0.0:7450}\" in \"machines\"",
    );
    let text =
        "afferent: 1\nmachines: {}\nnodes:\n  m: {use: microphone}\n  p: {use: print, in: m}\n";
    let found = told(&check_text(text, &LoadOptions::default()).unwrap_err());
    assert_eq!(found, ["2:11 \"machines\" names no machine"]);
}

/// An interrupt of another machine needs a link too.
#[test]
fn interrupts_cross() {
    let text = "afferent: 1\nmachines: {a: {}, b: {}}\nnodes:\n  m: {use: microphone}\n  p: {use: print, in: m}\n  n: {use: microphone, machine: b}\n  q: {use: print, in: n, machine: b}\ninterrupt: {on: m.audio, cancels: [q]}\n";
    let found = told(&check_text(text, &LoadOptions::default()).unwrap_err());
    let expected = "8:17 machines \"a\" and \"b\" exchange packets, and neither listens | let one of them listen: \"a: {listen: quic/0.0.0.0:7450}\" in \"machines\"";
    assert_eq!(found, [expected]);
    let text = text.replace("b: {}}", "b: {listen: tcp/0.0.0.0:1}}");
    assert!(check_text(&text, &LoadOptions::default()).unwrap().warnings.is_empty());
}

/// The first machine starts the session of every other one.
#[test]
fn machines_share_a_session() {
    let text = "afferent: 1\nmachines: {a: {}, b: {}}\nnodes:\n  m: {use: microphone, machine: b}\n  p: {use: print, in: m, machine: b}\n";
    let text =
        text.replace("nodes:\n", "nodes:\n  n: {use: microphone}\n  q: {use: print, in: n}\n");
    let found = told(&check_text(&text, &LoadOptions::default()).unwrap_err());
    let expected = "2:19 machines \"a\" and \"b\" share a session, and neither listens | let one of them listen: \"a: {listen: quic/0.0.0.0:7450}\" in \"machines\"";
    assert_eq!(found, [expected]);
}

#[test]
fn losses() {
    check_one(
        "loss_timeout: 5s",
        "loss_timeout: 0s",
        "8:74 \"loss_timeout\" of \"in\" of node \"mel\" must be longer than none",
    );
    check_one(
        "on_loss: wait",
        "on_loss: wiat",
        "8:54 \"on_loss\" of \"in\" of node \"mel\": \"wiat\" is not one of wait, end, stop | did you mean \"wait\"?",
    );
    check_one(
        "on_loss: wait",
        "on_loss: stop",
        "8:74 \"loss_timeout\" of the stream from \"vad\" to \"mel\" needs \"on_loss: wait\" | it says after which time a wait becomes an end",
    );
    let changes = [(", machine: robot}", ", machine: base, process: gpu}")];
    let expected = ["on_loss", "loss_timeout"].map(|key| {
        let column = if key == "on_loss" { 54 } else { 74 };
        format!(
            "8:{column} warning: \"{key}\" of the stream from \"vad\" to \"mel\" has no effect: both nodes run in the same process"
        )
    });
    assert_eq!(faults(&changes, &PlacementOptions::default()), expected);
    let here = PlacementOptions { here: true, ..PlacementOptions::default() };
    assert!(faults(&changes, &here).is_empty());
}

#[test]
fn threads_are_those_of_one_process() {
    let changes = [
        ("machine: base}\n", "machine: base, thread: t}\n"),
        ("{use: microphone}", "{use: microphone, thread: t}"),
    ];
    let expected = "10:72 nodes \"mic\" and \"out\" share the thread \"t\", but run in different processes: robot and base | give them different threads, or the same \"machine\" and \"process\"";
    assert_eq!(faults(&changes, &PlacementOptions::default()), [expected]);
    let here = PlacementOptions { here: true, ..PlacementOptions::default() };
    assert!(faults(&changes, &here).is_empty());
}

#[test]
fn payloads_between_processes_need_a_wire_codec() {
    let text = "afferent: 1\nnodes:\n  m: {use: secret}\n  p: {use: print, in: m, process: b}\n";
    let found = told(&check_text(text, &LoadOptions::default()).unwrap_err());
    let expected = "4:23 test/Secret of \"m.out\" cannot leave its process: the payload type has no wire codec | run both nodes in one process, or set `WIRE` of the payload type: \"m\" is in main, \"p\" in b";
    assert_eq!(found, [expected]);
    let here = PlacementOptions { here: true, ..PlacementOptions::default() };
    assert!(check_text(text, &LoadOptions { placement: here, ..Default::default() }).is_ok());
}

#[test]
fn raw_images_between_machines_are_counted() {
    let text = "afferent: 1\nmachines: {robot: {listen: tcp/0.0.0.0:1}, base: {}}\nnodes:\n  cam: {use: camera, params: {width: 1280}}\n  show: {use: print, in: cam, machine: base}\n";
    let check = |text: &str| told(&check_text(text, &LoadOptions::default()).unwrap().warnings);
    let expected = "5:26 warning: raw images of \"cam\" go from machine \"robot\" to machine \"base\": 442 Mb/s | run \"show\" on \"robot\", or send smaller or encoded images";
    assert_eq!(check(text), [expected], "1280 × 480 × 3 bytes × 30 Hz × 8 bits");
    let planar = text.replace("width: 1280", "format: nv12");
    assert!(check(&planar)[0].contains(": 111 Mb/s |"), "640 × 480 × 12 bits × 30 Hz");
    let unknown = text.replace("width: 1280", "format: nv21");
    assert!(check(&unknown)[0].contains("machine \"base\" |"), "{:?}", check(&unknown));
    assert!(check(&text.replace("machine: base", "process: base"))[0].contains("runs no node"));
}

#[test]
fn options_of_the_start() {
    let at = |at: &[&str]| PlacementOptions {
        at: at.iter().map(|at| (*at).to_owned()).collect(),
        ..PlacementOptions::default()
    };
    let machine = |name: &str| PlacementOptions {
        machine: Some(name.to_owned()),
        ..PlacementOptions::default()
    };
    let cases = [
        (machine("bse"), "--machine1:1 unknown machine \"bse\" | did you mean \"base\"?"),
        (at(&["bse=tcp/a:1"]), "--at1:1 unknown machine \"bse\" | did you mean \"base\"?"),
        (
            at(&["base"]),
            "--at1:1 \"base\" is not written \"NAME=ADDRESS\" | such as \"robot=quic/10.0.0.2:7450\"",
        ),
        (
            at(&["robot=tcp/a:1", "base=a:1"]),
            "--at1:6 \"a:1\" is not the address of a machine | it is written \"PROTOCOL/HOST:PORT\", such as \"quic/10.0.0.2:7450\"",
        ),
        (
            at(&["base=quic/0.0.0.0:1"]),
            "--at1:6 \"quic/0.0.0.0:1\" names every network of a machine, not one address | such as \"quic/10.0.0.2:7450\"",
        ),
    ];
    for (placement, expected) in cases {
        assert_eq!(faults(&[], &placement), [expected]);
    }
    let options = PlacementOptions { at: vec!["robot=tcp/a:1".into()], ..machine("base") };
    let options = LoadOptions { placement: options, ..LoadOptions::default() };
    let graph = check_text(TEXT, &options).unwrap().graph;
    assert_eq!((graph.machine, graph.machines[0].address.as_deref()), (Some(1), Some("tcp/a:1")));
}

#[test]
fn a_file_gives_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("site.yaml");
    let load = |text: &str, at: &[&str]| {
        std::fs::write(&path, text).unwrap();
        let at = at.iter().map(|at| (*at).to_owned()).collect();
        let machines = Some(path.clone());
        let placement = PlacementOptions { at, machines, ..PlacementOptions::default() };
        check_text(TEXT, &LoadOptions { placement, ..LoadOptions::default() })
    };
    let text = "machines:\n  robot: {listen: \"tcp/[::]:9\", address: tcp/robot:9}\n  base: {address: tcp/base:9}\n";
    let checked = load(text, &["base=tcp/other:9"]).unwrap();
    let given = checked.graph.machines.iter().map(|machine| {
        let text = |address: &Option<String>| address.clone().unwrap_or_default();
        (text(&machine.listen), text(&machine.address))
    });
    let given: Vec<_> = given.collect();
    let expected = [("tcp/[::]:9", "tcp/robot:9"), ("", "tcp/other:9")];
    assert_eq!(given, expected.map(|(listen, address)| (listen.to_owned(), address.to_owned())));
    assert!(checked.files().iter().any(|file| file.path == path), "no output may overwrite it");
    let cases = [
        (
            "machine: {}",
            "1:1 unknown key \"machine\" of the file of --machines | did you mean \"machines\"?",
        ),
        ("{}", "1:1 the file of --machines has no \"machines\""),
        ("machines: {bse: {}}", "1:12 unknown machine \"bse\" | did you mean \"base\"?"),
        (
            "machines: {base: {listen: udp/a:1}}",
            "1:27 \"udp/a:1\": unknown protocol \"udp\" | the protocols: tcp, quic",
        ),
        (
            "machines: {base: {adress: tcp/a:1}}",
            "1:19 unknown key \"adress\" of machine \"base\" | did you mean \"address\"?",
        ),
        (
            "machines: {base: tcp/a:1}",
            "1:18 machine \"base\" must be a map of \"listen\", \"address\", \"ssh\", \"dir\" and \
             \"program\", not a single value",
        ),
        (
            "machines: {base: {ssh: -oProxyCommand=a}}",
            "1:24 \"-oProxyCommand=a\" of machine \"base\" is no login, folder or program",
        ),
    ];
    for (text, expected) in cases {
        let found = told(&load(text, &[]).unwrap_err());
        assert_eq!(found, [format!("{}{expected}", path.display())], "{text}");
    }
    let placement = PlacementOptions { machines: Some("absent.yaml".into()), ..Default::default() };
    let found = faults(&[], &placement);
    assert!(found[0].starts_with("--machines: cannot read absent.yaml: "), "{found:?}");
}

#[test]
fn profiles_and_subgraphs_assign_nodes() {
    let ears = "afferent: 1\nmachines: {robot: {listen: tcp/0.0.0.0:2}, extra: {listen: tcp/0.0.0.0:3}}\ninputs: {audio: vad.audio}\noutputs: {events: vad.events, audio: mel.features}\nnodes:\n  vad: {use: vad}\n  mel: {use: log_mel, in: vad.audio, process: own}\n  end: {use: print, in: mel, machine: extra}\n";
    let top = "afferent: 1\nmachines: {base: {}, robot: {}}\nnodes:\n  mic: {use: microphone}\n  ears: {graph: ears.yaml, in: mic, machine: robot, process: ears}\n  out: {use: print, in: ears.events}\nprofiles:\n  one: {machines: {base: {listen: quic/0.0.0.0:1}}, nodes: {ears: {machine: base}, ears/end: {machine: base}}}\n";
    let files = [("top.yaml", top), ("ears.yaml", ears)];
    let outline = |profile: Option<&str>| {
        let profile = profile.map(str::to_owned);
        let options = LoadOptions { profile, ..LoadOptions::default() };
        let graph = crate::parts::load(&files, &options).1;
        let graph = graph.unwrap_or_else(|faults| panic!("{faults}")).graph;
        let nodes = graph.nodes.iter();
        let nodes = nodes.map(|node| graph.partition_name(node.partition)).collect::<Vec<_>>();
        let machines = graph.machines.iter();
        let machines = machines.map(|machine| (machine.name.clone(), machine.listen.clone()));
        (nodes, machines.collect::<Vec<_>>())
    };
    let (nodes, machines) = outline(None);
    assert_eq!(nodes, ["base", "robot/ears", "robot/own", "extra/ears", "base"]);
    let listen = |name: &str, listen: &str| (name.to_owned(), Some(listen.to_owned()));
    assert_eq!(machines[1], listen("robot", "tcp/0.0.0.0:2"));
    let (nodes, machines) = outline(Some("one"));
    assert_eq!(nodes, ["base", "base/ears", "base/own", "base/ears", "base"]);
    assert_eq!(machines[0], listen("base", "quic/0.0.0.0:1"));
    let wrong = top.replace("machine: robot, p", "machine: robt, p");
    check_with(
        &[("top.yaml", &wrong), ("ears.yaml", ears)],
        &LoadOptions::default(),
        &["top.yaml5:46 unknown machine \"robt\" | did you mean \"robot\"?"],
    );
    let wrong = top.replace("{machines: {base: {", "{machines: {bass: ~, base: {listn: x, ");
    check_with(
        &[("top.yaml", &wrong), ("ears.yaml", ears)],
        &LoadOptions::default(),
        &[
            "top.yaml8:20 profile \"one\" removes machine \"bass\", which the graph does not have | did you mean \"base\"?",
            "top.yaml8:36 unknown key \"listn\" of machine \"base\" | did you mean \"listen\"?",
        ],
    );
}

#[test]
fn a_graph_built_in_rust_has_machines() {
    let mut graph = parse(TEXT, "g.yaml".as_ref(), &LoadOptions::default()).graph;
    graph.machines.push(MachineConfig { name: "base".into(), ..MachineConfig::default() });
    let check = |graph, options: &PlacementOptions| {
        check(&Loaded::from(graph).deployed(options), &catalog(), &OpenCx::default())
    };
    let faults = check(graph.clone(), &PlacementOptions::default()).unwrap_err();
    assert!(faults.to_string().contains("error: there are two machines \"base\""), "{faults}");
    graph.machines.pop();
    let options = PlacementOptions { machine: Some("base".into()), ..PlacementOptions::default() };
    assert_eq!(check(graph.clone(), &options).unwrap().graph.machine, Some(1));
    let options = PlacementOptions { at: vec!["base=tls/a:1".into()], ..options };
    let faults = check(graph, &options).unwrap_err().to_string();
    assert!(faults.contains("--at:1:6") && faults.contains("#2557"), "{faults}");
}
