//! Commands as a user calls them: output, files and exit status.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use afferent_engine::Report;
use afferent_record::Recording;
use hound::{WavSpec, WavWriter};
use mcap::{read::LinearReader, records::Record};
use serde_json::json;

const TOP: &str = r#"afferent: 1
params: {block: 20ms}
nodes:
  ears: {graph: parts/ears.yaml, params: {block: "${block}", pace: "${env:AFFERENT_TEST_PACE:-max}"}}
  even: {use: agc, in: ears}
  log: {use: event_log, in: even, params: {path: log.txt}}
budget: {from: ears.audio, to: log.events, max: 1h}
waterfall: [ears.audio, even.audio]
profiles:
  bare: {budget: ~, waterfall: ~}
  strict: {budget: {from: ears/wav.audio, to: log.events, p50: 1ns}}
"#;

const EARS: &str = r#"afferent: 1
params: {block: ~, pace: ~}
outputs: {audio: wav.audio}
nodes:
  wav: {use: wav_source, params: {path: sound.wav, block: "${block}", pace: "${pace}"}}
"#;

/// Writes silence at 16 kHz.
fn write_sound(path: &Path, samples: u32) {
    let format = hound::SampleFormat::Int;
    let spec =
        WavSpec { channels: 1, sample_rate: 16_000, bits_per_sample: 16, sample_format: format };
    let mut file = WavWriter::create(path, spec).unwrap();
    (0..samples).for_each(|_| file.write_sample(0i16).unwrap());
    file.finalize().unwrap();
}

/// A folder with a graph, its subgraph, and its sound file.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("parts")).unwrap();
    fs::write(folder.path().join("top.yaml"), TOP).unwrap();
    fs::write(folder.path().join("parts/ears.yaml"), EARS).unwrap();
    // 100 ms.
    write_sound(&folder.path().join("parts/sound.wav"), 1600);
    folder
}

fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_afferent"));
    command.current_dir(folder).args(args);
    command
}

/// Runs the command; returns standard output, standard error, and true on success.
fn call(folder: &Path, args: &[&str]) -> (String, String, bool) {
    let Output { status, stdout, stderr } = command(folder, args).output().unwrap();
    (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap(), status.success())
}

#[test]
fn several_processes_are_checked_and_run_here_only() {
    let folder = folder();
    let text = TOP
        .replace("nodes:\n", "machines: {a: {listen: tcp/0.0.0.0:7450}, b: {}}\nnodes:\n")
        .replace("use: agc", "use: agc, process: gain")
        .replace("use: event_log", "use: event_log, machine: b");
    fs::write(folder.path().join("spread.yaml"), text).unwrap();
    let call = |args: &[&str]| call(folder.path(), args);
    let (table, errors, success) = call(&["check", "spread.yaml", "--at", "a=tcp/10.0.0.2:7450"]);
    assert!(success, "{errors}");
    let rows = table.lines().map(|row| row.split_whitespace().collect::<Vec<_>>().join(" "));
    let rows: Vec<_> = rows.collect();
    for expected in ["0 a ears/wav", "1 b log", "2 a/gain even"] {
        assert!(rows.iter().any(|row| row == expected), "{expected} in {table}");
    }
    let way = |edge: &str| rows.iter().find(|row| row.starts_with(edge)).cloned().unwrap();
    assert!(way("ears/wav.audio ->").contains("between processes"), "{table}");
    assert!(way("even.audio ->").contains("between machines"), "{table}");
    let (_, errors, success) = call(&["run", "spread.yaml"]);
    assert!(!success && errors.contains("--machine a or --machine b"), "{errors}");
    assert!(errors.contains("--here"), "{errors}");
    for option in ["--here", "--virtual"] {
        let (_, errors, success) = call(&["run", "spread.yaml", option]);
        assert!(success, "{errors}");
        fs::remove_file(folder.path().join("log.txt")).unwrap();
    }
    let (_, errors, success) = call(&["check", "spread.yaml", "--machine", "c"]);
    assert!(!success && errors.contains("the machines of the graph: a, b"), "{errors}");
}

