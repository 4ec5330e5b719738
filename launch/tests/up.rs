//! `afferent up` and `afferent models`, with a stand-in for ssh that runs commands here.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

/// Runs its last argument in a shell and writes the others to a file.
const SSH: &str = r#"#!/bin/sh
for script; do :; done
case "$*" in *unreachable*) echo "ssh: no route to host" >&2; exit 255;; esac
cd "$(dirname "$0")"
echo "$*" | head -n 1 >> calls
export HOME="$PWD" XDG_CACHE_HOME="$PWD/cache"
exec sh -c "$script"
"#;

/// Prints its arguments and folder; ends as the file `end` beside it says.
const PROGRAM: &str = r#"#!/bin/sh
trap 'echo stopped; exit 0' TERM
echo "in $PWD: $*"
case "$*" in
    *"--machine base"*) for line in 1 2 3 4 5 6 7 8 9 10 11; do echo "line $line" >&2; done; exit 3;;
esac
while :; do sleep 0.05; done
"#;

const GRAPH: &str = r#"afferent: 1
name: spread
machines: {robot: {listen: "quic/0.0.0.0:7450"}, base: {}}
nodes:
  wav: {use: wav_source, params: {path: sounds/sound.wav}}
  out: {use: wav_sink, in: {audio: wav.audio}, params: {path: out.wav}}
  log: {use: event_log, machine: base, in: wav.audio}
"#;

fn write_program(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A folder with the stand-in, the graph `graphs/graph.yaml` and a sound.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    write_program(&path("ssh"), SSH);
    write_program(&path("program"), PROGRAM);
    fs::create_dir_all(path("graphs/sounds")).unwrap();
    fs::write(path("graphs/graph.yaml"), GRAPH).unwrap();
    let sample_format = hound::SampleFormat::Int;
    let spec =
        hound::WavSpec { channels: 1, sample_rate: 16_000, bits_per_sample: 16, sample_format };
    let mut file = hound::WavWriter::create(path("graphs/sounds/sound.wav"), spec).unwrap();
    (0..1600).for_each(|sample| file.write_sample(sample as i16).unwrap());
    file.finalize().unwrap();
    folder
}

fn afferent(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_afferent"));
    command.current_dir(folder).args(args).env("XDG_CACHE_HOME", folder.join("own-cache"));
    command
}

/// Runs a command; returns its output, its errors, and true on success.
fn call(folder: &Path, args: &[&str]) -> (String, String, bool) {
    let Output { stdout, stderr, status } = afferent(folder, args).output().unwrap();
    (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap(), status.success())
}

const UP: [&str; 6] = ["up", "graphs/graph.yaml", "--machines", "machines.yaml", "--ssh", "./ssh"];

#[test]
fn a_machine_runs_the_copied_graph() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    // All on one machine.
    let graph = GRAPH.replace(", base: {}", "").replace("machine: base, ", "");
    fs::write(path("graphs/graph.yaml"), graph).unwrap();
    let program = env!("CARGO_BIN_EXE_afferent");
    let machines =
        format!("machines: {{robot: {{ssh: me@robot, dir: it's, program: {program}}}}}\n");
    fs::write(path("machines.yaml"), machines).unwrap();
    let args = [&UP[..], &["--ssh-option", "ConnectTimeout=5", "--", "--duration", "10s"]].concat();
    let (text, errors, success) = call(folder.path(), &args);
    assert!(success, "{text}{errors}");
    assert!(text.lines().all(|line| line.starts_with("robot | ")), "{text}");
    assert!(text.contains("robot | ") && errors.contains("machine robot has ended"), "{errors}");
    let calls = fs::read_to_string(path("calls")).unwrap();
    let words = "-T -o ConnectTimeout=5 -o BatchMode=yes -- me@robot ";
    assert!(calls.lines().filter(|call| call.starts_with(words)).count() == 2, "{calls}");
    // Relative paths are those of this folder, below the folder of the machine.
    let sound = fs::read(path("graphs/sounds/sound.wav")).unwrap();
    assert_eq!(fs::read(path("it's/graphs/sounds/sound.wav")).unwrap(), sound);
    assert!(fs::metadata(path("it's/graphs/out.wav")).unwrap().len() > 1600 * 2);
    assert!(!path("graphs/out.wav").exists(), "the graph ran on the machine");
    let mode = path("it's").metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o700);
}

