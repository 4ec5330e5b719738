//! `afferent keys`, as a user calls it.
#![cfg(all(unix, feature = "net"))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use x509_parser::{
    certificate::X509Certificate, extensions::GeneralName, pem::parse_x509_pem, prelude::FromDer,
};

const GRAPH: &str = r#"afferent: 1
name: spread
machines: {robot: {listen: "quic/0.0.0.0:7450"}, base: {}}
nodes:
  wav: {use: wav_source, params: {path: sound.wav}}
  log: {use: event_log, machine: base, in: wav.audio}
"#;

const FILES: [&str; 6] = ["base.key", "base.pem", "ca.key", "ca.pem", "robot.key", "robot.pem"];

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("graph.yaml"), GRAPH).unwrap();
    let spec = hound::WavSpec {
        channels: 1,
        sample_rate: 16_000,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut file = hound::WavWriter::create(folder.path().join("sound.wav"), spec).unwrap();
    file.write_sample(0i16).unwrap();
    file.finalize().unwrap();
    folder
}

/// Runs `afferent keys graph.yaml` with `args`; returns its text, and true on success.
fn keys(folder: &Path, args: &[&str]) -> (String, bool) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_afferent"));
    let command = command.current_dir(folder).args(["keys", "graph.yaml"]).args(args);
    let ended = command.output().unwrap();
    let text = [ended.stdout, ended.stderr].concat();
    (String::from_utf8(text).unwrap(), ended.status.success())
}

fn contents(folder: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder.join("keys")).unwrap().map(Result::unwrap);
    let named = entries.map(|entry| (entry.file_name().into_string().unwrap(), entry.path()));
    let pem = named.filter(|(name, _)| name != ".gitignore");
    pem.map(|(name, path)| (name, fs::read_to_string(path).unwrap())).collect()
}

