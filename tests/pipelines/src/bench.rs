//! Runs a graph file and keeps the packets of its nodes.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use afferent_backend_xnnpack::Xnnpack;
use afferent_engine::{ClockKind, Observer, Report, RunOptions, Threads, run};
use afferent_graph::{Catalog, OpenCx, Packet, Timestamp};
use afferent_record::{Compare, StreamVerdict};
use afferent_runtime::ModelOptions;
use afferent_spec::{CheckedGraph, Diagnostics, LoadOptions, load_and_check};

/// The shipped nodes.
pub(crate) fn catalog() -> Catalog {
    Catalog::default()
        .with_nodes(afferent_nodes_audio::NODES)
        .with_nodes(afferent_nodes_device::NODES)
        .with_nodes(afferent_nodes_dialogue::NODES)
        .with_nodes(afferent_nodes_io::NODES)
        .with_nodes(afferent_nodes_spatial::NODES)
        .with_nodes(afferent_nodes_speech::NODES)
        .with_nodes(afferent_nodes_vision::NODES)
}

/// Services of the program; models run their first variants.
pub(crate) fn services() -> OpenCx {
    OpenCx::with_service(ModelOptions::new(afferent_kernels::KERNELS).with_backend(Xnnpack))
}

/// Kernels only; models run their portable variants.
pub(crate) fn portable() -> OpenCx {
    OpenCx::with_service(ModelOptions::new(afferent_kernels::KERNELS))
}

/// A file of `pipelines/`.
pub(crate) fn pipelines(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pipelines").join(file)
}

/// A packet with its node and output.
pub(crate) struct Sent {
    pub(crate) node: String,
    pub(crate) port: String,
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

    /// Packets so far.
    pub(crate) fn take(&self) -> Vec<Sent> {
        std::mem::take(&mut *self.sent.lock().unwrap())
    }
}

impl Observer for Keep {
    fn sent(&self, node: &str, port: &str, _: Timestamp, packet: &Packet) {
        if self.nodes.contains(&node) {
            let sent =
                Sent { node: node.to_owned(), port: port.to_owned(), packet: packet.clone() };
            self.sent.lock().unwrap().push(sent);
        }
    }
}

/// Checks a graph file.
pub(crate) fn check(path: &Path, set: &[&str]) -> Result<(), Diagnostics> {
    let set = set.iter().map(|setting| (*setting).to_owned()).collect();
    load_and_check(path, &LoadOptions { set, ..LoadOptions::default() }, &catalog(), &services())
        .map(|_| ())
}

/// A graph of `pipelines/`.
fn graph(file: &str, set: &[&str], cx: &OpenCx) -> CheckedGraph {
    let set = set.iter().map(|setting| (*setting).to_owned()).collect();
    let options = LoadOptions { set, ..LoadOptions::default() };
    let checked = load_and_check(&pipelines(file), &options, &catalog(), cx);
    checked.unwrap_or_else(|faults| panic!("{faults}")).graph
}

fn virtually(threads: Threads, observer: Arc<dyn Observer>) -> RunOptions {
    let observers = vec![observer];
    RunOptions { threads, clock: ClockKind::Virtual, observers, ..RunOptions::default() }
}

/// Runs a graph of `pipelines/` on the virtual clock; returns the packets of `nodes`, and the
/// report.
pub(crate) fn run_pipeline(
    file: &str,
    set: &[&str],
    nodes: &'static [&'static str],
    cx: &OpenCx,
) -> (Vec<Sent>, Report) {
    let graph = graph(file, set, cx);
    let keep = Keep::of(nodes);
    let report = run(&graph, cx, virtually(Threads::Auto, keep.clone())).unwrap();
    (keep.take(), report)
}

/// Runs a graph of `pipelines/` on the virtual clock; returns a hash of timestamps and values of
/// each output.
pub(crate) fn hash_streams(file: &str, set: &[&str], threads: Threads) -> Vec<StreamVerdict> {
    let cx = services();
    let graph = graph(file, set, &cx);
    let compare = Compare::new(&graph, None).unwrap();
    run(&graph, &cx, virtually(threads, compare.clone())).unwrap();
    let streams = compare.verdicts();
    assert!(streams.iter().any(|stream| stream.packets > 0), "{streams:?}");
    streams
}