/// Machines of the stand-in program; `base` fails.
const STAND_INS: &str = "machines:\n  robot: {ssh: robot, dir: robot, program: ~/program}\n  \
                         base: {ssh: base, dir: base, program: ~/program}\n";

#[test]
fn a_failed_machine_is_named_and_the_others_run_until_ctrl_c() {
    let folder = folder();
    fs::write(folder.path().join("machines.yaml"), STAND_INS).unwrap();
    fs::create_dir(folder.path().join("keys")).unwrap();
    for name in ["ca.pem", "ca.key", "robot.pem", "robot.key", "base.pem", "base.key"] {
        fs::write(folder.path().join("keys").join(name), name).unwrap();
    }
    let args = [&UP[..], &["--keys", "keys", "--at", "robot=quic/10.0.0.2:7450"]].concat();
    let mut command = afferent(folder.path(), &args);
    let mut up = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut errors = BufReader::new(up.stderr.take().unwrap()).lines().map(Result::unwrap);
    let failed = errors.find(|line| line.contains("machine base failed: exit status: 3"));
    assert!(failed.is_some());
    let last: Vec<_> = errors.by_ref().take(10).collect();
    // Lines of standard output and of errors arrive in any order.
    assert!(last.iter().any(|line| line == "  line 11"), "{last:?}");
    assert!(!last.iter().any(|line| line == "  line 1"), "the last ten lines: {last:?}");
    assert!(up.try_wait().unwrap().is_none(), "the other machine runs");
    // It stops by itself from its first line on.
    let mut output = BufReader::new(up.stdout.take().unwrap());
    let mut text = String::new();
    while !text.contains("robot | in ") {
        assert!(output.read_line(&mut text).unwrap() > 0, "{text}");
    }
    let killed = Command::new("kill").args(["-INT", &up.id().to_string()]).status().unwrap();
    assert!(killed.success());
    output.read_to_string(&mut text).unwrap();
    assert!(!up.wait().unwrap().success());
    assert!(text.contains("robot | stopped"), "{text}");
    let root = folder.path().canonicalize().unwrap().join("robot");
    let root = root.display();
    let expected = format!(
        "robot | in {root}: run graphs/graph.yaml --machines {root}/machines.yaml --machine robot \
         --at robot=quic/10.0.0.2:7450 --keys {root}/.afferent-keys"
    );
    assert!(text.lines().any(|line| line == expected), "{expected}\n{text}");
    let keys = fs::read_dir(folder.path().join("robot/.afferent-keys")).unwrap();
    let mut keys: Vec<_> = keys
        .map(|entry| {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().permissions().mode() & 0o077;
            (entry.file_name().into_string().unwrap(), mode)
        })
        .collect();
    keys.sort();
    assert_eq!(
        keys.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        ["ca.pem", "robot.key", "robot.pem"]
    );
    assert!(keys.iter().all(|(_, others)| *others == 0), "{keys:?}");
}

#[test]
fn faults_are_found_before_a_machine_starts() {
    let folder = folder();
    let refused = |machines: &str, args: &[&str], expected: &str| {
        fs::write(folder.path().join("machines.yaml"), machines).unwrap();
        let (_, errors, success) = call(folder.path(), &[&UP[..], args].concat());
        assert!(!success && errors.contains(expected), "{errors}");
    };
    refused("machines: {rowbot: {ssh: a}}", &[], "did you mean \"robot\"?");
    refused("machines: {robot: {shh: a}}", &[], "did you mean \"ssh\"?");
    refused("machines: {robot: {ssh: -oProxyCommand=a}}", &[], "is no login");
    refused("machines: {robot: {ssh: a}}", &["--machine", "b"], "are robot, base");
    refused("machines: {robot: {ssh: a}}", &["--keys", "nothing"], "nothing/ca.pem");
    let unreachable = "machines: {robot: {ssh: unreachable}}";
    refused(unreachable, &["--machine", "robot"], "cannot copy the graph to unreachable");
    refused(unreachable, &["--machine", "robot"], "no route to host");
    fs::remove_file(folder.path().join("machines.yaml")).unwrap();
    let (_, errors, success) = call(folder.path(), &UP);
    assert!(!success && errors.contains("cannot read machines.yaml"), "{errors}");
}

