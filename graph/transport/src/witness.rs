//! Tells the first process of packets at the outputs of the waterfall.

use std::sync::{Arc, Weak};

use afferent_engine::Observer;
use afferent_graph::{Packet, PortKind, Timestamp};

use crate::{Transport, control::Control};

/// Observer of a process other than the first one; see [`Transport::reached_by`].
pub struct Witness {
    transport: Weak<Transport>,
    /// Node and port of each output.
    outputs: Vec<(String, String)>,
}

impl Witness {
    /// Observer for the outputs of the waterfall of the graph of `transport`.
    pub fn new(transport: &Arc<Transport>) -> Arc<Self> {
        let graph = &transport.graph;
        let outputs = graph.waterfall.iter().map(|(node, port)| {
            let node = &graph.nodes[*node];
            (node.name.clone(), node.def.port_name(PortKind::Output, *port).into_owned())
        });
        Arc::new(Self { transport: Arc::downgrade(transport), outputs: outputs.collect() })
    }
}

impl Observer for Witness {
    fn sent(&self, node: &str, port: &str, now: Timestamp, packet: &Packet) {
        let output = self.outputs.iter().position(|(name, other)| name == node && other == port);
        let Some(output) = output else { return };
        let header = &packet.header;
        let (now, at) = (now.0, header.at.0);
        let (trace, model_ns) = (header.trace, header.model_ns);
        let message = Control::Reached { output, now, at, trace, model_ns };
        if let Some(transport) = self.transport.upgrade() {
            transport.send_figure(&message);
        }
    }
}
