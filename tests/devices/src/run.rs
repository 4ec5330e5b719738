//! Graphs of a source and a node that collects what it sends.

use std::{
    marker::PhantomData,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use afferent_engine::{RunOptions, Session};
use afferent_graph::{
    Cx, In, Node, NodeDef, NodeError, NodeSpec, OnFull, OpenCx, Payload, Port, PortId, Service,
    Timestamp,
};
use afferent_spec::{CheckedGraph, CheckedNode, Edge, EdgePolicy};
use anyhow::{Result, ensure};

/// Part of a value that a test keeps.
pub(crate) trait Seen: Clone + Send + 'static {
    type Of: Payload;

    fn of(value: &Self::Of) -> Self;
}

/// A value with its timestamp, and when it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Arrived<S> {
    pub(crate) at: Timestamp,
    pub(crate) arrived: Instant,
    pub(crate) seen: S,
}

/// Values that arrived so far.
pub(crate) struct Collected<S>(Arc<Mutex<Vec<Arrived<S>>>>);

impl<S> Clone for Collected<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: Seen> Collected<S> {
    pub(crate) fn all(&self) -> Vec<Arrived<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl<S: Seen> Service for Collected<S> {
    const NAME: &'static str = "collected";
    const HINT: &'static str = "of this test";
}

struct Collect<S: Seen>(Collected<S>);

/// Input of the node that collects.
struct Input<T>(PhantomData<T>);

impl<T: Payload> Input<T> {
    const VALUES: In<T> = In::at(0, "values");
    const PORTS: &'static [Port] = &[Self::VALUES.port()];
}

impl<S: Seen> Node for Collect<S> {
    type Params = ();
    const NAME: &'static str = "collect";
    const SUMMARY: &'static str = "";
    const PORTS: &'static [Port] = Input::<S::Of>::PORTS;
    const LATENCY: &'static str = "none";

    fn open((): (), cx: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self(cx.services.need::<Collected<S>>()?.clone()))
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let at = cx.at();
        let Some(value) = cx.get(Input::<S::Of>::VALUES) else { return Ok(()) };
        let seen = Arrived { at, arrived: Instant::now(), seen: S::of(value) };
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
        Ok(())
    }
}

/// Starts the source `N` and collects what its only output sends.
pub(crate) fn start<N: Node, S: Seen>(params: N::Params) -> Result<(Session, Collected<S>)>
where
    N::Params: Send,
{
    let params = Mutex::new(Some(params));
    let open = move |cx: &OpenCx| {
        let params = params.lock().unwrap_or_else(PoisonError::into_inner).take();
        let params = params.ok_or_else(|| NodeError::Payload("opened twice".to_owned()))?;
        N::open(params, cx).map(|node| Box::new(node) as Box<_>)
    };
    let source = NodeDef::from_fn(NodeSpec::new(N::NAME, N::PORTS), open);
    let collected = Collected::<S>(Arc::default());
    let policy = EdgePolicy { on_full: OnFull::Block, queue: 8, max_age: None };
    let graph = CheckedGraph {
        name: N::NAME.to_owned(),
        nodes: vec![
            CheckedNode::new(N::NAME, source),
            CheckedNode::new("collect", NodeDef::of::<Collect<S>>()),
        ],
        edges: vec![Edge::new((0, PortId::at(0)), (1, PortId::at(0)), policy)],
        ..CheckedGraph::default()
    };
    let cx = OpenCx::with_service(collected.clone());
    let session = Session::start(&graph, &cx, RunOptions::default())?;
    Ok((session, collected))
}

/// Waits until `done`.
pub(crate) fn wait(limit: Duration, done: impl Fn() -> bool) -> Result<()> {
    let end = Instant::now() + limit;
    while !done() {
        ensure!(Instant::now() < end, "nothing in {limit:?}");
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