/// Copies the package of the voice activity model to `folder`; returns its programs.
fn copy_package(folder: &Path) -> Vec<PathBuf> {
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../pipelines/models/vad");
    let copy = folder.join("graphs/vad");
    fs::create_dir(&copy).unwrap();
    let copied = fs::read_dir(shipped).unwrap().map(|entry| {
        let entry = entry.unwrap();
        let path = copy.join(entry.file_name());
        fs::copy(entry.path(), &path).unwrap();
        path
    });
    copied.filter(|path| path.extension().is_some_and(|extension| extension == "pte")).collect()
}

#[test]
fn missing_programs_are_named_and_fetched() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    let programs = copy_package(folder.path());
    let graph = "afferent: 1\nname: spread\nmachines: {robot: {}}\nnodes:\n  \
                 wav: {use: wav_source, params: {path: sounds/sound.wav}}\n  \
                 vad: {use: vad, in: wav.audio, params: {model: vad}}\n  \
                 log: {use: event_log, in: vad.events}\n";
    fs::write(path("graphs/graph.yaml"), graph).unwrap();
    let program = env!("CARGO_BIN_EXE_afferent");
    let machines = format!("machines: {{robot: {{ssh: robot, program: {program}}}}}\n");
    fs::write(path("machines.yaml"), machines).unwrap();
    let (table, errors, success) = call(folder.path(), &["models", "graphs/graph.yaml"]);
    assert!(success && table.contains("graphs/vad/vad_"), "{table}{errors}");
    let row = table.lines().find(|line| line.contains(".pte")).unwrap();
    let words: Vec<_> = row.split_whitespace().collect();
    let [node, _, bytes, hash, location] = words[..] else { panic!("{row}") };
    assert_eq!((node, location), ("vad", "package"));
    assert!(bytes.parse::<u64>().unwrap() > 100_000);
    let (text, _, success) = call(folder.path(), &["models", "graphs/graph.yaml", "--missing"]);
    assert!(success && text.is_empty(), "{text}");
    // Programs stay where they are, unless the user asks for a copy.
    let (text, errors, success) = call(folder.path(), &UP);
    assert!(!success, "{text}");
    let told = format!("{hash} is not in {}", path("cache/afferent/models").display());
    assert!(errors.contains(&told), "{errors}");
    let (text, errors, success) = call(folder.path(), &[&UP[..], &["--fetch"]].concat());
    assert!(success, "{text}{errors}");
    assert!(errors.contains("copied graphs/vad/vad_"), "{errors}");
    assert!(path("cache/afferent/models").join(hash).is_file());
    assert!(!path("afferent/spread/graphs/vad").join(programs[0].file_name().unwrap()).exists());
    // Now the machine has it.
    let (_, errors, success) = call(folder.path(), &[&UP[..], &["--fetch"]].concat());
    assert!(success && !errors.contains("copied"), "{errors}");
}

#[test]
fn a_machine_checks_the_files_of_its_own_nodes() {
    let folder = folder();
    let graph = "afferent: 1\nmachines: {robot: {listen: tcp/127.0.0.1:7450}, base: {}}\nnodes:\n  \
                 wav: {use: wav_source, params: {path: sounds/sound.wav}}\n  \
                 log: {use: event_log, in: wav.audio}\n  \
                 tone: {use: wav_source, machine: base, params: {path: nothing.wav}}\n  \
                 heard: {use: event_log, machine: base, in: tone.audio}\n";
    fs::write(folder.path().join("graphs/graph.yaml"), graph).unwrap();
    let check = |machine: &str| {
        let (_, errors, success) =
            call(folder.path(), &["check", "graphs/graph.yaml", "--machine", machine]);
        (success, errors)
    };
    let (success, errors) = check("robot");
    assert!(success, "{errors}");
    let (success, errors) = check("base");
    assert!(!success && errors.contains("nothing.wav"), "{errors}");
}

#[test]
fn programs_are_stored_by_their_hash() {
    let folder = folder();
    let programs = copy_package(folder.path());
    let name = programs[0].to_str().unwrap();
    let (_, errors, success) = call(folder.path(), &["model", "store", name, "--sha256", "00"]);
    assert!(!success && errors.contains("have the SHA-256"), "{errors}");
    let (_, errors, success) = call(folder.path(), &["model", "store", "nothing.pte"]);
    assert!(!success && errors.contains("cannot read nothing.pte"), "{errors}");
    let (_, errors, success) = call(folder.path(), &["model", "store", name]);
    let stored = errors.trim().strip_prefix("stored ").unwrap();
    assert!(success, "{errors}");
    assert_eq!(fs::read(stored).unwrap(), fs::read(&programs[0]).unwrap());
}
