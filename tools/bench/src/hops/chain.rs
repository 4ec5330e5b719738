//! The chain as a graph: a source, nodes that pass on, a sink.

use std::{thread, time::Duration};

use afferent_engine::{CheckedGraph, CheckedNode, Edge, EdgePolicy, RunOptions, run as run_graph};
use afferent_graph::{
    Cx, In, Node, NodeDef, NodeError, OnFull, OpenCx, Out, ParamValue, ParamValues, Payload, Port,
    Timestamp, params,
};
use anyhow::Result;

use crate::hops::{
    HOPS, NODES,
    measure::{self, Arrivals, Block, Figures, Load},
};

/// Packets before those that are measured, and after them, so that the source has not ended when
/// the last of those arrives: more than fit into all queues together.
const MARGIN: usize = 2 * HOPS * EdgePolicy::QUEUE;

/// How long the sink keeps the first packet, so that every queue has been full once and every
/// pool has all its memory; and how long the source then waits until they are empty.
const SETTLE: Duration = Duration::from_millis(200);

impl Payload for Block {
    const TYPE: &'static str = "bench/Block";
}

params! {
    /// What the source sends.
    pub struct SourceParams {
        /// Packets that are measured.
        pub packets: usize;
        /// Time between them; as fast as possible when absent.
        pub period: Option<Duration>;
    }
}

struct Source {
    load: Load,
    sent: usize,
    /// When the first packet that is measured leaves.
    start: Timestamp,
}

impl Source {
    const OUT: Out<Block> = Out::new("out");
}

impl Node for Source {
    type Params = SourceParams;
    const NAME: &'static str = "source";
    const SUMMARY: &'static str = "Sends blocks.";
    const PORTS: &'static [Port] = &[Self::OUT.port()];
    const LATENCY: &'static str = "none";

    fn open(params: SourceParams, _: &OpenCx) -> Result<Self, NodeError> {
        let SourceParams { packets, period } = params;
        Ok(Self { load: Load { packets, period }, sent: 0, start: Timestamp::ZERO })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Self { load, sent, .. } = *self;
        if sent == MARGIN && cx.now() < self.start {
            cx.resume_at(self.start);
            return Ok(());
        }
        if sent == MARGIN {
            self.start = cx.now();
            measure::begin();
        }
        let mut block = cx.loan(Self::OUT);
        let measured = MARGIN..MARGIN + load.packets;
        block.fill(sent, measured.contains(&sent) && load.period.is_some());
        cx.send_at(Self::OUT, cx.now(), block);
        self.sent += 1;
        if self.sent == MARGIN {
            self.start = cx.now() + 2 * SETTLE;
        } else if self.sent == measured.end + MARGIN {
            cx.end();
        } else if let Some(period) = load.period.filter(|_| measured.contains(&sent)) {
            let next = u32::try_from(self.sent - MARGIN).unwrap_or(u32::MAX);
            cx.resume_at(self.start + period * next);
        }
        Ok(())
    }
}

struct Pass {
    arrivals: Arrivals,
}

impl Pass {
    const IN: In<Block> = In::new("in");
    const OUT: Out<Block> = Out::new("out");
}

impl Node for Pass {
    type Params = ();
    const NAME: &'static str = "pass";
    const SUMMARY: &'static str = "Passes blocks on.";
    const PORTS: &'static [Port] = &[Self::IN.port(), Self::OUT.port()];
    const LATENCY: &'static str = "none";

    fn open((): (), _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self { arrivals: Arrivals::new() })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if let Some(mut block) = cx.take(Self::IN) {
            block.left = self.arrivals.count(block.left);
            cx.send(Self::OUT, block);
        }
        Ok(())
    }
}

struct Sink {
    arrivals: Arrivals,
    received: usize,
    packets: usize,
}

impl Sink {
    const IN: In<Block> = In::new("in");
}

impl Node for Sink {
    type Params = SourceParams;
    const NAME: &'static str = "sink";
    const SUMMARY: &'static str = "Takes blocks.";
    const PORTS: &'static [Port] = &[Self::IN.port()];
    const LATENCY: &'static str = "none";

    fn open(params: SourceParams, _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self { arrivals: Arrivals::new(), received: 0, packets: params.packets })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(block) = cx.get(Self::IN) else { return Ok(()) };
        self.arrivals.count(block.left);
        if self.received == 0 {
            thread::sleep(SETTLE);
        }
        self.received += 1;
        if self.received == MARGIN + self.packets {
            measure::end();
        }
        Ok(())
    }
}

/// Runs the chain, on one thread or on one for each node.
pub(super) fn run(load: Load, spread: bool) -> Result<Figures> {
    let mut params = ParamValues::new();
    let packets = i64::try_from(load.packets)?;
    params.insert("packets".to_owned(), ParamValue::Int(packets));
    if let Some(period) = load.period {
        params.insert("period".to_owned(), ParamValue::Duration(period));
    }
    let graph = graph(&params, spread);
    measure::collect(load, HOPS, || {
        let report = run_graph(&graph, &OpenCx::default(), RunOptions::default())?;
        Ok(report.edges.iter().map(|edge| edge.counts.dropped()).sum())
    })
}

fn graph(params: &ParamValues, spread: bool) -> CheckedGraph {
    let node = |at: usize| {
        let (def, params) = match at {
            0 => (NodeDef::of::<Source>(), params.clone()),
            HOPS => (NodeDef::of::<Sink>(), params.clone()),
            _ => (NodeDef::of::<Pass>(), ParamValues::new()),
        };
        let name = format!("{}{at}", def.name);
        let thread = Some(if spread { name.clone() } else { "one".to_owned() });
        CheckedNode { params, thread, ..CheckedNode::new(name, def) }
    };
    let policy = EdgePolicy { on_full: OnFull::Block, queue: EdgePolicy::QUEUE, max_age: None };
    let edge = |at: usize| Edge::new((at, "out"), (at + 1, "in"), policy);
    CheckedGraph {
        name: "hops".to_owned(),
        nodes: (0..NODES + 2).map(node).collect(),
        edges: (0..HOPS).map(edge).collect(),
        ..CheckedGraph::default()
    }
}
