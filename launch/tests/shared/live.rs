//! Runs of a graph with its live view.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
};

/// A running graph, which ends with it.
pub(crate) struct LiveRun {
    pub(crate) process: Child,
    /// Address of the page, without a slash at its end.
    pub(crate) page: String,
    /// Address of the socket for Foxglove.
    pub(crate) foxglove: String,
}

impl LiveRun {
    /// Runs a graph with `--live` at a free port, and the further arguments.
    pub(crate) fn start(graph: &Path, arguments: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_afferent"))
            .arg("run")
            .arg(graph)
            .arg("--live=127.0.0.1:0")
            .args(arguments)
            .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut after = |mark: &str| {
            let address =
                lines.by_ref().find_map(|line| Some(line.ok()?.split_once(mark)?.1.to_owned()));
            address.expect("the program prints the address")
        };
        let page = after("live view at ").trim_end_matches('/').to_owned();
        let foxglove = after("for Foxglove: ");
        // The program must not wait for a reader of its log.
        thread::spawn(move || lines.for_each(drop));
        Self { process, page, foxglove }
    }
}

impl Drop for LiveRun {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
