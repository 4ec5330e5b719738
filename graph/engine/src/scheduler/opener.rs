//! Opens a node, and reopens it after a failure.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use afferent_graph::{DynNode, NodeDef, OpenCx, ParamValues, PortId};

use crate::RunError;
use afferent_spec::CheckedGraph;

/// Definition, parameters and context of a node of a graph, to open it repeatedly.
pub struct Opener {
    def: NodeDef,
    params: ParamValues,
    /// Context with the name of the node.
    cx: OpenCx,
}

impl Opener {
    /// Opener of the node with this index. It finds its services in `cx`.
    pub fn new(graph: &CheckedGraph, node_index: usize, cx: &OpenCx) -> Self {
        let node = &graph.nodes[node_index];
        let inputs = graph.edges.iter().filter(|edge| edge.to.0 == node_index);
        let name = |id: PortId| Some(node.def.inputs.get(id.index())?.name.clone());
        let connected = inputs.filter_map(|edge| name(edge.to.1)).collect();
        let cx = OpenCx { name: node.name.clone(), connected, ..cx.clone() };
        Self { def: node.def.clone(), params: node.params.clone(), cx }
    }

    /// Opens the node.
    ///
    /// # Errors
    /// [`RunError::Open`] and [`RunError::OpenPanic`].
    pub fn open(&self) -> Result<Box<dyn DynNode>, RunError> {
        let name = || self.cx.name.clone();
        let open = || self.def.factory().open(&self.params, &self.cx);
        match catch_unwind(AssertUnwindSafe(open)) {
            Ok(Ok(open)) => Ok(open),
            Ok(Err(error)) => Err(RunError::Open { node: name(), error }),
            Err(panic) => {
                let message = panic_text(&*panic).to_owned();
                Err(RunError::OpenPanic { node: name(), message })
            }
        }
    }
}

/// Message of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
