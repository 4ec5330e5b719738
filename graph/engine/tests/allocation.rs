//! Once its pools are filled, a running graph allocates nothing.
#![expect(unsafe_code, reason = "a global allocator that counts")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    sync::atomic::{AtomicU64, Ordering},
};

use afferent_engine::{
    CheckedGraph, CheckedNode, ClockKind, Edge, EdgePolicy, RunOptions, Schedule, Threads, run,
};
use afferent_graph::{
    Cx, In, Node, NodeDef, NodeError, OnFull, OpenCx, Out, Payload, Port, Timestamp,
};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Whether this thread has called a node: others wait for the end, and allocate when they
    /// begin to.
    static RUNS_NODES: Cell<bool> = const { Cell::new(false) };
}

// SAFETY: every call is handed on to the system's allocator as it came.
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

#[derive(Clone, Default)]
struct Block(Vec<u64>);

impl Payload for Block {
    const TYPE: &'static str = "test/Block";
}

const IN: In<Block> = In::new("in");
const OUT: Out<Block> = Out::new("out");

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
fn check(pass: NodeDef, words: &[&str], clock: ClockKind, threads: Threads) {
    let node = |place: usize| {
        let def = if place == 0 { NodeDef::of::<Source>() } else { pass };
        let thread = words.get(place % words.len().max(1)).map(|word| (*word).to_owned());
        let schedule = Schedule { thread, ..Schedule::default() };
        CheckedNode { schedule, ..CheckedNode::new(place.to_string(), def) }
    };
    let policy = EdgePolicy { on_full: OnFull::Block, queue: 4, max_age: None };
    let edge = |to: usize| Edge::new((to - 1, "out"), (to, "in"), policy);
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

/// One test, because the count is of all threads that run nodes.
#[test]
fn a_chain_in_steady_state_allocates_nothing() {
    for pass in [NodeDef::of::<Pass<false>>(), NodeDef::of::<Pass<true>>()] {
        check(pass, &[], ClockKind::Real, Threads::Single);
        check(pass, &[], ClockKind::Virtual, Threads::Auto);
        // Paced by the virtual clock, there is one packet under way: the pools are full at once.
        check(pass, &["a", "b"], ClockKind::Virtual, Threads::Auto);
    }
}