#[test]
fn check_shows_the_pools() {
    let folder = folder();
    let (text, errors, success) = call(folder.path(), &["check", "top.yaml"]);
    assert!(success, "{errors}");
    let rows = text.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
    let rows: Vec<_> = rows.skip_while(|row| *row != ["pool", "payload", "values"]).collect();
    let [_, wav, even] = rows.as_slice() else { panic!("{text}") };
    for (row, name) in [(wav, "ears/wav.audio"), (even, "even.audio")] {
        assert_eq!((row[0], row[1]), (name, "audio/Block"));
        assert!(row[2].parse::<usize>().unwrap() > 2, "{text}");
    }
}

#[test]
fn figures_are_written() {
    let folder = folder();
    let args = ["run", "top.yaml", "--virtual", "--enforce-budget", "--stats", "stats.json"];
    let (_, errors, success) = call(folder.path(), &args);
    assert!(success, "{errors}");
    let stats = fs::read_to_string(folder.path().join("stats.json")).unwrap();
    assert!(errors.contains("wrote log.txt, "), "{errors}");
    let report: Report = serde_json::from_str(&stats).unwrap();
    let nodes = report.nodes.iter().map(|node| (node.name.as_str(), node.packets_out));
    assert_eq!(nodes.collect::<Vec<_>>(), [("ears/wav", 5), ("even", 5), ("log", 0)]);
    assert_eq!((report.budgets[0].measured, report.budgets[0].kept), (5, true));
}

#[test]
fn a_budget_that_is_not_kept_fails() {
    let folder = folder();
    let strict = ["run", "top.yaml", "--virtual", "--profile", "strict"];
    assert!(call(folder.path(), &strict).2, "only where it is asked for");
    let (_, errors, success) = call(folder.path(), &[&strict[..], &["--enforce-budget"]].concat());
    let expected = "error: the budget from ears/wav.audio to log.events was not kept\n";
    assert!(!success && errors.contains(expected), "{errors}");
}

#[test]
fn a_recording_says_all_that_the_graph_was() {
    let folder = folder();
    let set = ["--set", "ears/wav.mix=mono", "--set", "block=50ms"];
    let args = ["run", "top.yaml", "--virtual", "--record", "run.mcap", "--profile", "strict"];
    let mut run = command(folder.path(), &[&args[..], &set[..]].concat());
    let output = run.env("AFFERENT_TEST_PACE", "realtime").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut attached = BTreeMap::new();
    for record in LinearReader::new(&fs::read(folder.path().join("run.mcap")).unwrap()).unwrap() {
        if let Record::Attachment { header, data, .. } = record.unwrap() {
            attached.insert(header.name, String::from_utf8(data.into_owned()).unwrap());
        }
    }
    let values = attached.remove("values.json").unwrap();
    let files = [("parts/ears.yaml", EARS), ("top.yaml", TOP)];
    let files = files.map(|(name, text)| (name.to_owned(), text.to_owned()));
    assert_eq!(attached, BTreeMap::from(files));
    let values: serde_json::Value = serde_json::from_str(&values).unwrap();
    let expected = json!({
        "profile": "strict",
        "set": ["ears/wav.mix=mono", "block=50ms"],
        "params": {"block": "50ms"},
        "environment": {"AFFERENT_TEST_PACE": "realtime"},
    });
    assert_eq!(values, expected);
    let (text, errors, success) =
        call(folder.path(), &["replay", "run.mcap", "top.yaml", "--check"]);
    assert!(success && text.contains("as recorded"), "{text}{errors}");
}

