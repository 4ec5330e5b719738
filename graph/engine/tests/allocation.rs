//! Once its pools are filled, a running graph allocates nothing.
#![expect(unsafe_code, reason = "a global allocator that counts")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use afferent_engine::{ClockKind, Observer, RunOptions, Threads, run};
use afferent_graph::{
    Cx, In, Node, NodeDef, NodeError, NodeSpec, OnFull, OpenCx, Out, Packet, Payload, Port, PortId,
    Timestamp,
};
use afferent_spec::{CheckedGraph, CheckedNode, Edge, EdgePolicy, Schedule, SyncPolicy};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// True if this thread has called a node. Other threads wait for the end of the run, and allocate
    /// when they start to wait.
    static RUNS_NODES: Cell<bool> = const { Cell::new(false) };
}

// SAFETY: every call is forwarded to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if RUNS_NODES.try_with(Cell::get).unwrap_or(false) {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(Default)]
struct Block(Vec<u64>);

impl Clone for Block {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }

    /// A copy in the memory of a value that came back.
    fn clone_from(&mut self, other: &Self) {
        self.0.clone_from(&other.0);
    }
}

impl Payload for Block {
    const TYPE: &'static str = "test/Block";
}

const FIRST: PortId = PortId::at(0);
const IN: In<Block> = In::at(0, "in");
const OUT: Out<Block> = Out::at(0, "out");
const SIDE: In<Block> = In::at(1, "side");
const EXTRA: In<Block> = In::at(2, "extra");
const SINK: &[Port] =
    &[IN.port().many(), SIDE.port().optional(), EXTRA.port().optional(), OUT.port()];

/// Sends blocks of 64 numbers, and counts allocations between the first tenth and the end.
struct Source(i64);

const CALLS: i64 = 10_000;
static STEADY: AtomicU64 = AtomicU64::new(0);

impl Node for Source {
    type Params = ();
    const NAME: &'static str = "source";
    const SUMMARY: &'static str = "";
    const PORTS: &'static [Port] = &[OUT.port()];
    const LATENCY: &'static str = "none";

    fn open((): (), _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self(0))
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        RUNS_NODES.set(true);
        let mut block = cx.loan(OUT);
        block.0.resize(64, 1);
        cx.send_at(OUT, Timestamp(self.0), block);
        self.0 += 1;
        cx.resume_at(Timestamp(self.0));
        let allocations = ALLOCATIONS.load(Ordering::Relaxed);
        match self.0 {
            n if n == CALLS / 10 => STEADY.store(allocations, Ordering::Relaxed),
            CALLS => {
                STEADY.store(allocations - STEADY.load(Ordering::Relaxed), Ordering::Relaxed);
                cx.end();
            }
            _ => {}
        }
        Ok(())
    }
}

/// Changes a block in place, or with `COPY` sends a new one.
struct Pass<const COPY: bool>;

impl<const COPY: bool> Node for Pass<COPY> {
    type Params = ();
    const NAME: &'static str = "pass";
    const SUMMARY: &'static str = "";
    const PORTS: &'static [Port] = &[IN.port(), OUT.port()];
    const LATENCY: &'static str = "none";

    fn open((): (), _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self)
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        RUNS_NODES.set(true);
        if COPY {
            let mut copy = cx.loan(OUT);
            copy.0.clear();
            copy.0.extend_from_slice(cx.get(IN).map_or(&[], |block| &block.0));
            cx.send(OUT, copy);
        } else if let Some(mut block) = cx.take(IN) {
            block.0[0] += 1;
            cx.send(OUT, block);
        }
        Ok(())
    }
}

/// A source and ten nodes; `threads` words, one per node in turn.
fn check(pass: &NodeDef, words: &[&str], clock: ClockKind, threads: Threads) {
    let node = |node_index: usize| {
        let def = if node_index == 0 { NodeDef::of::<Source>() } else { pass.clone() };
        let thread = words.get(node_index % words.len().max(1)).map(|word| (*word).to_owned());
        let schedule = Schedule { thread, ..Schedule::default() };
        CheckedNode { schedule, ..CheckedNode::new(node_index.to_string(), def) }
    };
    let policy = EdgePolicy { on_full: OnFull::Block, queue: 4, max_age: None };
    let edge = |to: usize| Edge::new((to - 1, FIRST), (to, FIRST), policy);
    let graph = CheckedGraph {
        name: "chain".to_owned(),
        nodes: (0..11).map(node).collect(),
        edges: (1..11).map(edge).collect(),
        ..CheckedGraph::default()
    };
    let options = RunOptions { clock, threads, ..RunOptions::default() };
    let report = run(&graph, &OpenCx::default(), options).expect("nothing can fail");
    assert_eq!(report.nodes[10].packets_in, CALLS as u64);
    assert_eq!(STEADY.load(Ordering::Relaxed), 0, "allocations with {words:?}, {clock:?}");
}