fn certificate<T>(text: &str, check: impl FnOnce(&X509Certificate<'_>) -> T) -> T {
    let (_, pem) = parse_x509_pem(text.as_bytes()).unwrap();
    check(&X509Certificate::from_der(&pem.contents).unwrap().1)
}

/// True if `authority` has signed `text`.
fn is_signed(text: &str, authority: &str) -> bool {
    certificate(text, |own| {
        certificate(authority, |by| own.verify_signature(Some(by.public_key())).is_ok())
    })
}

#[test]
fn every_machine_gets_a_certificate_of_one_authority() {
    let folder = folder();
    let (text, success) = keys(folder.path(), &["--at", "robot=quic/10.0.0.2:7450"]);
    assert!(success, "{text}");
    assert!(text.contains("ca.pem, robot.pem, robot.key"), "{text}");
    assert!(text.contains("keys/ca.key stays here"), "{text}");
    assert!(text.contains("afferent run graph.yaml --machine NAME --keys keys"), "{text}");
    let files = contents(folder.path());
    assert_eq!(files.keys().collect::<Vec<_>>(), FILES);
    let mode = |name: &str| {
        let path = folder.path().join("keys").join(name);
        path.metadata().unwrap().permissions().mode() & 0o777
    };
    assert_eq!(
        [mode(""), mode("ca.key"), mode("robot.key"), mode("base.key")],
        [0o700, 0o600, 0o600, 0o600]
    );
    certificate(&files["ca.pem"], |own| {
        assert!(own.is_ca() && own.validity().is_valid());
        own.verify_signature(None).unwrap();
    });
    for (name, expected) in [("robot", &["robot", "10.0.0.2"][..]), ("base", &["base"])] {
        let text = &files[&format!("{name}.pem")];
        assert!(is_signed(text, &files["ca.pem"]), "{name}");
        certificate(text, |own| {
            assert!(!own.is_ca() && own.validity().is_valid());
            let subject = own.subject().iter_common_name().next().unwrap();
            assert_eq!(subject.as_str(), Ok(name));
            let use_of = own.extended_key_usage().unwrap().unwrap().value;
            assert!(use_of.client_auth && use_of.server_auth && !use_of.any);
            let names = &own.subject_alternative_name().unwrap().unwrap().value.general_names;
            let names = names.iter().map(|name| match name {
                GeneralName::DNSName(name) => (*name).to_owned(),
                GeneralName::IPAddress([a, b, c, d]) => format!("{a}.{b}.{c}.{d}"),
                other => panic!("{other}"),
            });
            assert_eq!(names.collect::<Vec<_>>(), expected);
        });
    }
}

#[test]
fn existing_certificates_are_kept_unless_renewed() {
    let folder = folder();
    let (text, success) = keys(folder.path(), &["--machine", "base", "--days", "30"]);
    assert!(success && !text.contains("robot.pem"), "{text}");
    let first = contents(folder.path());
    assert_eq!(first.keys().collect::<Vec<_>>(), FILES[..4].iter().collect::<Vec<_>>());
    // New machines join, under the same authority.
    let (text, success) = keys(folder.path(), &[]);
    assert!(success && text.contains("kept keys/base.pem"), "{text}");
    assert!(text.contains("robot.pem is valid only for the host name"), "{text}");
    let second = contents(folder.path());
    assert_eq!(second.keys().collect::<Vec<_>>(), FILES);
    assert!(first.iter().all(|(name, text)| second[name] == *text));
    // A new address needs a new certificate.
    let at = ["--at", "robot=quic/robot.local:7450"];
    let (text, success) = keys(folder.path(), &at);
    assert!(success && text.contains("robot.pem is not valid for robot.local"), "{text}");
    assert_eq!(contents(folder.path()), second);
    let (text, success) = keys(folder.path(), &[&at[..], &["--renew", "robot"]].concat());
    assert!(success && text.contains("robot, robot.local"), "{text}");
    let third = contents(folder.path());
    let changed = third.iter().filter(|(name, text)| second[*name] != **text);
    assert_eq!(changed.map(|(name, _)| name).collect::<Vec<_>>(), ["robot.key", "robot.pem"]);
    assert!(is_signed(&third["robot.pem"], &first["ca.pem"]));
}

#[test]
fn faults_are_found_before_anything_is_written() {
    let folder = folder();
    let path = |name: &str| folder.path().join("keys").join(name);
    let refused = |args: &[&str], expected: &str| {
        let before = path("").exists().then(|| contents(folder.path()));
        let (text, success) = keys(folder.path(), args);
        assert!(!success && text.contains(expected), "{text}");
        assert_eq!(path("").exists().then(|| contents(folder.path())), before);
    };
    refused(&["--machine", "rowbot"], "the machines of graph.yaml are robot, base");
    refused(&["--at", "rowbot=quic/10.0.0.2:7450"], "did you mean \"robot\"?");
    refused(&["--dir", "graph.yaml/keys"], "cannot create the folder graph.yaml/keys");
    for (text, expected) in [
        (GRAPH.replace("event_log", "event_lok"), "did you mean \"event_log\"?"),
        (GRAPH.replace("base", "ca"), "has the name of the files of the authority"),
        (
            "afferent: 1\nnodes: {a: {use: event_log, in: w}, w: {use: wav_source, params: {path: \
          sound.wav}}}\n"
                .to_owned(),
            "graph.yaml has no machines",
        ),
    ] {
        fs::write(folder.path().join("graph.yaml"), text).unwrap();
        refused(&[], expected);
    }
    fs::write(folder.path().join("graph.yaml"), GRAPH).unwrap();
    assert!(keys(folder.path(), &[]).1);
    let good = contents(folder.path());
    let restore = || good.iter().for_each(|(name, text)| fs::write(path(name), text).unwrap());
    let damages: [(&str, Option<&str>, &str); 7] = [
        ("robot.key", None, "keys/robot.key does not: --renew robot"),
        ("robot.pem", Some("text"), "keys/robot.pem is not a certificate"),
        ("robot.pem", Some(&good["base.pem"]), "keys/robot.pem is that of \"base\""),
        ("robot.key", Some(&good["base.key"]), "keys/robot.key: it belongs to another"),
        ("ca.key", None, "only the folder with the key of the authority"),
        ("ca.key", Some(&good["base.key"]), "keys/ca.key: it belongs to another"),
        ("ca.pem", Some("text"), "keys/ca.pem is not a certificate"),
    ];
    for (name, text, expected) in damages {
        match text {
            Some(text) => fs::write(path(name), text).unwrap(),
            None => fs::remove_file(path(name)).unwrap(),
        }
        refused(&[], expected);
        restore();
    }
    // Certificates of another authority.
    for name in ["ca.pem", "ca.key"] {
        fs::remove_file(path(name)).unwrap();
    }
    refused(&[], "keys/robot.pem is not of this authority");
    restore();
    assert!(keys(folder.path(), &["--renew", "robot"]).1);
}
