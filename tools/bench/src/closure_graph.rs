//! Graphs with closures as nodes.

use std::sync::{Mutex, PoisonError};

use afferent_engine::{RunOptions, Session};
use afferent_graph::{Cx, DynNode, NodeDef, NodeError, NodeSpec, OnFull, OpenCx, Port, PortId};
use afferent_spec::{CheckedGraph, CheckedNode, Edge, EdgePolicy, Schedule};
use anyhow::Result;

/// Builder of a graph.
#[derive(Default)]
pub(crate) struct ClosureGraph(pub(crate) CheckedGraph);

/// Node that calls `F`.
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

impl ClosureGraph {
    /// Adds a node on the thread named `thread`. Returns the node index.
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
            let closure = closure.lock().unwrap_or_else(PoisonError::into_inner).take();
            let opened_twice =
                || NodeError::Device { name: cx.name.clone(), reason: "opened twice".to_owned() };
            Ok(Box::new(closure.ok_or_else(opened_twice)?))
        };
        let def = NodeDef::from_fn(NodeSpec::new("closure", ports), open);
        self.0.nodes.push(CheckedNode {
            schedule: Schedule { thread: Some(thread.to_owned()), ..Schedule::default() },
            ..CheckedNode::new(name, def)
        });
        self.0.nodes.len() - 1
    }

    /// Connects an output to an input, each given as node index and port name.
    pub(crate) fn edge(
        &mut self,
        from: (usize, &'static str),
        to: (usize, &'static str),
        policy: EdgePolicy,
    ) -> &mut Edge {
        let input = self.0.nodes[to.0].def.input(to.1).expect("the input is declared");
        let output = self.output(from.0, from.1);
        self.0.edges.push_mut(Edge::new((from.0, output), (to.0, input), policy))
    }

    /// Port id of an output.
    pub(crate) fn output(&self, node: usize, name: &str) -> PortId {
        self.0.nodes[node].def.output(name).expect("the output is declared")
    }

    /// Starts the graph.
    pub(crate) fn start(&self, options: RunOptions) -> Result<Session> {
        Ok(Session::start(&self.0, &OpenCx::default(), options)?)
    }
}

/// Node definition that can be checked but not opened.
pub(crate) fn check_only(name: &str, ports: &[Port]) -> NodeDef {
    NodeDef::from_fn(NodeSpec::new(name, ports), |cx| {
        Err(NodeError::Device {
            name: cx.name.clone(),
            reason: "the node cannot be opened".to_owned(),
        })
    })
}

/// Edge policy without a maximum age.
pub(crate) fn policy(on_full: OnFull, queue: usize) -> EdgePolicy {
    EdgePolicy { on_full, queue, max_age: None }
}
