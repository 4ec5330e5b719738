//! Programs that a machine must not accept: nothing of theirs arrives.
#![cfg(all(target_os = "linux", feature = "net"))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    io::{BufRead, BufReader},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use afferent_core::ForeignBytes;
use afferent_spec::CheckedGraph;
use afferent_transport::{
    link::{Inbox, Link},
    net::{Net, NetOptions},
    remote::{RemoteLink, SessionInfo},
};
use zenoh::{Session, Wait, sample::Sample};

#[path = "shared/runs.rs"]
#[expect(dead_code, reason = "for runs of a graph")]
mod runs;

const GRAPH: &str = r#"afferent: 1
name: test
machines:
  robot: {listen: "quic/127.0.0.1:PORT"}
  base: {}
  spare: {}
nodes:
  wav: {use: wav_source, params: {path: sound.wav}}
  low: {use: resample, machine: base, in: wav.audio, params: {rate: 8000}}
  log: {use: event_log, machine: spare, in: wav.audio}
  out: {use: wav_sink, in: {audio: low.audio}, params: {path: out.wav}}
"#;

/// Key of the packets of the edge from `low` on base to `out` on robot, and one that no edge has.
const OWN: &str = "afferent/test/base/robot/2";
const CONTROL: &str = "afferent/test/base/robot/control";
const FOREIGN: &str = "afferent/test/spare/robot/2";

/// Everything that a machine is told.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    fn add(&self, what: String) {
        self.0.lock().unwrap().push(what);
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Inbox for Told {
    fn receive(&self, message: &[u8], _: ForeignBytes) -> Result<(), String> {
        self.add(format!("a message of {} bytes", message.len()));
        Ok(())
    }

    fn has_memory(&self) {}

    fn gone(&self, reason: &str) {
        self.add(format!("gone: {reason}"));
    }

    fn greeted(&self, _: Option<SessionInfo>) {
        self.add("a greeting".to_owned());
    }

    fn resumed(&self) {
        self.add("up".to_owned());
    }
}

/// A folder with the graph and certificates: `keys` of its authority, and `foreign` of another one.
struct Setup {
    folder: tempfile::TempDir,
    graph: CheckedGraph,
    port: u16,
}

impl Setup {
    fn new() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = runs::sound_folder(&GRAPH.replace("PORT", &port.to_string()), 1);
        let path = folder.path().join("graph.yaml");
        for keys in ["keys", "foreign"] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_afferent"));
            command.current_dir(folder.path()).args(["keys", "graph.yaml", "--dir", keys]);
            assert!(command.output().unwrap().status.success());
        }
        let graph = afferent::App::new().load(&path).unwrap();
        Self { folder, graph, port }
    }

    fn keys(&self, folder: &str) -> PathBuf {
        self.folder.path().join(folder)
    }

    /// Starts machine `here` as the graph does; returns its links to the others.
    fn start(&self, here: usize, keys: &str, told: &Told) -> (Net, Vec<(usize, Arc<RemoteLink>)>) {
        let options = NetOptions { keys: Some(self.keys(keys)), insecure: false };
        Net::connect(&self.graph, here, &options, |_| Arc::new(told.clone())).unwrap()
    }

    /// A program that is no machine of the graph: it connects with the given certificate.
    fn intruder(&self, certificate: Option<(&Path, &str)>) -> Option<Session> {
        let mut config = zenoh::Config::default();
        let mut set = |key: &str, value: String| config.insert_json5(key, &value).unwrap();
        set("mode", "\"client\"".to_owned());
        set("connect/endpoints", format!("[\"quic/127.0.0.1:{}\"]", self.port));
        set("connect/timeout_ms", "2000".to_owned());
        set("scouting/multicast/enabled", "false".to_owned());
        set("transport/link/tls/verify_name_on_connect", "false".to_owned());
        let authority = self.keys("keys").join("ca.pem");
        set("transport/link/tls/root_ca_certificate", format!("{authority:?}"));
        if let Some((folder, name)) = certificate {
            set("transport/link/tls/enable_mtls", "true".to_owned());
            let file = |end: &str| format!("{:?}", folder.join(format!("{name}.{end}")));
            set("transport/link/tls/connect_certificate", file("pem"));
            set("transport/link/tls/connect_private_key", file("key"));
        }
        zenoh::open(config).wait().ok()
    }
}

