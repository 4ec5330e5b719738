//! The graph of `pipelines/ros2`.
#![cfg(feature = "ros2")]

use std::{
    path::Path,
    process::{Command, Output},
};

/// Calls a command of `afferent` for the graph; returns its messages, and true on success.
fn call(command: &str, options: &[&str], router: &str) -> (String, bool) {
    let graph = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pipelines/ros2/speech.yaml");
    let mut afferent = Command::new(env!("CARGO_BIN_EXE_afferent"));
    afferent.arg(command).arg(graph).args(options).env("ROUTER", router);
    let Output { status, stderr, .. } = afferent.output().expect("the program is built");
    (String::from_utf8_lossy(&stderr).into_owned(), status.success())
}

#[test]
fn a_graph_without_a_router_fails_with_its_address() {
    use std::net::TcpListener;

    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let router = format!("tcp/{}", free.expect("a free port"));
    let (errors, is_valid) = call("check", &[], &router);
    assert!(is_valid, "{errors}");
    let wait = ["--set", "say.wait=100ms", "--set", "speech.wait=100ms"];
    let (errors, is_ok) = call("run", &wait, &router);
    let expected = format!("device \"{router}\": no zenoh router answers within 100ms; start one");
    assert!(!is_ok && errors.contains(&expected), "{errors}");
    let (errors, is_valid) = call("check", &[], "tls/localhost:7447");
    assert!(!is_valid && errors.contains("it must be `tcp/HOST:PORT`"), "{errors}");
}
