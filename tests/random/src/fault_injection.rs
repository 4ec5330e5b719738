//! Fault injection into running graphs: each node follows its policy, other nodes keep running, and
//! the counters add up.

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU8, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use afferent_engine::{Handled, NodeReport, Observer, Report, RunError, RunOptions, Session};
use afferent_graph::{
    Cx, DynNode, In, NodeDef, NodeError, NodeFactory, NodeSpec, OnFull, OpenCx, Out, ParamValue,
    ParamValues, Port, Weight,
};
use afferent_record::{RecordOptions, Recorder};
use afferent_spec::{
    CheckedGraph, CheckedNode, Degrade, Edge, EdgePolicy, OnError, OnTimeFault, Restart,
};
use fastrand::Rng;

use crate::{nodes::Number, seeds};

/// Default number of faults in total, and number of faults per session.
const DEFAULT_FAULTS: u64 = 150;
const FAULTS_PER_SESSION: u64 = 25;

/// Durations of a stalled call and of a slow call. The deadline is between them.
const STALL_TIME: Duration = Duration::from_millis(25);
const SLOW_TIME: Duration = Duration::from_millis(2);
const DEADLINE: Duration = Duration::from_millis(20);

/// Size of a time jump.
const TIME_JUMP: Duration = Duration::from_secs(3600);

/// Period of a source.
const PERIOD: Duration = Duration::from_micros(200);

const IN: In<Number> = In::at(0, "in");
const OUT: Out<Number> = Out::at(0, "out");

/// Fault of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Panic,
    Error,
    Stall,
    Slow,
    TimeJump,
}

const FAULT_KINDS: [Fault; 5] =
    [Fault::Panic, Fault::Error, Fault::Stall, Fault::Slow, Fault::TimeJump];

/// Requested and executed faults of a node. Restarts of the node share it.
#[derive(Default)]
struct FaultControl {
    /// Fault of the next call: index in `FAULT_KINDS` plus 1; 0 for none.
    armed: AtomicU8,
    /// Number of executed faults of each kind.
    executed: [AtomicU64; FAULT_KINDS.len()],
    calls: AtomicU64,
}

impl FaultControl {
    fn executed(&self, fault: Fault) -> u64 {
        self.executed[fault as usize].load(SeqCst)
    }

    fn failures(&self) -> u64 {
        self.executed(Fault::Panic) + self.executed(Fault::Error)
    }
}

/// Controls of all nodes. The parameter `control` of a node is an index into this list.
static CONTROLS: Mutex<Vec<Arc<FaultControl>>> = Mutex::new(Vec::new());

struct FaultyNode {
    control: Arc<FaultControl>,
    is_source: bool,
}

impl DynNode for FaultyNode {
    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let mut at = cx.now();
        if self.is_source {
            cx.resume_at(at + PERIOD);
        } else {
            at = cx.at();
        }
        let armed = self.control.armed.swap(0, SeqCst);
        let fault = usize::from(armed).checked_sub(1).map(|index| FAULT_KINDS[index]);
        if let Some(fault) = fault {
            self.control.executed[fault as usize].fetch_add(1, SeqCst);
        }
        self.control.calls.fetch_add(1, SeqCst);
        match fault {
            // As `panic!`, but without the panic message.
            Some(Fault::Panic) => std::panic::resume_unwind(Box::new("injected fault")),
            Some(Fault::Error) => {
                let reason = "injected fault".to_owned();
                return Err(NodeError::InvalidInput { port: "in".into(), reason });
            }
            Some(Fault::Stall) => thread::sleep(STALL_TIME),
            Some(Fault::Slow) => thread::sleep(SLOW_TIME),
            // Alternate between forward and backward jumps.
            Some(Fault::TimeJump) if self.control.executed(Fault::TimeJump).is_multiple_of(2) => {
                at = at - TIME_JUMP
            }
            Some(Fault::TimeJump) => at = at + TIME_JUMP,
            None => {}
        }
        cx.send_at(OUT, at, Number(0));
        Ok(())
    }
}

fn open(values: &ParamValues, is_source: bool) -> Box<dyn DynNode> {
    let Some(ParamValue::Int(index)) = values.get("control") else { panic!("no control") };
    let control = CONTROLS.lock().unwrap()[usize::try_from(*index).unwrap()].clone();
    Box::new(FaultyNode { control, is_source })
}