/// Publishes to the streams of robot again and again, and subscribes to all that it sends.
fn intrude(session: &Session, keys: &[&str]) -> Vec<String> {
    let heard = Told::default();
    let subscribers =
        ["**", "afferent/test/robot/base/*", "afferent/test/robot/spare/*"].map(|key| {
            let hears = heard.clone();
            let hear = move |sample: Sample| hears.add(sample.key_expr().to_string());
            session.declare_subscriber(key).callback(hear).wait().unwrap()
        });
    let end = Instant::now() + Duration::from_secs(1);
    while Instant::now() < end {
        for key in keys {
            let _ = session.put(*key, vec![1; 100]).wait();
        }
        thread::sleep(Duration::from_millis(50));
    }
    drop(subscribers);
    // What it publishes, it hears itself.
    heard.all().into_iter().filter(|key| key.starts_with("afferent/test/robot/")).collect()
}

#[test]
fn only_a_machine_of_the_graph_is_heard_and_only_on_its_own_edges() {
    let setup = Setup::new();
    let told = Told::default();
    let (_net, links) = setup.start(0, "keys", &told);
    let all = [OWN, CONTROL, FOREIGN];
    let (keys, foreign) = (setup.keys("keys"), setup.keys("foreign"));
    // Without a certificate, and with one of another authority.
    for certificate in [None, Some((&*foreign, "base"))] {
        if let Some(session) = setup.intruder(certificate) {
            let heard = intrude(&session, &all);
            assert!(heard.is_empty(), "{certificate:?} heard {heard:?}");
        }
        assert_eq!(told.all(), [""; 0], "{certificate:?}");
    }
    // Another machine of the graph, which poses as base.
    let session = setup.intruder(Some((&*keys, "spare"))).expect("it is admitted as itself");
    let heard = intrude(&session, &[OWN, CONTROL]);
    assert!(heard.iter().all(|key| key.starts_with("afferent/test/robot/spare/")), "{heard:?}");
    assert_eq!(told.all(), [""; 0], "spare poses as base");
    drop(session);
    // The right machine, with a stream that is not its own.
    let session = setup.intruder(Some((&*keys, "base"))).expect("it is admitted");
    let heard = intrude(&session, &[FOREIGN, "afferent/test/base/robot/1", "afferent/other/x"]);
    assert!(heard.iter().all(|key| key.starts_with("afferent/test/robot/base/")), "{heard:?}");
    assert_eq!(told.all(), [""; 0], "base on the streams of others");
    drop(session);
    assert!(links.iter().all(|(_, link)| !link.is_up()));
    // The right machine as the graph says.
    let (_base, _) = setup.start(1, "keys", &Told::default());
    let end = Instant::now() + Duration::from_secs(20);
    while !told.all().contains(&"up".to_owned()) {
        assert!(Instant::now() < end, "base is not admitted: {:?}", told.all());
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_refused_machine_is_logged_with_the_reason() {
    let setup = Setup::new();
    let run = |machine: &str, keys: &str| {
        Command::new(env!("CARGO_BIN_EXE_afferent"))
            .current_dir(setup.folder.path())
            .args(["run", "graph.yaml", "--machine", machine, "--keys", keys])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let (mut robot, mut base) = (run("robot", "keys"), run("base", "foreign"));
    let mut lines = BufReader::new(robot.stderr.take().unwrap()).lines().map_while(Result::ok);
    let refused = lines.find(|line| line.contains("was refused"));
    for run in [&mut robot, &mut base] {
        run.kill().unwrap();
        run.wait().unwrap();
    }
    let refused = refused.expect("a line about the refusal");
    assert!(refused.contains("invalid peer certificate"), "{refused}");
    assert!(refused.contains("`afferent keys`"), "{refused}");
}
