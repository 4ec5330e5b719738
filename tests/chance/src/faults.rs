//! Faults that hit a running graph at any moment: what fails is handled by its policy, the rest
//! goes on, and the counters add up.

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

/// Faults in an ordinary test run, and in each session.
const FAULTS: u64 = 150;
const IN_A_SESSION: u64 = 25;

/// Time of a call that stalls, and of a slow one; a deadline is between them.
const STALL: Duration = Duration::from_millis(25);
const SLOW: Duration = Duration::from_millis(2);
const DEADLINE: Duration = Duration::from_millis(20);

/// How far a time jumps.
const JUMP: Duration = Duration::from_secs(3600);

/// Time between the packets of a source.
const PERIOD: Duration = Duration::from_micros(200);

const IN: In<Number> = In::at(0, "in");
const OUT: Out<Number> = Out::at(0, "out");

/// What a call can be made to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Panic,
    Error,
    Stall,
    Slow,
    TimeJump,
}

const KINDS: [Fault; 5] = [Fault::Panic, Fault::Error, Fault::Stall, Fault::Slow, Fault::TimeJump];

/// How a node is told to fail, and what it did, shared by all of its lives.
#[derive(Default)]
struct Control {
    /// The fault of the next call: its place in the kinds, from one.
    armed: AtomicU8,
    done: [AtomicU64; KINDS.len()],
    calls: AtomicU64,
}

impl Control {
    fn done(&self, fault: Fault) -> u64 {
        self.done[fault as usize].load(SeqCst)
    }

    fn failures(&self) -> u64 {
        self.done(Fault::Panic) + self.done(Fault::Error)
    }
}

/// Controls of all nodes; a node names its own by place.
static CONTROLS: Mutex<Vec<Arc<Control>>> = Mutex::new(Vec::new());

struct Weak {
    control: Arc<Control>,
    is_source: bool,
}

impl DynNode for Weak {
    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let mut at = cx.now();
        if self.is_source {
            cx.resume_at(at + PERIOD);
        } else {
            at = cx.at();
        }
        let armed = self.control.armed.swap(0, SeqCst);
        let fault = usize::from(armed).checked_sub(1).map(|place| KINDS[place]);
        if let Some(fault) = fault {
            self.control.done[fault as usize].fetch_add(1, SeqCst);
        }
        self.control.calls.fetch_add(1, SeqCst);
        match fault {
            // As `panic!`, but without the message on the screen.
            Some(Fault::Panic) => std::panic::resume_unwind(Box::new("a fault")),
            Some(Fault::Error) => {
                let reason = "a fault".to_owned();
                return Err(NodeError::InvalidInput { port: "in".into(), reason });
            }
            Some(Fault::Stall) => thread::sleep(STALL),
            Some(Fault::Slow) => thread::sleep(SLOW),
            // Back and forth in turns.
            Some(Fault::TimeJump) if self.control.done(Fault::TimeJump).is_multiple_of(2) => {
                at = at - JUMP
            }
            Some(Fault::TimeJump) => at = at + JUMP,
            None => {}
        }
        cx.send_at(OUT, at, Number(0));
        Ok(())
    }

    fn finish(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        Ok(())
    }

    fn cancel(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        Ok(())
    }
}

fn open(values: &ParamValues, is_source: bool) -> Box<dyn DynNode> {
    let Some(ParamValue::Int(place)) = values.get("control") else { panic!("no control") };
    let control = CONTROLS.lock().unwrap()[usize::try_from(*place).unwrap()].clone();
    Box::new(Weak { control, is_source })
}

const SOURCE: &[Port] = &[OUT.port()];
const STEP: &[Port] = &[IN.port(), OUT.port()];
const SINK: &[Port] = &[IN.port().many(), OUT.port()];

/// Nodes with these ports, each with its control.
struct WeakFactory {
    ports: &'static [Port],
    weight: Weight,
}

impl NodeFactory for WeakFactory {
    fn spec(&self) -> NodeSpec {
        NodeSpec { weight: self.weight, ..NodeSpec::new("weak", self.ports) }
    }

    fn open(&self, values: &ParamValues, _: &OpenCx) -> Result<Box<dyn DynNode>, NodeError> {
        Ok(open(values, self.ports.len() == 1))
    }
}

fn def(ports: &'static [Port], heavy: bool) -> NodeDef {
    let weight = if heavy { Weight::Heavy } else { Weight::Light };
    NodeDef::new(WeakFactory { ports, weight })
}

