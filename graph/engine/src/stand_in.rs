//! What runs in the place of a node.

use std::{fmt, sync::Arc};

use afferent_graph::{DynNode, NodeError, OpenCx};

/// Makes what runs in the place of a node, such as a recording in that of a microphone.
#[derive(Clone)]
pub struct StandIn(Arc<Open>);

type Open = dyn Fn(&OpenCx) -> Result<Box<dyn DynNode>, NodeError> + Send + Sync;

impl StandIn {
    /// A stand-in that `open` makes, each time that the node is opened.
    pub fn new(
        open: impl Fn(&OpenCx) -> Result<Box<dyn DynNode>, NodeError> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(open))
    }

    pub(crate) fn open(&self, cx: &OpenCx) -> Result<Box<dyn DynNode>, NodeError> {
        (self.0)(cx)
    }
}

impl fmt::Debug for StandIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StandIn")
    }
}
