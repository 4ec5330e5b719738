//! Calls of a run: what a repetition of each call needs besides the packets.

use afferent_engine::{CallCause, CallSpan};
use afferent_graph::{AnyPayload, Field, Header, Packet, Payload, RecordCodec, Timestamp};
use afferent_spec::CheckedGraph;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::files::hex;

/// Name of the channel.
pub(crate) const CHANNEL: &str = "afferent/calls";
/// Metadata of the channel: [`graph_shape`] of the recorded graph.
pub(crate) const SHAPE: &str = "graph";

/// Hash of the nodes and edges of a graph, which calls refer to by index.
pub(crate) fn graph_shape(graph: &CheckedGraph) -> String {
    let mut hash = Sha256::new();
    let nodes = graph.nodes.iter().map(|node| format!("{} {}", node.name, node.def.name));
    for part in nodes.chain(graph.edges.iter().map(|edge| graph.edge_name(edge))) {
        hash.update(part);
        hash.update([0]);
    }
    hex(&hash.finalize())
}

/// A message of a recording.
pub(crate) enum Recorded<'m> {
    Packet { node: &'m str, output: &'m str, sequence: u32, at: Timestamp, bytes: &'m [u8] },
    Call(CallRecord),
}

/// One call of a node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct CallRecord {
    /// Index of the node in the graph.
    pub(crate) node: usize,
    /// Number of the call among the recorded calls of the node, from zero. Gaps show calls that
    /// were not recorded.
    pub(crate) number: u64,
    pub(crate) cause: CallCause,
    /// Session time at the start, in nanoseconds.
    pub(crate) now: i64,
    /// Real time at the start, in nanoseconds since the start of the session.
    pub(crate) real: u64,
    /// Header that the packets of the call inherit.
    pub(crate) origin: Origin,
    /// Packets of the secondary inputs: index of the input, and sequence numbers and timestamps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) joined: Vec<(usize, Vec<(u64, i64)>)>,
    /// True if an interrupt made the call obsolete before its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) canceled: bool,
}

/// Part of a [`Header`] that packets inherit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Origin {
    at: i64,
    epoch: u32,
    trace: u64,
    entered_ns: u64,
    model_ns: u64,
}

impl CallRecord {
    /// Record of `span`, a call of the node with this index in the graph.
    pub(crate) fn new(node: usize, number: u64, span: &CallSpan<'_>) -> Self {
        let Header { at, epoch, trace, entered_ns, model_ns, .. } = *span.origin;
        let joined = span.joined.iter().filter(|joined| !joined.packets.is_empty());
        let joined = joined.map(|joined| {
            let headers = joined.packets.iter().map(|packet| packet.header);
            let packets = headers.map(|header| (header.sequence, header.at.0));
            (joined.port.index(), packets.collect())
        });
        Self {
            node,
            number,
            cause: span.cause,
            now: span.now.0,
            real: span.real_ns.0,
            origin: Origin { at: at.0, epoch, trace, entered_ns, model_ns },
            joined: joined.collect(),
            canceled: span.canceled,
        }
    }

    /// Header that the packets of the call inherit.
    pub(crate) fn header(&self) -> Header {
        let Origin { at, epoch, trace, entered_ns, model_ns } = self.origin;
        Header { at: Timestamp(at), epoch, trace, entered_ns, model_ns, ..Header::default() }
    }
}

impl Payload for CallRecord {
    const TYPE: &'static str = "afferent/Call";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&CallCodec);

    fn fields(&self) -> Vec<(&'static str, Field)> {
        Vec::new()
    }
}

/// Calls as JSON in a string of a ROS 2 message.
pub(crate) struct CallCodec;

/// Encapsulation header of little-endian CDR.
const CDR_LE: [u8; 4] = [0, 1, 0, 0];

impl RecordCodec for CallCodec {
    fn message(&self) -> &'static str {
        "afferent_msgs/msg/Call"
    }

    fn schema(&self) -> &'static str {
        "# Call of a node\nstring json"
    }

    fn encode(&self, value: &dyn AnyPayload, bytes: &mut Vec<u8>) -> Result<(), String> {
        let value: &dyn std::any::Any = value;
        let record: &CallRecord = value.downcast_ref().ok_or("the value is not a call")?;
        let json = serde_json::to_vec(record).map_err(|error| error.to_string())?;
        let len = u32::try_from(json.len() + 1).map_err(|error| error.to_string())?;
        bytes.extend(CDR_LE);
        bytes.extend(len.to_le_bytes());
        bytes.extend(json);
        bytes.push(0);
        Ok(())
    }

    fn decode(&self, bytes: &[u8], header: Header) -> Result<Packet, String> {
        Ok(Packet::new(read(bytes)?, header))
    }
}

/// Reads a message of the channel of calls.
pub(crate) fn read(bytes: &[u8]) -> Result<CallRecord, String> {
    let body = bytes.strip_prefix(&CDR_LE).ok_or("the call is not little-endian CDR")?;
    let json = body.get(4..body.len().saturating_sub(1)).ok_or("the call is truncated")?;
    serde_json::from_slice(json).map_err(|error| format!("the call is damaged: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_back() {
        let record = CallRecord {
            node: 3,
            number: 7,
            cause: CallCause::Packet { edge: 2, sequence: 1 << 40, restarts: 1 },
            now: -5,
            real: 6,
            origin: Origin { at: 1, epoch: 2, trace: u64::MAX, entered_ns: 4, model_ns: 5 },
            joined: vec![(1, vec![(8, 9), (10, -11)])],
            canceled: true,
        };
        for record in [record, CallRecord::default()] {
            let mut bytes = Vec::new();
            CallCodec.encode(&record, &mut bytes).unwrap();
            assert_eq!(read(&bytes).unwrap(), record);
            for len in 0..bytes.len() {
                assert!(read(&bytes[..len]).is_err(), "{len} bytes");
            }
        }
    }
}