/// Some sources, a tree of nodes behind each, and a sink of what nobody else takes.
struct Trial {
    graph: CheckedGraph,
    controls: Vec<Arc<Control>>,
    /// The node that sends to each; none of a source.
    parents: Vec<Option<usize>>,
}

impl Trial {
    fn new(random: &mut Rng) -> Self {
        let mut trial =
            Self { graph: CheckedGraph::default(), controls: Vec::new(), parents: Vec::new() };
        let sources = random.usize(1..=3);
        let steps = random.usize(3..=7);
        for place in 0..sources + steps {
            let parent = (place >= sources).then(|| random.usize(0..place));
            let ports = if parent.is_none() { SOURCE } else { STEP };
            trial.node(random, ports);
            if let Some(parent) = parent {
                trial.edge(random, parent, place);
            }
            trial.parents.push(parent);
        }
        let leaves =
            (0..trial.parents.len()).filter(|place| !trial.parents.contains(&Some(*place)));
        let leaves: Vec<_> = leaves.collect();
        trial.node(random, SINK);
        // Nobody tells it to fail.
        let sink = trial.parents.len();
        (trial.graph.nodes[sink].deadline, trial.graph.nodes[sink].on_error) =
            (None, OnError::Stop);
        leaves.into_iter().for_each(|leaf| trial.edge(random, leaf, sink));
        trial
    }

    fn node(&mut self, random: &mut Rng, ports: &'static [Port]) {
        let control = Arc::new(Control::default());
        let mut controls = CONTROLS.lock().unwrap();
        let place = ParamValue::Int(i64::try_from(controls.len()).unwrap());
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
        // A machine with other work makes calls late that nobody has told to be.
        let has_deadline = on_error != OnError::Stop && random.bool();
        let times = [OnTimeFault::Drop, OnTimeFault::Clamp, OnTimeFault::Restart];
        let name = format!("n{}", self.graph.nodes.len());
        self.graph.nodes.push(CheckedNode {
            params: ParamValues::from([("control".to_owned(), place)]),
            on_error,
            deadline: has_deadline.then_some(DEADLINE),
            on_time_fault: times[random.usize(0..3)],
            canceled: ports.len() > 1 && random.u32(0..3) == 0,
            ..CheckedNode::new(name, def(ports, random.bool()))
        });
    }

    fn edge(&mut self, random: &mut Rng, from: usize, to: usize) {
        let all =
            [OnFull::Block, OnFull::Block, OnFull::DropOldest, OnFull::DropNewest, OnFull::Latest];
        let on_full = all[random.usize(0..all.len())];
        let queue = if on_full == OnFull::Latest { 1 } else { random.usize(1..6) };
        let policy = EdgePolicy { on_full, queue, max_age: None };
        self.graph.edges.push(Edge::new((from, OUT.id()), (to, IN.id()), policy));
    }

    /// Records everything, until a disk is full at some moment.
    fn record(&self, random: &mut Rng, path: &Path) -> Arc<Recorder> {
        let max_bytes = Some(random.u64(5_000..20_000));
        let options = RecordOptions { max_bytes, ..RecordOptions::default() };
        Recorder::create(path, &self.graph, &options).unwrap()
    }

    /// Whether the node or one before it has been stopped by its policy.
    fn has_ended(&self, place: usize) -> bool {
        let stopped = self.graph.nodes[place].on_error == OnError::Stop
            && self.controls[place].failures() > 0;
        stopped || self.parents[place].is_some_and(|parent| self.has_ended(parent))
    }

    /// Nodes that are called again and again: none once nothing reaches the sink, because a run of
    /// which a node has failed ends with its last sink.
    fn living(&self) -> Vec<usize> {
        let living = (0..self.parents.len()).filter(|place| !self.has_ended(*place));
        let living: Vec<_> = living.collect();
        let is_leaf = |place: &usize| !self.parents.contains(&Some(*place));
        if living.iter().any(is_leaf) { living } else { Vec::new() }
    }

    /// Injects faults at random moments; how many.
    fn harm(&self, random: &mut Rng, session: &Session, faults: u64) -> u64 {
        let mut injected = 0;
        while injected < faults {
            thread::sleep(Duration::from_micros(random.u64(0..1500)));
            let living = self.living();
            if living.is_empty() {
                break;
            }
            if random.u32(0..6) == 0 {
                let handle = session.interrupt_handle();
                (0..random.u32(1..50)).for_each(|_| handle.interrupt());
                injected += 1;
                continue;
            }
            let place = living[random.usize(0..living.len())];
            let kind = random.u8(1..=u8::try_from(KINDS.len()).unwrap());
            let control = &self.controls[place];
            injected += u64::from(control.armed.compare_exchange(0, kind, SeqCst, SeqCst).is_ok());
        }
        // Until everything that was told to fail has failed, and has come back.
        self.until(|place| self.controls[place].armed.load(SeqCst) == 0);
        let calls: Vec<_> =
            self.controls.iter().map(|control| control.calls.load(SeqCst)).collect();
        self.until(|place| self.controls[place].calls.load(SeqCst) > calls[place] + 1);
        injected
    }

