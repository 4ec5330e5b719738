//! Observer that records every packet of a run.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use afferent_engine::Observer;
use afferent_graph::{AnyPayload, Codec, Packet, Timestamp};

use crate::{stage::Stage, state::Event};

/// Reports the packets of a run to its [`Stage`].
pub(crate) struct Witness {
    stage: Arc<Stage>,
    /// Output names and streams of each node.
    outputs: HashMap<String, Vec<(Arc<str>, usize)>>,
    /// Stream of the output that interrupts the graph.
    interrupting: Option<usize>,
}

impl Witness {
    pub(crate) fn new(
        stage: Arc<Stage>,
        outputs: HashMap<String, Vec<(Arc<str>, usize)>>,
        interrupting: Option<usize>,
    ) -> Self {
        Self { stage, outputs, interrupting }
    }
}

impl Observer for Witness {
    fn sent(&self, node: &str, port: &str, now: Timestamp, packet: &Packet) {
        let outputs = self.outputs.get(node).into_iter().flatten();
        let Some((_, stream)) = outputs.into_iter().find(|(name, _)| **name == *port) else {
            return;
        };
        let (header, value) = (&packet.header, packet.payload());
        let info = &self.stage.script.streams[*stream];
        let fields = if info.is_bulk && !info.is_looked_for {
            Vec::new()
        } else {
            value.map(AnyPayload::fields).unwrap_or_default()
        };
        let (number, at) = (header.sequence, header.at);
        let hash = value.map_or(0, |value| hash(value, info.codec));
        self.stage.take(Event { now, stream: *stream, number, at, hash, fields }, packet);
        if self.interrupting == Some(*stream) {
            self.stage.note_interrupt(now);
        }
    }
}

/// Hash of a value as `codec` encodes it, or of its fields if that is not possible.
fn hash(value: &dyn AnyPayload, codec: Option<Codec>) -> u64 {
    let (mut hasher, mut bytes) = (DefaultHasher::new(), Vec::new());
    match codec.map(|codec| codec.encode(value, &mut bytes)) {
        Some(Ok(())) => bytes.hash(&mut hasher),
        _ => format!("{:?}", value.fields()).hash(&mut hasher),
    }
    hasher.finish()
}
