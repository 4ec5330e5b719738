//! Graphs whose nodes are closures.

use std::sync::{Mutex, PoisonError};

use afferent_engine::{
    CheckedGraph, CheckedNode, Edge, EdgePolicy, RunOptions, Schedule, Session, StandIn,
};
use afferent_graph::{Cx, DynNode, Node, NodeDef, NodeError, OnFull, OpenCx, Port};
use anyhow::Result;

/// A graph that is being made.
#[derive(Default)]
pub(crate) struct Scripted(pub(crate) CheckedGraph);

/// A node whose call is `F`.
struct Closure<F>(F);

impl<F: FnMut(&mut Cx<'_>) + Send> DynNode for Closure<F> {
    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        (self.0)(cx);
        Ok(())
    }

    fn finish(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        Ok(())
    }

    fn cancel(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        Ok(())
    }
}

/// What a contract is made of that says nothing but its ports.
struct Silent;

impl Node for Silent {
    type Params = ();
    const NAME: &'static str = "closure";
    const SUMMARY: &'static str = "Calls a closure.";
    const PORTS: &'static [Port] = &[];
    const LATENCY: &'static str = "none";

    fn open((): (), _: &OpenCx) -> Result<Self, NodeError> {
        Ok(Self)
    }

    fn process(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        Ok(())
    }
}

impl Scripted {
    /// Adds a node on the thread that `thread` names.
    pub(crate) fn node<F>(
        &mut self,
        name: &str,
        thread: &str,
        ports: &'static [Port],
        call: F,
    ) -> usize
    where
        F: FnMut(&mut Cx<'_>) + Send + 'static,
    {
        let closure = Mutex::new(Some(Closure(call)));
        let open = move |cx: &OpenCx| -> Result<Box<dyn DynNode>, NodeError> {
            let taken = closure.lock().unwrap_or_else(PoisonError::into_inner).take();
            let twice =
                || NodeError::Device { name: cx.name.clone(), reason: "opened twice".to_owned() };
            Ok(Box::new(taken.ok_or_else(twice)?))
        };
        let def = NodeDef { ports, ..NodeDef::of::<Silent>() };
        self.0.nodes.push(CheckedNode {
            stand_in: Some(StandIn::new(open)),
            schedule: Schedule { thread: Some(thread.to_owned()), ..Schedule::default() },
            ..CheckedNode::new(name, def)
        });
        self.0.nodes.len() - 1
    }

    /// Connects two ports.
    pub(crate) fn edge(
        &mut self,
        from: (usize, &'static str),
        to: (usize, &'static str),
        policy: EdgePolicy,
    ) {
        self.0.edges.push(Edge::new(from, to, policy));
    }

    /// Starts the graph.
    pub(crate) fn start(&self, options: RunOptions) -> Result<Session> {
        Ok(Session::start(&self.0, &OpenCx::default(), options)?)
    }
}

/// A contract that says nothing but a name and no ports.
pub(crate) fn silent() -> NodeDef {
    NodeDef::of::<Silent>()
}

/// The policy of an edge whose packets have no age.
pub(crate) fn policy(on_full: OnFull, queue: usize) -> EdgePolicy {
    EdgePolicy { on_full, queue, max_age: None }
}