    /// Waits until something holds for every living node.
    fn until(&self, holds: impl Fn(usize) -> bool) {
        while !self.living().into_iter().all(&holds) {
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn look(&self, report: &Report) {
        let rewinds =
            self.graph.nodes.iter().any(|node| node.on_time_fault == OnTimeFault::Restart);
        for (place, node) in report.nodes[..self.parents.len()].iter().enumerate() {
            self.look_at(place, node, report, rewinds);
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

    /// Whether the node did what its policy says.
    fn look_at(&self, place: usize, node: &NodeReport, report: &Report, rewinds: bool) {
        let (control, checked) = (&self.controls[place], &self.graph.nodes[place]);
        let failures = control.failures();
        assert!(node.calls >= control.calls.load(SeqCst), "{node:?}");
        assert_eq!(node.errors, failures + node.overruns, "{node:?}");
        let stalls = control.done(Fault::Stall);
        assert!(checked.deadline.is_none() || node.overruns >= stalls, "{node:?}");
        let stopped = report.failures.iter().filter(|failure| failure.node == node.name);
        let stopped = stopped.filter(|failure| failure.handled == Handled::Stopped).count();
        match checked.on_error {
            OnError::Stop => {
                assert!(failures <= 1 && stopped as u64 == failures, "{node:?}");
            }
            OnError::Restart(_) => {
                // One that was late at the very end is not opened again.
                let late = u64::from(node.overruns > 0);
                let expected = node.errors.saturating_sub(late)..=node.errors;
                assert!(stopped == 0 && expected.contains(&node.restarts), "{node:?}");
            }
            OnError::Degrade(_) => {
                assert_eq!((stopped, node.restarts, node.degraded), (0, 0, node.errors));
            }
        }
        // What was late or obsolete was not sent.
        if node.overruns == 0 && node.canceled == 0 && !rewinds {
            assert!(node.timestamp_faults <= control.done(Fault::TimeJump), "{node:?}");
        }
        if node.overruns == 0 && !checked.canceled && control.calls.load(SeqCst) > 0 {
            let jumps = control.done(Fault::TimeJump);
            // The first time of a stream is right, also when it begins anew.
            let firsts = if rewinds { 3 } else { 1 };
            assert!(node.timestamp_faults + firsts >= jumps, "{node:?} jumped {jumps} times");
        }
    }
}

/// Every packet is in the recording or counted; whether the disk was full.
fn look_at_recording(recorder: &Recorder, report: &Report) -> bool {
    let recorded = recorder.finish();
    for stream in &recorded.streams {
        let (node, _) = stream.output.split_once('.').unwrap();
        let sent = report.node(node).unwrap().packets_out;
        assert_eq!(stream.written + stream.dropped, sent, "{stream:?}");
    }
    assert!(recorded.error.is_some() || recorded.dropped() == 0, "{recorded:?}");
    recorded.error.is_some()
}

#[test]
fn faults_made_by_chance_are_handled_and_counted() {
    let faults = seeds::number("AFFERENT_FAULTS").unwrap_or(FAULTS);
    let (mut injected, mut full) = (0, 0);
    let mut total = [0; KINDS.len()];
    let folder = tempfile::tempdir().unwrap();
    // A session ends early when everything in it was stopped by its policy.
    seeds::each(faults, |seed| {
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
        injected += trial.harm(&mut random, &session, IN_A_SESSION);
        session.stop_handle().stop();
        let report = match session.wait() {
            Ok(report) => report,
            Err(RunError::Failed(report)) => *report,
            Err(error) => panic!("{error}"),
        };
        trial.look(&report);
        if recorder.is_some_and(|recorder| look_at_recording(&recorder, &report)) {
            full += 1;
        }
        for (sum, fault) in total.iter_mut().zip(KINDS) {
            *sum += trial.controls.iter().map(|control| control.done(fault)).sum::<u64>();
        }
    });
    println!("{injected} faults: {KINDS:?} {total:?}, the rest storms of interrupts");
    println!("and {full} times a recording that had no more room");
    assert!(seeds::number("AFFERENT_SEED").is_some() || injected >= faults);
}