const SOURCE_PORTS: &[Port] = &[OUT.port()];
const STEP_PORTS: &[Port] = &[IN.port(), OUT.port()];
const SINK_PORTS: &[Port] = &[IN.port().many(), OUT.port()];

/// Factory of nodes with these ports.
struct FaultyFactory {
    ports: &'static [Port],
    weight: Weight,
}

impl NodeFactory for FaultyFactory {
    fn spec(&self) -> NodeSpec {
        NodeSpec { weight: self.weight, ..NodeSpec::new("faulty", self.ports) }
    }

    fn open(&self, values: &ParamValues, _: &OpenCx) -> Result<Box<dyn DynNode>, NodeError> {
        Ok(open(values, self.ports.len() == 1))
    }
}

fn def(ports: &'static [Port], heavy: bool) -> NodeDef {
    let weight = if heavy { Weight::Heavy } else { Weight::Light };
    NodeDef::new(FaultyFactory { ports, weight })
}

/// Graph with 1 to 3 sources, a tree of nodes downstream of each, and a sink for all leaves.
struct Trial {
    graph: CheckedGraph,
    controls: Vec<Arc<FaultControl>>,
    /// Upstream node of each node except the sink; `None` for a source.
    parents: Vec<Option<usize>>,
}

impl Trial {
    fn new(random: &mut Rng) -> Self {
        let mut trial =
            Self { graph: CheckedGraph::default(), controls: Vec::new(), parents: Vec::new() };
        let sources = random.usize(1..=3);
        let steps = random.usize(3..=7);
        for index in 0..sources + steps {
            let parent = (index >= sources).then(|| random.usize(0..index));
            let ports = if parent.is_none() { SOURCE_PORTS } else { STEP_PORTS };
            trial.node(random, ports);
            if let Some(parent) = parent {
                trial.edge(random, parent, index);
            }
            trial.parents.push(parent);
        }
        let leaves =
            (0..trial.parents.len()).filter(|index| !trial.parents.contains(&Some(*index)));
        let leaves: Vec<_> = leaves.collect();
        trial.node(random, SINK_PORTS);
        // The sink gets no faults.
        let sink = trial.parents.len();
        (trial.graph.nodes[sink].deadline, trial.graph.nodes[sink].on_error) =
            (None, OnError::Stop);
        leaves.into_iter().for_each(|leaf| trial.edge(random, leaf, sink));
        trial
    }

    fn node(&mut self, random: &mut Rng, ports: &'static [Port]) {
        let control = Arc::new(FaultControl::default());
        let mut controls = CONTROLS.lock().unwrap();
        let index = ParamValue::Int(i64::try_from(controls.len()).unwrap());
        controls.push(control.clone());
        self.controls.push(control);
        let on_error = match random.u32(0..8) {
            0 => OnError::Stop,
            1..=4 => {
                OnError::Restart(Restart { backoff: Duration::from_micros(1), limit: u32::MAX })
            }
            5 | 6 => OnError::Degrade(Degrade::Nothing),
            _ => OnError::Degrade(Degrade::Last),
        };
        // On a loaded machine calls can miss the deadline without a fault, so `stop` nodes have none.
        let has_deadline = on_error != OnError::Stop && random.bool();
        let times = [OnTimeFault::Drop, OnTimeFault::Clamp, OnTimeFault::Restart];
        let name = format!("n{}", self.graph.nodes.len());
        self.graph.nodes.push(CheckedNode {
            params: ParamValues::from([("control".to_owned(), index)]),
            on_error,
            deadline: has_deadline.then_some(DEADLINE),
            on_time_fault: times[random.usize(0..3)],
            canceled: ports.len() > 1 && random.u32(0..3) == 0,
            ..CheckedNode::new(name, def(ports, random.bool()))
        });
    }