#[test]
#[cfg(target_os = "linux")]
fn standard_error_that_cannot_be_written_harms_nothing() {
    let folder = folder();
    let args = ["run", "top.yaml", "--virtual", "--record", "run.mcap", "--trace", "trace.json"];
    let mut run = command(folder.path(), &args);
    let output = run.stderr(fs::File::create("/dev/full").unwrap()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(Recording::open(&folder.path().join("run.mcap")).unwrap().cut(), None);
    let trace = fs::read(folder.path().join("trace.json")).unwrap();
    assert!(serde_json::from_slice::<serde_json::Value>(&trace).is_ok());
}

#[test]
#[cfg(unix)]
fn a_signal_stops_a_run_whose_standard_error_is_closed() {
    let folder = folder();
    // From here on, standard error is not read any more.
    let (mut run, _) = start(folder.path(), &["--record", "run.mcap"]);
    assert!(Command::new("kill").arg(run.id().to_string()).status().unwrap().success());
    assert!(run.wait().unwrap().success());
    assert_eq!(Recording::open(&folder.path().join("run.mcap")).unwrap().cut(), None);
}

#[test]
fn what_cannot_be_made_is_found_before_the_start() {
    let folder = folder();
    fs::write(folder.path().join("kept.mcap"), "kept").unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let serve = format!("--serve={}", taken.local_addr().unwrap());
    let args = ["run", "top.yaml", "--virtual", &serve, "--record", "kept.mcap"];
    let (_, errors, success) = call(folder.path(), &args);
    assert!(!success && errors.contains("cannot serve figures"), "{errors}");
    assert_eq!(fs::read(folder.path().join("kept.mcap")).unwrap(), b"kept");
    for option in ["--stats", "--waterfall", "--trace"] {
        let args = ["run", "top.yaml", "--virtual", option, "top.yaml/below"];
        let (_, errors, success) = call(folder.path(), &args);
        assert!(!success && errors.contains("cannot write top.yaml/below"), "{errors}");
        assert!(!folder.path().join("log.txt").exists(), "{option}");
    }
    let made = [["--stats", "a/b.json"], ["--waterfall", "c/d.svg"], ["--trace", "e/f.json"]];
    let args = [&["run", "top.yaml", "--virtual"], made.as_flattened()].concat();
    let (_, errors, success) = call(folder.path(), &args);
    assert!(success, "{errors}");
    for [_, path] in made {
        assert!(folder.path().join(path).metadata().unwrap().len() > 0, "{path}");
    }
}

/// An earlier file stays until it is replaced by a complete one.
#[test]
fn a_run_that_does_not_start_changes_no_file() {
    let folder = folder();
    let kept = ["--record", "a.mcap", "--stats", "b.json", "--waterfall", "c.svg", "--trace", "d"];
    let check = |more: &[&str], expected: &str| {
        for path in kept.iter().skip(1).step_by(2) {
            fs::write(folder.path().join(path), "kept").unwrap();
        }
        let args = [&["run", "top.yaml", "--virtual"], &kept[..], more].concat();
        let (_, errors, success) = call(folder.path(), &args);
        assert!(!success && errors.contains(expected), "{errors}");
        for path in kept.iter().skip(1).step_by(2) {
            assert_eq!(fs::read(folder.path().join(path)).unwrap(), b"kept", "{path} {more:?}");
        }
    };
    // The error shows only on the attempt.
    let too_long = format!("log.path={}", "x".repeat(300));
    check(&["--set", &too_long], "cannot create it");
    check(&["--record-only", "evn"], "there is no output \"evn\" to record");
    check(&["--record-limit", "0"], "invalid value '0'");
    // The new content does not mix with the old one.
    let long = "x".repeat(1 << 20);
    kept.iter().skip(1).step_by(2).for_each(|path| {
        fs::write(folder.path().join(path), &long).unwrap();
    });
    let args = [&["run", "top.yaml", "--virtual"], &kept[..]].concat();
    let (_, errors, success) = call(folder.path(), &args);
    assert!(success, "{errors}");
    let stats = fs::read(folder.path().join("b.json")).unwrap();
    let stats: serde_json::Value = serde_json::from_slice(&stats).unwrap();
    assert_eq!(stats["waterfall"].as_array().map(Vec::len), Some(5));
    let image = fs::read_to_string(folder.path().join("c.svg")).unwrap();
    assert!(image.starts_with("<svg") && image.ends_with("</svg>\n"));
}

#[test]
fn what_a_graph_does_not_have_is_said() {
    let folder = folder();
    let run = ["run", "top.yaml", "--virtual", "--profile", "bare"];
    for (option, expected) in [
        (&["--waterfall", "turns.svg"][..], "error: --waterfall: the graph does not say"),
        (&["--enforce-budget"], "error: --enforce-budget: the graph has no budget"),
    ] {
        let (_, errors, success) = call(folder.path(), &[&run[..], option].concat());
        assert!(!success && errors.contains(expected), "{errors}");
    }
    assert!(!folder.path().join("turns.svg").exists());
}

#[test]
fn what_a_test_writes_is_tried_before_it() {
    let folder = folder();
    let text = "afferent: 1\nscenario: quiet\ngraph: top.yaml\nturns: [{silence: 100ms}]\n";
    fs::write(folder.path().join("quiet.yaml"), text).unwrap();
    let test = |path: &str| call(folder.path(), &["test", "quiet.yaml", "--junit", path]);
    let (text, errors, success) = test("top.yaml/below.xml");
    let expected = "cannot write top.yaml/below.xml";
    assert!(!success && text.is_empty() && errors.contains(expected), "{text}{errors}");
    let (text, errors, _) = test("new/folder.xml");
    assert!(text.contains(" passed, "), "{text}{errors}");
    let report = fs::read_to_string(folder.path().join("new/folder.xml")).unwrap();
    assert!(report.contains("<testsuite"), "{report}");
}

#[test]
fn what_a_model_writes_is_tried_before_it() {
    let folder = folder();
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/conformance/data/programs/counter");
    let [model, input] = ["model.pte", "0_in_0.npy"].map(|name| format!("{data}/{name}"));
    let run = |profile: &str| {
        let args = ["model", "run", &model, "--input", &input, "--output-dir", "out", "--profile"];
        call(folder.path(), &[&args[..], &[profile]].concat())
    };
    let (_, errors, success) = run("top.yaml/below.json");
    assert!(!success && errors.contains("cannot write top.yaml/below.json"), "{errors}");
    assert!(!folder.path().join("out").exists());
    let (_, errors, success) = run("new/folder.json");
    assert!(success, "{errors}");
    let profile = fs::read(folder.path().join("new/folder.json")).unwrap();
    assert!(serde_json::from_slice::<serde_json::Value>(&profile).is_ok());
}

/// A language model that answers prompts on standard input, with the tokenizer file `tokenizer`.
#[cfg(unix)]
fn generate(folder: &Path, tokenizer: &str) -> Child {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../runtime/text/tests/data/robot.pte");
    let args = ["model", "generate", model, "--tokenizer", tokenizer, "--prompts", "--max-new=1"];
    let mut generate = command(folder, &args);
    generate.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_package_brings_its_tokenizer_and_its_template() {
    let folder = folder();
    let llm = concat!(env!("CARGO_MANIFEST_DIR"), "/../pipelines/models/llm");
    let generate = |model: &str, more: &[&str]| {
        let args = ["model", "generate", model, "--prompt", "what time is it?", "--json"];
        let (text, errors, success) = call(folder.path(), &[&args[..], more].concat());
        let answer = serde_json::from_str::<serde_json::Value>(&text).unwrap_or_default();
        (answer["text"].as_str().unwrap_or_default().to_owned(), errors, success)
    };
    let (asked, errors, success) = generate(llm, &["--chat"]);
    assert!(success && asked.contains("get_time"), "{asked} {errors}");
    // The parts of the template by hand.
    let program = format!("{llm}/llm_8da4w.pte");
    let prompt = "<|begin|><|system|> you are afferent, a small assistant.<|end|><|user|> what time is \
                  it?<|end|><|assistant|>";
    let args = ["model", "generate", &program, "--prompt", prompt, "--json"];
    let (text, ..) = call(folder.path(), &args);
    let by_hand = serde_json::from_str::<serde_json::Value>(&text).unwrap();
    assert_eq!(by_hand["text"], asked, "{by_hand}");
    let (_, errors, success) = generate(&program, &["--chat"]);
    assert!(!success && errors.contains("no chat template"), "{errors}");
    let vad = concat!(env!("CARGO_MANIFEST_DIR"), "/../pipelines/models/vad");
    let (_, errors, success) = generate(vad, &[]);
    assert!(!success && errors.contains("`task` is voice_activity; generate needs"), "{errors}");
    // The other commands take the program of a package, if there is one.
    let (text, errors, success) = call(folder.path(), &["model", "info", vad]);
    assert!(success && text.contains("silero_vad"), "{text} {errors}");
    let several = concat!(env!("CARGO_MANIFEST_DIR"), "/../nodes/speech/tests/data/kokoro/one");
    let (_, errors, success) = call(folder.path(), &["model", "info", several]);
    assert!(!success && errors.contains("name one of them"), "{errors}");
}

#[test]
#[cfg(unix)]
fn a_signal_ends_the_loading_of_a_model() {
    let folder = folder();
    let tokenizer = folder.path().join("tokenizer.json");
    assert!(Command::new("mkfifo").arg(&tokenizer).status().unwrap().success());
    let mut generate = generate(folder.path(), "tokenizer.json");
    // The FIFO opens once it is read; the reader then waits for data that does not come.
    let _open = fs::File::options().write(true).open(&tokenizer).unwrap();
    assert!(Command::new("kill").arg(generate.id().to_string()).status().unwrap().success());
    assert_eq!(generate.wait().unwrap().code(), Some(130));
}

#[test]
#[cfg(unix)]
fn a_closed_pipe_ends_the_answers() {
    let folder = folder();
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../runtime/text/tests/data/robot.json");
    let mut generate = generate(folder.path(), data);
    let mut prompts = generate.stdin.take().unwrap();
    writeln!(prompts, "\"the robot\"").unwrap();
    let mut answer = String::new();
    BufReader::new(generate.stdout.take().unwrap()).read_line(&mut answer).unwrap();
    assert!(answer.contains("\"finish\""), "{answer}");
    // More than fits into a pipe.
    let taken = (0..20_000).take_while(|_| writeln!(prompts, "\"the robot\"").is_ok()).count();
    assert!(taken < 20_000, "it went on");
    assert!(generate.wait().unwrap().success());
}

#[test]
fn events_in_files_keep_their_format() {
    let folder = folder();
    let (text, errors, success) = call(folder.path(), &["run", "top.yaml", "--virtual", "--json"]);
    assert!(success && text.starts_with("{\"summary\""), "{text}{errors}");
    let log = fs::read_to_string(folder.path().join("log.txt")).unwrap();
    assert!(log.lines().count() == 5 && !log.contains('{'), "{log}");
}

/// Write errors in the middle of the run, as on a full disk.
#[test]
#[cfg(unix)]
fn what_is_said_to_be_recorded_can_be_read() {
    let folder = folder();
    write_sound(&folder.path().join("parts/sound.wav"), 16_000 * 60);
    let mut run = Command::new("sh");
    run.current_dir(folder.path()).args(["-c", "trap '' XFSZ; ulimit -f 4096; exec \"$@\"", "sh"]);
    run.args([env!("CARGO_BIN_EXE_afferent"), "run", "top.yaml", "--virtual"]);
    let output = run.args(["--record", "run.mcap"]).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{errors}");
    assert!(errors.contains("warning: the recording stops, and the graph continues: "), "{errors}");
    assert!(errors.contains("error: the recording run.mcap is incomplete: "), "{errors}");
    let recording = Recording::open(&folder.path().join("run.mcap")).unwrap();
    let read: u64 = recording.streams().iter().map(|stream| stream.packets).sum();
    assert!(read > 0 && errors.contains(&format!("recorded {read} packets in ")), "{errors}");
}

/// Starts a run in real time that does not end by itself; returns the address of its figures.
fn start(folder: &Path, args: &[&str]) -> (Child, String) {
    let mut run = command(folder, &["run", "--serve=127.0.0.1:0", "top.yaml"]);
    run.args(["--set", "ears/wav.repeat=true", "--duration", "1min"]).args(args);
    run.env("AFFERENT_TEST_PACE", "realtime").stdout(Stdio::null()).stderr(Stdio::piped());
    let mut run = run.spawn().unwrap();
    let lines = BufReader::new(run.stderr.take().unwrap()).lines();
    let address = lines.map_while(Result::ok).find_map(|line| {
        let (_, address) = line.split_once("for `afferent top ")?;
        Some(address.trim_end_matches('`').to_owned())
    });
    (run, address.unwrap())
}

#[test]
fn a_running_graph_is_looked_at() {
    let folder = folder();
    let (mut run, address) = start(folder.path(), &[]);
    let (text, errors, success) = call(folder.path(), &["top", &address, "--once"]);
    run.kill().unwrap();
    run.wait().unwrap();
    assert!(success, "{errors}");
    assert!(text.starts_with("top") && text.contains("ears/wav"), "{text}");
    let (_, errors, success) = call(folder.path(), &["top", "127.0.0.1:9", "--once"]);
    assert!(!success && errors.contains("no figures at 127.0.0.1:9"), "{errors}");
}

#[test]
#[cfg(target_os = "linux")]
fn errors_of_restarted_nodes_are_logged_once_and_counted() {
    let folder = folder();
    let graph = "afferent: 1
nodes:
  wav: {use: wav_source, params: {path: parts/sound.wav, pace: max, repeat: true}}
  log:
    use: event_log
    in: wav
    on_error: {restart: {backoff: 1ms, limit: 3}}
    params: {path: /dev/full}
";
    fs::write(folder.path().join("full.yaml"), graph).unwrap();
    let run = |more: &[&str]| call(folder.path(), &[&["run", "full.yaml"][..], more].concat());
    let (_, errors, success) = run(&[]);
    let logged = |errors: &str| errors.matches("node log: /dev/full: cannot write it").count();
    assert!(!success && logged(&errors) == 2, "the first and the last: {errors}");
    assert!(errors.contains(" s, stopped), and 2 more since the last line"), "{errors}");
    assert!(errors.contains(" s, restarted)"), "{errors}");
    assert!(errors.contains("error: the run failed: 1 node stopped: log\n"), "{errors}");
    let (_, errors, success) = run(&["-q"]);
    assert!(!success && !errors.contains("restarted"), "{errors}");
    let (_, errors, _) = run(&["-v"]);
    assert!(errors.contains("info: opened node wav in "), "{errors}");
    let mut named = command(folder.path(), &["run", "full.yaml"]);
    let errors = named.env("RUST_LOG", "afferent_engine=info").output().unwrap().stderr;
    assert!(String::from_utf8(errors).unwrap().contains("info: opened node wav in "));
}

#[test]
fn outputs_do_not_overwrite_inputs_or_each_other() {
    let folder = folder();
    let kept = ["top.yaml", "parts/ears.yaml", "parts/sound.wav"];
    let bytes = || kept.map(|path| fs::read(folder.path().join(path)).unwrap());
    let before = bytes();
    for (args, expected) in [
        (&["--set", "log.path=parts/../parts/sound.wav"][..], "would overwrite"),
        (&["--set", "log.path=top.yaml"], "which the graph reads"),
        (&["--record", "parts/sound.wav"], "\"path\" of node \"ears/wav\" reads"),
        (&["--stats", "./top.yaml"], "--stats would overwrite ./top.yaml, which the graph reads"),
        (&["--trace", "log.txt"], "\"path\" of node \"log\" writes: choose another file"),
        (&["--trace", "a.json", "--stats", "a.json"], "which --stats writes"),
    ] {
        let args = [&["run", "top.yaml", "--virtual"], args].concat();
        let (_, errors, success) = call(folder.path(), &args);
        assert!(!success && errors.contains(expected), "{args:?}: {errors}");
        assert_eq!(bytes(), before);
    }
    let (_, errors, success) =
        call(folder.path(), &["check", "top.yaml", "--set", "log.path=parts/ears.yaml"]);
    assert!(!success && errors.contains("--set:1:"), "{errors}");
}

#[test]
fn values_of_the_command_line_are_taken_as_typed() {
    let folder = folder();
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).unwrap();
    write_sound(&inner.join("a #1: it's.wav"), 800);
    let run = |set: &str| {
        let mut run = command(&inner, &["run", "../top.yaml", "--virtual", "--set", set]);
        let output = run.env("HOME", &inner).output().unwrap();
        (String::from_utf8(output.stderr).unwrap(), output.status.success())
    };
    for path in ["a #1: it's.wav", "~/a #1: it's.wav"] {
        let (errors, success) = run(&format!("ears/wav.path={path}"));
        assert!(success, "{path}: {errors}");
    }
    let (errors, success) = run("even.target_dbfs=null");
    assert!(!success && errors.contains("\"null\" is not a number"), "{errors}");
    let (errors, success) = run("ears/wav.path=b #2.wav");
    assert!(!success && errors.contains("b #2.wav"), "{errors}");
    let (errors, success) = run("ears/wav.pace=~");
    assert!(success, "{errors}");
}

#[test]
fn recordings_that_prove_nothing_are_not_checked() {
    let folder = folder();
    let record = |more: &[&str]| {
        let args = [&["run", "top.yaml", "--virtual", "--record", "run.mcap"], more].concat();
        let (_, errors, success) = call(folder.path(), &args);
        assert!(success, "{errors}");
    };
    let check = |args: &[&str]| call(folder.path(), &[&["replay", "--check"], args].concat());
    record(&["--duration", "0s"]);
    let (_, errors, success) = check(&["run.mcap", "top.yaml"]);
    assert!(!success && errors.contains("holds no packets"), "{errors}");
    record(&[]);
    let (_, errors, success) = check(&["top.yaml", "run.mcap"]);
    let expected = "the recording comes first: afferent replay run.mcap top.yaml";
    assert!(!success && errors.contains(expected), "{errors}");
    let bytes = fs::read(folder.path().join("run.mcap")).unwrap();
    fs::write(folder.path().join("cut.mcap"), &bytes[..bytes.len() * 2 / 3]).unwrap();
    let (_, errors, success) = check(&["cut.mcap", "top.yaml"]);
    assert!(!success && errors.contains("cut.mcap cannot be checked: it ends early"), "{errors}");
}

#[test]
fn a_closed_pipe_ends_a_run_quietly() {
    let folder = folder();
    let graph = "afferent: 1
nodes:
  wav: {use: wav_source, params: {path: parts/sound.wav, pace: max, repeat: true}}
  log: {use: event_log, in: wav}
";
    fs::write(folder.path().join("endless.yaml"), graph).unwrap();
    let mut run = command(folder.path(), &["run", "endless.yaml"]);
    let mut run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap());
    lines.read_line(&mut String::new()).unwrap();
    drop(lines);
    let output = run.wait_with_output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && errors.is_empty(), "{errors}");
}

