//! Graphs of nodes that are written as closures.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::Duration,
};

use afferent_engine::{ClockKind, JoinCounts, Report, RunError, RunOptions, Threads, run};
use afferent_graph::{
    Cx, DynNode, In, NodeDef, NodeError, NodeFactory, NodeSpec, OnFull, OpenCx, Out, ParamValue,
    ParamValues, Payload, Port, PortId, Timestamp, Weight,
};
use afferent_spec::{
    CheckedGraph, CheckedNode, Edge, EdgePolicy, OnError, OnTimeFault, SyncPolicy,
};

#[derive(Clone, Default)]
pub(crate) struct Number(pub(crate) u64);

impl Payload for Number {
    const TYPE: &'static str = "test/Number";
    const INTERPOLATES: bool = true;

    fn interpolate(&self, later: &Self, share: f64, into: &mut Self) {
        into.0 = self.0 + ((later.0 - self.0) as f64 * share).round() as u64;
    }
}

pub(crate) const IN: In<Number> = In::at(0, "in");
pub(crate) const OUT: Out<Number> = Out::at(0, "out");
/// Second output of sources.
pub(crate) const MORE: Out<Number> = Out::at(1, "more");

pub(crate) const SIDE: In<Number> = In::at(1, "side");
pub(crate) const EXTRA: In<Number> = In::at(2, "extra");

const JOIN: &[Port] = &[IN.port(), SIDE.port(), EXTRA.port().optional(), OUT.port()];
const IN_STEP: &[Port] = &[IN.port(), OUT.port().in_step()];
const SOURCE: &[Port] = &[OUT.port(), MORE.port()];
const STEP: &[Port] = &[IN.port().many(), OUT.port()];

/// Code of a node.
type Script = Box<dyn FnMut(&mut Cx<'_>) -> Result<(), NodeError> + Send>;

struct Scripted {
    process: Script,
    finish: Script,
    cancel: Script,
}

/// A node with its script, which it gives back when it is closed: it may be opened again.
struct Leased {
    index: i64,
    script: Option<Scripted>,
}

impl Leased {
    fn script(&mut self) -> &mut Scripted {
        self.script.as_mut().expect("a script is in one node at a time")
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        let mut scripts = SCRIPTS.lock().unwrap_or_else(PoisonError::into_inner);
        scripts[usize::try_from(self.index).unwrap()] = self.script.take();
    }
}

impl DynNode for Leased {
    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        (self.script().process)(cx)
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        (self.script().finish)(cx)
    }

    fn cancel(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        (self.script().cancel)(cx)
    }
}

/// Scripts on their way into their nodes; a node names its own by index.
static SCRIPTS: Mutex<Vec<Option<Scripted>>> = Mutex::new(Vec::new());

fn open(values: &ParamValues, _: &OpenCx) -> Result<Box<dyn DynNode>, NodeError> {
    let Some(ParamValue::Int(index)) = values.get("script") else { panic!("no script") };
    let script = SCRIPTS.lock().unwrap()[usize::try_from(*index).unwrap()].take();
    Ok(Box::new(Leased { index: *index, script }))
}

type Open = fn(&ParamValues, &OpenCx) -> Result<Box<dyn DynNode>, NodeError>;

/// A node with these ports.
struct Kit {
    ports: &'static [Port],
    timed: bool,
    open: Open,
}

impl NodeFactory for Kit {
    fn spec(&self) -> NodeSpec {
        NodeSpec { timed: self.timed, ..NodeSpec::new("scripted", self.ports) }
    }

    fn open(&self, values: &ParamValues, cx: &OpenCx) -> Result<Box<dyn DynNode>, NodeError> {
        (self.open)(values, cx)
    }
}

/// A node with this contract.
pub(crate) struct Whole {
    pub(crate) spec: NodeSpec,
    pub(crate) open: Open,
}

impl NodeFactory for Whole {
    fn spec(&self) -> NodeSpec {
        self.spec.clone()
    }

    fn open(&self, values: &ParamValues, cx: &OpenCx) -> Result<Box<dyn DynNode>, NodeError> {
        (self.open)(values, cx)
    }
}