    fn edge(&mut self, random: &mut Rng, from: usize, to: usize) {
        let policies =
            [OnFull::Block, OnFull::Block, OnFull::DropOldest, OnFull::DropNewest, OnFull::Latest];
        let on_full = policies[random.usize(0..policies.len())];
        let queue = if on_full == OnFull::Latest { 1 } else { random.usize(1..6) };
        let policy = EdgePolicy { on_full, queue, max_age: None };
        self.graph.edges.push(Edge::new((from, OUT.id()), (to, IN.id()), policy));
    }

    /// Recorder of all streams with a size limit, which simulates a full disk.
    fn record(&self, random: &mut Rng, path: &Path) -> Arc<Recorder> {
        let max_bytes = Some(random.u64(5_000..20_000));
        let options = RecordOptions { max_bytes, ..RecordOptions::default() };
        Recorder::create(path, &self.graph, &options).unwrap()
    }

    /// True if the node or an upstream node has been stopped by its policy.
    fn has_ended(&self, index: usize) -> bool {
        let stopped = self.graph.nodes[index].on_error == OnError::Stop
            && self.controls[index].failures() > 0;
        stopped || self.parents[index].is_some_and(|parent| self.has_ended(parent))
    }

    /// Nodes that are still called. Empty if no packet can reach the sink, because a run with a failed
    /// node ends when its last sink ends.
    fn running_nodes(&self) -> Vec<usize> {
        let running = (0..self.parents.len()).filter(|index| !self.has_ended(*index));
        let running: Vec<_> = running.collect();
        let is_leaf = |index: &usize| !self.parents.contains(&Some(*index));
        if running.iter().any(is_leaf) { running } else { Vec::new() }
    }

    /// Injects faults at random times. Returns the number of injected faults.
    fn inject(&self, random: &mut Rng, session: &Session, faults: u64) -> u64 {
        let mut injected = 0;
        while injected < faults {
            thread::sleep(Duration::from_micros(random.u64(0..1500)));
            let running = self.running_nodes();
            if running.is_empty() {
                break;
            }
            if random.u32(0..6) == 0 {
                let handle = session.interrupt_handle();
                (0..random.u32(1..50)).for_each(|_| handle.interrupt());
                injected += 1;
                continue;
            }
            let index = running[random.usize(0..running.len())];
            let kind = random.u8(1..=u8::try_from(FAULT_KINDS.len()).unwrap());
            let control = &self.controls[index];
            injected += u64::from(control.armed.compare_exchange(0, kind, SeqCst, SeqCst).is_ok());
        }
        // Wait until all faults are executed and all nodes are called again.
        self.wait_until(|index| self.controls[index].armed.load(SeqCst) == 0);
        let calls: Vec<_> =
            self.controls.iter().map(|control| control.calls.load(SeqCst)).collect();
        self.wait_until(|index| self.controls[index].calls.load(SeqCst) > calls[index] + 1);
        injected
    }