/// Holds the last packets, as a recorder does that writes them a little later.
struct Holder(Mutex<VecDeque<Packet>>);

const HELD: usize = 40;

impl Observer for Holder {
    fn sent(&self, _: &str, _: &str, _: Timestamp, packet: &Packet) {
        let mut held = self.0.lock().expect("no thread panics");
        if held.len() == HELD {
            held.pop_front();
        }
        held.push_back(packet.clone());
    }

    fn holds(&self, _: &str, _: &str) -> usize {
        HELD
    }
}

/// A source with three ways to a sink, where they are joined or not, and an observer that holds
/// packets.
fn check_branches(pass: &NodeDef, joins: bool, heavy: bool) {
    let sink = NodeDef::from_fn(NodeSpec::new("sink", SINK), |_| Ok(Box::new(Pass::<true>)));
    let defs = [NodeDef::of::<Source>(), pass.clone(), pass.clone(), pass.clone(), sink];
    let node = |(node_index, def): (usize, NodeDef)| {
        let thread = heavy.then(|| format!("t{}", node_index % 2));
        let schedule = Schedule { thread, ..Schedule::default() };
        CheckedNode { schedule, ..CheckedNode::new(node_index.to_string(), def) }
    };
    let policy = EdgePolicy { on_full: OnFull::Block, queue: 4, max_age: None };
    let out = |to: usize| Edge::new((0, FIRST), (to, FIRST), policy);
    let into = |from: usize| {
        let (port, sync) = match from {
            1 => (FIRST, None),
            2 if joins => (PortId::at(1), Some(SyncPolicy::Exact)),
            _ if joins => (PortId::at(2), Some(SyncPolicy::Latest { max_age: None })),
            _ => (FIRST, None),
        };
        Edge { sync, ..Edge::new((from, FIRST), (4, port), policy) }
    };
    let graph = CheckedGraph {
        name: "branches".to_owned(),
        nodes: defs.into_iter().enumerate().map(node).collect(),
        edges: (1..4).map(out).chain((1..4).map(into)).collect(),
        ..CheckedGraph::default()
    };
    let held = Mutex::new(VecDeque::with_capacity(HELD));
    let observers: Vec<Arc<dyn Observer>> = vec![Arc::new(Holder(held))];
    let clock = ClockKind::Virtual;
    let options = RunOptions { clock, observers, ..RunOptions::default() };
    let report = run(&graph, &OpenCx::default(), options).expect("nothing can fail");
    assert_eq!(report.nodes[4].packets_in, CALLS as u64 * if joins { 1 } else { 3 });
    let mut most = 0;
    for pool in &report.pools {
        assert!(pool.allocated <= pool.values, "{pool:?}");
        most += 2 * pool.values as u64;
    }
    // Between threads more packets than ever may be under way at any time, whose values are made then.
    let steady = STEADY.load(Ordering::Relaxed);
    assert!(steady <= if heavy { most } else { 0 }, "{steady}: joins {joins}, heavy {heavy}");
    assert!(most < CALLS as u64 / 2, "an allocation for each packet would be more");
}

/// One test, because the count is of all threads that run nodes.
#[test]
fn graphs_in_steady_state_allocate_nothing() {
    for pass in &[NodeDef::of::<Pass<false>>(), NodeDef::of::<Pass<true>>()] {
        check(pass, &[], ClockKind::Real, Threads::Single);
        check(pass, &[], ClockKind::Virtual, Threads::Auto);
        // Paced by the virtual clock, there is one packet under way: the pools are full at once.
        check(pass, &["a", "b"], ClockKind::Virtual, Threads::Auto);
        for (joins, heavy) in [(false, false), (false, true), (true, false), (true, true)] {
            check_branches(pass, joins, heavy);
        }
    }
}