#[derive(Default)]
pub(crate) struct Graph {
    nodes: Vec<CheckedNode>,
    edges: Vec<Edge>,
    interrupt: Option<(usize, PortId)>,
}

/// Packets that nodes have received, for the test.
pub(crate) type Seen<T> = Arc<Mutex<Vec<T>>>;

/// The numbers that a call of a join got: of `in`, `side` and `extra`.
pub(crate) type Joined = (u64, Vec<u64>, Vec<u64>);

impl Graph {
    fn out(&self, node: usize) -> PortId {
        self.nodes[node].def.output("out").unwrap_or(PortId::at(9))
    }

    fn input(&self, node: usize) -> PortId {
        self.nodes[node].def.input("in").unwrap_or(PortId::at(9))
    }

    fn add(
        &mut self,
        name: &str,
        ports: &'static [Port],
        process: impl FnMut(&mut Cx<'_>) -> Result<(), NodeError> + Send + 'static,
    ) -> usize {
        let mut scripts = SCRIPTS.lock().unwrap();
        let script = ParamValue::Int(i64::try_from(scripts.len()).unwrap());
        let (finish, cancel) =
            (Box::new(|_: &mut Cx<'_>| Ok(())), Box::new(|_: &mut Cx<'_>| Ok(())));
        scripts.push(Some(Scripted { process: Box::new(process), finish, cancel }));
        let def = NodeDef::new(Kit { ports, timed: false, open });
        let params = ParamValues::from([("script".to_owned(), script)]);
        self.nodes.push(CheckedNode { params, ..CheckedNode::new(name, def) });
        self.nodes.len() - 1
    }

    /// A source: called with the number of the call, from zero; says whether it goes on.
    pub(crate) fn source(
        &mut self,
        mut call: impl FnMut(u64, &mut Cx<'_>) -> bool + Send + 'static,
    ) -> usize {
        let mut calls = 0;
        self.add(&format!("source{}", self.nodes.len()), SOURCE, move |cx| {
            if !call(calls, cx) {
                cx.end();
            }
            calls += 1;
            Ok(())
        })
    }

    /// A source of the numbers below `count`, one a call, as fast as they are taken.
    pub(crate) fn numbers(&mut self, count: u64) -> usize {
        self.source(move |call, cx| {
            cx.send_at(OUT, ms(call), Number(call));
            call + 1 < count
        })
    }

    /// A source of the numbers from `first`, one each `period` milliseconds, `count` of them.
    pub(crate) fn clocked(&mut self, first: u64, period: u64, count: u64) -> usize {
        self.source(move |call, cx| {
            cx.send(OUT, Number(first + call));
            cx.resume_at(ms((call + 1) * period));
            call + 1 < count
        })
    }

    /// A node that is called with each number.
    pub(crate) fn node(
        &mut self,
        name: &str,
        mut call: impl FnMut(u64, &mut Cx<'_>) -> Result<(), NodeError> + Send + 'static,
    ) -> usize {
        self.add(name, STEP, move |cx| {
            let number = cx.get(IN).expect("a packet of the input").0;
            call(number, cx)
        })
    }

    /// A node that may ask for calls: it is called with each number, and without one when it is due.
    pub(crate) fn timed(
        &mut self,
        name: &str,
        mut call: impl FnMut(Option<u64>, &mut Cx<'_>) + Send + 'static,
    ) -> usize {
        let node = self.add(name, STEP, move |cx| {
            let number = cx.get(IN).map(|number| number.0);
            call(number, cx);
            Ok(())
        });
        let spec = NodeSpec { timed: true, ..(*self.nodes[node].def).clone() };
        self.nodes[node].def = NodeDef::new(Whole { spec, open });
        node
    }

    /// A node that joins `in` with `side` and, if it is there, `extra`; returns what it got: the
    /// number of `in`, and those of the others.
    pub(crate) fn join(&mut self, name: &str) -> (usize, Seen<Joined>) {
        let seen = Seen::default();
        let kept: Seen<_> = seen.clone();
        let join = self.add(name, JOIN, move |cx| {
            let all = |port| cx.all(port).map(|(_, number): (_, &Number)| number.0).collect();
            let number = cx.get(IN).expect("the packet of the call").0;
            kept.lock().unwrap().push((number, all(SIDE), all(EXTRA)));
            Ok(())
        });
        (join, seen)
    }

    /// A node that may ask for calls, and joins `in` with `extra`, if it is there: it is called with
    /// each number of `in`, and without one when it is due.
    pub(crate) fn timed_join(
        &mut self,
        name: &str,
        mut call: impl FnMut(Option<u64>, &mut Cx<'_>) + Send + 'static,
    ) -> usize {
        let node = self.add(name, JOIN, move |cx| {
            let number = cx.get(IN).map(|number| number.0);
            call(number, cx);
            Ok(())
        });
        let spec = NodeSpec { timed: true, ..(*self.nodes[node].def).clone() };
        self.nodes[node].def = NodeDef::new(Whole { spec, open });
        node
    }

    /// A node that sends each `nth` number on, in step.
    pub(crate) fn filter(&mut self, name: &str, nth: u64) -> usize {
        self.add(name, IN_STEP, move |cx| {
            let number = cx.get(IN).expect("a packet of the input").0;
            if number % nth == 0 {
                cx.send(OUT, Number(number));
            }
            Ok(())
        })
    }

    /// An edge that accompanies the stream to `in`.
    pub(crate) fn companion(
        &mut self,
        from: usize,
        to: (usize, In<Number>),
        sync: SyncPolicy,
        timeout: Option<Duration>,
    ) {
        let (policy, to) = (block(16), (to.0, self.nodes[to.0].def.input(to.1.name()).unwrap()));
        let (sync, edge) = (Some(sync), Edge::new((from, self.out(from)), to, policy));
        self.edges.push(Edge { sync, timeout, ..edge });
    }

    /// Lets the last edge come from the other output of its source.
    pub(crate) fn leave_by_more(&mut self) {
        let from = self.edges.last().unwrap().from.0;
        self.edges.last_mut().unwrap().from.1 = self.nodes[from].def.output(MORE.name()).unwrap();
    }

    /// Lets the last edge keep `queue` packets: the newest alone where there is no number.
    pub(crate) fn keep(&mut self, queue: Option<usize>) {
        let latest = EdgePolicy { on_full: OnFull::Latest, ..block(1) };
        self.edges.last_mut().unwrap().policy = queue.map_or(latest, block);
    }

    /// An edge that leads back to `in`.
    pub(crate) fn feedback(&mut self, from: usize, to: usize, queue: usize) {
        let policy = EdgePolicy { on_full: OnFull::DropOldest, queue, max_age: None };
        let ends = ((from, self.out(from)), (to, self.input(to)));
        self.edges.push(Edge { feedback: true, ..Edge::new(ends.0, ends.1, policy) });
    }

    /// Sets the in-flight limit of the last edge.
    pub(crate) fn in_flight(&mut self, limit: usize) {
        self.edges.last_mut().unwrap().in_flight = Some(limit);
    }

    /// Says what becomes of packets of `node` that go back in time.
    pub(crate) fn on_time_fault(&mut self, node: usize, policy: OnTimeFault) {
        self.nodes[node].on_time_fault = policy;
    }

    /// A node that sends each number on, with `add` added.
    pub(crate) fn adder(&mut self, name: &str, add: u64) -> usize {
        self.node(name, move |_, cx| {
            let mut number = cx.take(IN).expect("a packet of the input");
            number.0 += add;
            cx.send(OUT, number);
            Ok(())
        })
    }

    /// A node that keeps the numbers that it gets.
    pub(crate) fn sink(&mut self, name: &str) -> (usize, Seen<u64>) {
        let seen = Seen::default();
        let kept = seen.clone();
        let sink = self.node(name, move |number, _| {
            kept.lock().unwrap().push(number);
            Ok(())
        });
        (sink, seen)
    }

    /// Says what happens when `node` fails, and when it is too slow.
    pub(crate) fn supervised(
        &mut self,
        node: usize,
        on_error: OnError,
        deadline: Option<Duration>,
    ) {
        (self.nodes[node].on_error, self.nodes[node].deadline) = (on_error, deadline);
    }

    /// Gives each of `nodes` a thread of its own.
    pub(crate) fn heavy(&mut self, nodes: &[usize]) {
        nodes.iter().for_each(|node| self.nodes[*node].weight = Weight::Heavy);
    }

    /// Gives every node a thread of its own.
    pub(crate) fn all_heavy(&mut self) {
        self.nodes.iter_mut().for_each(|node| node.weight = Weight::Heavy);
    }

    /// Calls `first` before each call of `node`.
    pub(crate) fn on_call(&mut self, node: usize, mut first: impl FnMut() + Send + 'static) {
        self.script(node, |script| {
            let mut process = std::mem::replace(&mut script.process, Box::new(|_| Ok(())));
            script.process = Box::new(move |cx| {
                first();
                process(cx)
            });
        });
    }

    pub(crate) fn finish(
        &mut self,
        node: usize,
        finish: impl FnMut(&mut Cx<'_>) -> Result<(), NodeError> + Send + 'static,
    ) {
        self.script(node, |script| script.finish = Box::new(finish));
    }

    /// Lets interrupts cancel `node`, which then calls `cancel`.
    pub(crate) fn canceled(
        &mut self,
        node: usize,
        cancel: impl FnMut(&mut Cx<'_>) -> Result<(), NodeError> + Send + 'static,
    ) {
        self.nodes[node].canceled = true;
        self.script(node, |script| script.cancel = Box::new(cancel));
    }

    /// Lets what `node` sends interrupt the graph.
    pub(crate) fn interrupted_by(&mut self, node: usize) {
        self.interrupt = Some((node, self.out(node)));
    }

    fn script(&mut self, node: usize, change: impl FnOnce(&mut Scripted)) {
        let Some(ParamValue::Int(index)) = self.nodes[node].params.get("script") else { panic!() };
        let mut scripts = SCRIPTS.lock().unwrap();
        change(scripts[usize::try_from(*index).unwrap()].as_mut().unwrap());
    }

    pub(crate) fn edge(&mut self, from: usize, to: usize) {
        self.edge_with(from, to, block(4));
    }

    pub(crate) fn edge_with(&mut self, from: usize, to: usize, policy: EdgePolicy) {
        let ends = ((from, self.out(from)), (to, self.input(to)));
        self.edges.push(Edge::new(ends.0, ends.1, policy));
    }

    pub(crate) fn checked(self) -> CheckedGraph {
        let Self { nodes, edges, interrupt } = self;
        CheckedGraph { name: "test".to_owned(), nodes, edges, interrupt, ..CheckedGraph::default() }
    }

    pub(crate) fn run(self, options: RunOptions) -> Result<Report, RunError> {
        run(&self.checked(), &OpenCx::default(), options)
    }
}

pub(crate) fn ms(ms: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_millis(ms)
}

pub(crate) fn block(queue: usize) -> EdgePolicy {
    EdgePolicy { on_full: OnFull::Block, queue, max_age: None }
}

/// Something that is waited for, once.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub(crate) fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    pub(crate) fn wait(&self) {
        let open = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(open, |open| !*open).unwrap());
    }
}

/// Synchronizer counters of the input `to`, such as `join.side`.
pub(crate) fn join_counts(report: &Report, to: &str) -> JoinCounts {
    report.edges.iter().find(|edge| edge.to == to).unwrap().join.unwrap()
}

/// Calls of the synchronized node on the virtual clock, on one thread and on many, which must give the same.
pub(crate) fn run_joined(build: impl Fn(&mut Graph) -> Seen<Joined>) -> (Vec<Joined>, Report) {
    let once = |threads, heavy: bool| {
        let mut graph = Graph::default();
        let seen = build(&mut graph);
        if heavy {
            graph.all_heavy();
        }
        let clock = ClockKind::Virtual;
        let report = graph.run(RunOptions { threads, clock, ..RunOptions::default() }).unwrap();
        let seen = seen.lock().unwrap().clone();
        (seen, report)
    };
    let (single, report) = once(Threads::Single, false);
    for heavy in [false, true] {
        let (many, other) = once(Threads::Auto, heavy);
        assert_eq!(many, single);
        let joins = |report: &Report| report.edges.iter().map(|edge| edge.join).collect::<Vec<_>>();
        assert_eq!(joins(&other), joins(&report));
    }
    (single, report)
}
