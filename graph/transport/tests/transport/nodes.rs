//! Nodes and graphs of the tests.

use std::{
    sync::{
        Arc, Mutex,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use afferent_core::Tensor;
use afferent_engine::{Report, RunOptions, Session};
use afferent_graph::{
    Cx, In, Node, NodeDef, NodeError, OpenCx, Out, Port, PortId, Service, Timestamp,
};
use afferent_messages::{AudioBlock, SampleRate};
use afferent_spec::{CheckedGraph, CheckedNode, Edge, EdgePolicy, Machine, Partition};
use afferent_transport::Transport;

pub(crate) const AUDIO_IN: In<AudioBlock> = In::at(0, "audio");
pub(crate) const AUDIO: Out<AudioBlock> = Out::at(0, "audio");

/// Blocks of numbered samples.
pub(crate) struct Counter {
    number: usize,
}

impl Node for Counter {
    type Params = ();
    const NAME: &'static str = "counter";
    const SUMMARY: &'static str = "";
    const PORTS: &'static [Port] = &[AUDIO.port()];
    const LATENCY: &'static str = "none";

    fn open((): (), _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self { number: 0 })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        // Blocks in messages and blocks in shared memory.
        let len = if self.number.is_multiple_of(3) { 10_000 } else { 16 };
        let samples = Tensor::new(&[1, len], &vec![self.number as f32; len])?;
        let block = AudioBlock { samples, rate: SampleRate(16_000) };
        cx.send_at(AUDIO, Timestamp(self.number as i64), block);
        self.number += 1;
        if self.number == BLOCKS {
            cx.end();
        }
        Ok(())
    }
}

pub(crate) const BLOCKS: usize = 2000;

/// Adds one to every sample.
pub(crate) struct Increment;

impl Node for Increment {
    type Params = ();
    const NAME: &'static str = "increment";
    const SUMMARY: &'static str = "";
    const PORTS: &'static [Port] = &[AUDIO_IN.port(), AUDIO.port()];
    const LATENCY: &'static str = "none";

    fn open((): (), _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self)
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(mut block) = cx.take(AUDIO_IN) else { return Ok(()) };
        block.samples.data_mut::<f32>()?.iter_mut().for_each(|sample| *sample += 1.0);
        cx.send(AUDIO, block);
        Ok(())
    }
}

#[derive(Clone, Default)]
pub(crate) struct Collected(pub(crate) Arc<Mutex<Vec<(i64, usize, f32)>>>);

impl Service for Collected {
    const NAME: &'static str = "collected";
    const HINT: &'static str = "of this test";
}

pub(crate) struct Collect {
    collected: Collected,
}

impl Node for Collect {
    type Params = ();
    const NAME: &'static str = "collect";
    const SUMMARY: &'static str = "";
    const PORTS: &'static [Port] = &[AUDIO_IN.port()];
    const LATENCY: &'static str = "none";

    fn open((): (), cx: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self { collected: cx.services.need::<Collected>()?.clone() })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let at = cx.packet().map_or(0, |packet| packet.header.at.0);
        let Some(block) = cx.get(AUDIO_IN) else { return Ok(()) };
        let samples = block.samples.data::<f32>()?;
        self.collected.0.lock().unwrap().push((at, samples.len(), samples[samples.len() - 1]));
        Ok(())
    }
}

/// `counter → increment → collect`, each in the partition of its number.
pub(crate) fn graph(partitions: [usize; 3], policy: EdgePolicy) -> CheckedGraph {
    let assign = |node: CheckedNode, partition| CheckedNode { partition, ..node };
    let nodes = [
        CheckedNode::new("counter", NodeDef::of::<Counter>()),
        CheckedNode::new("increment", NodeDef::of::<Increment>()),
        CheckedNode::new("collect", NodeDef::of::<Collect>()),
    ];
    let named = |name: Option<&str>| Partition { machine: 0, process: name.map(str::to_owned) };
    CheckedGraph {
        name: "test".to_owned(),
        nodes: nodes.into_iter().zip(partitions).map(|(node, at)| assign(node, at)).collect(),
        edges: (0..2)
            .map(|from| Edge::new((from, PortId::at(0)), (from + 1, PortId::at(0)), policy))
            .collect(),
        partitions: vec![named(None), named(Some("first")), named(Some("second"))],
        ..CheckedGraph::default()
    }
}

/// As [`graph`], where partition 1 is the main process of a second machine, and 2 another process
/// of it.
pub(crate) fn on_machines(partitions: [usize; 3], policy: EdgePolicy) -> CheckedGraph {
    let machine = |name: &str| Machine { name: name.to_owned(), ..Machine::default() };
    let partition =
        |machine, process: Option<&str>| Partition { machine, process: process.map(str::to_owned) };
    CheckedGraph {
        machines: vec![machine("one"), machine("two")],
        partitions: vec![partition(0, None), partition(1, None), partition(1, Some("side"))],
        ..graph(partitions, policy)
    }
}

/// Longest time of a graph: one that waits for ever fails, and says so.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs every partition; returns the report of the first one and what was collected.
pub(crate) fn run_all(
    graph: &CheckedGraph,
    transports: &[Arc<Transport>],
) -> (Report, Vec<(i64, usize, f32)>) {
    let collected = Collected::default();
    let cx = OpenCx::with_service(collected.clone());
    let (_end, ended) = mpsc::channel::<()>();
    thread::spawn(move || {
        if ended.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
            #[expect(clippy::print_stderr, reason = "the only sign of the fault")]
            {
                eprintln!("a graph has not ended after {LIMIT:?}");
            }
            std::process::abort();
        }
    });
    let reports: Vec<Report> = thread::scope(|scope| {
        let threads: Vec<_> = transports
            .iter()
            .map(|transport| {
                scope.spawn(|| {
                    transport.agree(1).unwrap();
                    let border = Some(transport.clone() as Arc<_>);
                    let options = RunOptions { border, ..RunOptions::default() };
                    let report = Session::start(graph, &cx, options).unwrap().wait().unwrap();
                    transport.finish(report)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let collected = collected.0.lock().unwrap().clone();
    (reports.into_iter().next().unwrap(), collected)
}