    /// Waits until `condition` holds for all running nodes.
    fn wait_until(&self, condition: impl Fn(usize) -> bool) {
        while !self.running_nodes().into_iter().all(&condition) {
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn check(&self, report: &Report) {
        let rewinds =
            self.graph.nodes.iter().any(|node| node.on_time_fault == OnTimeFault::Restart);
        for (index, node) in report.nodes[..self.parents.len()].iter().enumerate() {
            self.check_node(index, node, report, rewinds);
        }
        for (edge, checked) in report.edges.iter().zip(&self.graph.edges) {
            let counts = edge.counts;
            assert_eq!(counts.sent, counts.delivered + counts.dropped() + counts.depth as u64);
            assert_eq!(counts.depth, 0, "{edge:?}");
            let (from, to) = (&report.nodes[checked.from.0], &report.nodes[checked.to.0]);
            assert_eq!(counts.sent, from.packets_out, "{edge:?}");
            if checked.to.0 < self.parents.len() {
                assert_eq!(counts.delivered, to.packets_in, "{edge:?}");
            }
            let can_drop = checked.policy.on_full != OnFull::Block;
            assert!(can_drop || counts.dropped_full == 0, "{edge:?}");
            let canceled = self.graph.nodes[checked.to.0].canceled
                || self.graph.nodes[checked.from.0].canceled;
            assert!(canceled || counts.dropped_epoch == 0, "{edge:?}");
        }
    }

    /// Checks that the node followed its policy.
    fn check_node(&self, index: usize, node: &NodeReport, report: &Report, rewinds: bool) {
        let (control, checked) = (&self.controls[index], &self.graph.nodes[index]);
        let failures = control.failures();
        assert!(node.calls >= control.calls.load(SeqCst), "{node:?}");
        assert_eq!(node.errors, failures + node.overruns, "{node:?}");
        let stalls = control.executed(Fault::Stall);
        assert!(checked.deadline.is_none() || node.overruns >= stalls, "{node:?}");
        let stopped = report.failures.iter().filter(|failure| failure.node == node.name);
        let stopped = stopped.filter(|failure| failure.handled == Handled::Stopped).count();
        match checked.on_error {
            OnError::Stop => {
                assert!(failures <= 1 && stopped as u64 == failures, "{node:?}");
            }
            OnError::Restart(_) => {
                // A node that misses its deadline in the last call is not restarted.
                let late = u64::from(node.overruns > 0);
                let expected = node.errors.saturating_sub(late)..=node.errors;
                assert!(stopped == 0 && expected.contains(&node.restarts), "{node:?}");
            }
            OnError::Degrade(_) => {
                assert_eq!((stopped, node.restarts, node.degraded), (0, 0, node.errors));
            }
        }
        // Late and canceled calls send no packets and therefore cause no timestamp faults.
        if node.overruns == 0 && node.canceled == 0 && !rewinds {
            assert!(node.timestamp_faults <= control.executed(Fault::TimeJump), "{node:?}");
        }
        if node.overruns == 0 && !checked.canceled && control.calls.load(SeqCst) > 0 {
            let jumps = control.executed(Fault::TimeJump);
            // The first timestamp of a stream is always valid, also after a restart.
            let firsts = if rewinds { 3 } else { 1 };
            assert!(node.timestamp_faults + firsts >= jumps, "{node:?} jumped {jumps} times");
        }
    }
}

/// Checks that every packet is recorded or counted as dropped. Returns true if the disk was full.
fn check_recording(recorder: &Recorder, report: &Report) -> bool {
    let recorded = recorder.finish();
    for stream in &recorded.streams {
        let (node, _) = stream.output.split_once('.').unwrap();
        let sent = report.node(node).unwrap().packets_out;
        assert_eq!(stream.written + stream.dropped, sent, "{stream:?}");
    }
    assert!(recorded.is_full || recorded.dropped() == 0, "{recorded:?}");
    recorded.is_full
}

#[test]
fn random_faults_are_handled_and_counted() {
    let faults = seeds::env_number("AFFERENT_FAULTS").unwrap_or(DEFAULT_FAULTS);
    let (mut injected, mut full) = (0, 0);
    let mut total = [0; FAULT_KINDS.len()];
    let folder = tempfile::tempdir().unwrap();
    // A session ends early if all nodes are stopped by their policies.
    seeds::for_each(faults, |seed| {
        if injected >= faults {
            return;
        }
        let mut random = Rng::with_seed(seed);
        let trial = Trial::new(&mut random);
        let file = folder.path().join("run.mcap");
        let recorder = random.bool().then(|| trial.record(&mut random, &file));
        let observers = recorder.iter().map(|recorder| recorder.clone() as Arc<dyn Observer>);
        let options = RunOptions { observers: observers.collect(), ..RunOptions::default() };
        let session = Session::start(&trial.graph, &OpenCx::default(), options).unwrap();
        injected += trial.inject(&mut random, &session, FAULTS_PER_SESSION);
        session.stop_handle().stop();
        let report = match session.wait() {
            Ok(report) => report,
            Err(RunError::Failed(report)) => *report,
            Err(error) => panic!("{error}"),
        };
        trial.check(&report);
        if recorder.is_some_and(|recorder| check_recording(&recorder, &report)) {
            full += 1;
        }
        for (sum, fault) in total.iter_mut().zip(FAULT_KINDS) {
            *sum += trial.controls.iter().map(|control| control.executed(fault)).sum::<u64>();
        }
    });
    println!("{injected} faults: {FAULT_KINDS:?} {total:?}, and bursts of interrupts");
    println!("{full} recordings with a full disk");
    assert!(seeds::env_number("AFFERENT_SEED").is_some() || injected >= faults);
}
