//! Runs a graph file and keeps what its nodes sent.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use afferent_engine::{
    ClockKind, Diagnostics, LoadOptions, Observer, Report, RunOptions, Threads, load_and_check, run,
};
use afferent_graph::{NodeDef, OpenCx, Packet, Timestamp};

/// The nodes that the program has.
pub(crate) const NODES: &[&[NodeDef]] = &[
    afferent_nodes_audio::NODES,
    afferent_nodes_device::NODES,
    afferent_nodes_dialogue::NODES,
    afferent_nodes_io::NODES,
    afferent_nodes_speech::NODES,
];

pub(crate) fn services() -> OpenCx {
    OpenCx { kernels: afferent_kernels::KERNELS, ..OpenCx::default() }
}

/// A file of `pipelines/`.
pub(crate) fn pipelines(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pipelines").join(file)
}

/// A packet, and who sent it by which output.
pub(crate) struct Sent {
    pub(crate) node: String,
    pub(crate) port: &'static str,
    pub(crate) packet: Packet,
}

/// Keeps the packets of the nodes with these names.
pub(crate) struct Keep {
    nodes: &'static [&'static str],
    sent: Mutex<Vec<Sent>>,
}

impl Keep {
    pub(crate) fn of(nodes: &'static [&'static str]) -> Arc<Self> {
        Arc::new(Self { nodes, sent: Mutex::default() })
    }

    /// What they sent so far.
    pub(crate) fn take(&self) -> Vec<Sent> {
        std::mem::take(&mut *self.sent.lock().unwrap())
    }
}

impl Observer for Keep {
    fn sent(&self, node: &str, port: &'static str, _: Timestamp, packet: &Packet) {
        if self.nodes.contains(&node) {
            let sent = Sent { node: node.to_owned(), port, packet: packet.clone() };
            self.sent.lock().unwrap().push(sent);
        }
    }
}

/// Checks a graph file.
pub(crate) fn check(path: &Path, set: &[&str]) -> Result<(), Diagnostics> {
    let set = set.iter().map(|setting| (*setting).to_owned()).collect();
    load_and_check(path, &LoadOptions { set, ..LoadOptions::default() }, NODES, &services())
        .map(|_| ())
}

/// Runs a graph of `pipelines/` on the virtual clock; what `nodes` sent, and the report.
pub(crate) fn run_pipeline(
    file: &str,
    set: &[&str],
    nodes: &'static [&'static str],
    threads: Threads,
) -> (Vec<Sent>, Report) {
    let set = set.iter().map(|setting| (*setting).to_owned()).collect();
    let options = LoadOptions { set, ..LoadOptions::default() };
    let checked = load_and_check(&pipelines(file), &options, NODES, &services());
    let checked = checked.unwrap_or_else(|faults| panic!("{faults}"));
    let keep = Keep::of(nodes);
    let options = RunOptions {
        threads,
        clock: ClockKind::Virtual,
        observers: vec![Arc::clone(&keep) as Arc<dyn Observer>],
        ..RunOptions::default()
    };
    let report = run(&checked.graph, &services(), options).unwrap();
    (keep.take(), report)
}