#[test]
fn the_machine_is_described() {
    let folder = folder();
    let (text, errors, success) = call(folder.path(), &["doctor"]);
    assert!(success && text.contains("SIMD") && text.contains("cameras"), "{text}{errors}");
    let (text, errors, success) = call(folder.path(), &["devices", "--json"]);
    let devices: serde_json::Value = serde_json::from_str(&text).unwrap();
    let has = |kind: &str| devices[kind].is_array();
    assert!(success && has("cameras") && has("audio") && has("motion_sensors"), "{errors}");
}

#[test]
fn a_new_project_is_complete() {
    let folder = folder();
    let (text, errors, success) = call(folder.path(), &["new", "project", "robot"]);
    assert!(success && text.contains("cd robot"), "{errors}");
    let read = |path: &str| fs::read_to_string(folder.path().join("robot").join(path)).unwrap();
    for file in ["Cargo.toml", "README.md", "graph.yaml", "src/main.rs", "tests/graph.rs"] {
        let text = read(file);
        assert!(!["{name}", "{crate}", "{source"].iter().any(|key| text.contains(key)), "{text}");
    }
    assert!(read("src/lib.rs").contains("mod volume;"), "the node is in the list");
    let (_, errors, success) = call(folder.path(), &["new", "project", "robot"]);
    assert!(!success && errors.contains("robot already exists"), "{errors}");
    let (_, errors, success) = call(folder.path(), &["new", "project", "No"]);
    assert!(!success && errors.contains("cannot be the name of a project"), "{errors}");
}
