//! Hashes the streams of a run, and compares them with a recording.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use afferent_engine::Observer;
use afferent_graph::{Codec, Packet, Timestamp};
use afferent_spec::CheckedGraph;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::{Recording, ReplayError, calls::Recorded, files::hex, lock};

/// Hashes every output of a run and compares it packet by packet with a recording.
///
/// Pass it to [`RunOptions::observers`] and call [`Compare::verdicts`] at the end. Timestamps and
/// values are compared, but not the time at which a packet was sent.
///
/// [`RunOptions::observers`]: afferent_engine::RunOptions::observers
pub struct Compare {
    streams: Vec<Stream>,
}

struct Stream {
    node: String,
    port: Arc<str>,
    codec: Codec,
    /// Hashes of the recorded packets, or `None` if the stream was not recorded.
    expected: Option<Vec<[u8; 32]>>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    sent: StreamHash,
    difference: Option<Difference>,
}

/// Hash of the packets of a stream.
#[derive(Default)]
pub(crate) struct StreamHash {
    packets: u64,
    hash: Sha256,
    bytes: Vec<u8>,
}

impl StreamHash {
    /// Hash of a timestamp and a value.
    pub(crate) fn of(at: Timestamp, bytes: &[u8]) -> [u8; 32] {
        Sha256::new().chain_update(at.0.to_le_bytes()).chain_update(bytes).finalize().into()
    }

    /// Adds a packet; returns its hash.
    pub(crate) fn add(&mut self, codec: Codec, packet: &Packet) -> [u8; 32] {
        self.bytes.clear();
        let encoded =
            packet.payload().map(|value| codec.encode_uncompressed(value, &mut self.bytes));
        // A payload of the wrong type differs from every recorded value.
        let own = match encoded {
            Some(Ok(())) => Self::of(packet.header.at, &self.bytes),
            _ => [0; 32],
        };
        self.hash.update(own);
        self.packets += 1;
        own
    }

    /// Number of packets.
    pub(crate) fn packets(&self) -> u64 {
        self.packets
    }

    /// Hash of all packets, in hexadecimal.
    pub(crate) fn hex(&self) -> String {
        hex(&self.hash.clone().finalize())
    }
}

/// First difference between a run and a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Index of the packet in its stream, from zero.
    pub packet: u64,
    /// Timestamp of the packet, or `None` if the run sent fewer packets.
    pub at: Option<Timestamp>,
}

/// Result of the comparison of one output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StreamVerdict {
    /// Output as `node.output`.
    pub output: String,
    /// Number of packets in this run.
    pub packets: u64,
    /// SHA-256 of the timestamps and values, in hexadecimal.
    pub hash: String,
    /// Number of recorded packets, or `None` if the stream was not recorded.
    pub recorded: Option<u64>,
    /// First packet that differs or that one side lacks.
    pub difference: Option<Difference>,
    /// Reason why the stream was not compared; its packets are those of the recording.
    pub skipped: Option<Skipped>,
}

/// Reason why a stream was not compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Skipped {
    /// Sources are not executed.
    Source,
    /// Nodes with effects are not executed.
    Effects,
    /// An input of the node was not recorded.
    InputNotRecorded,
    /// The node repeats its last results after an error, which the engine does.
    DegradesToLast,
    /// The recorder dropped calls or packets, so the state of the node is unknown.
    Incomplete,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Source => "not repeated: a source",
            Self::Effects => "not repeated: has effects beyond the graph",
            Self::InputNotRecorded => "not repeated: an input was not recorded",
            Self::DegradesToLast => "not repeated: has `degrade: last` and failed",
            Self::Incomplete => "cannot be compared: calls or packets are missing in the recording",
        })
    }
}

impl StreamVerdict {
    /// True if the stream was recorded and the run sent the same packets.
    pub fn is_equal(&self) -> bool {
        self.recorded == Some(self.packets) && self.difference.is_none()
    }
}

impl Compare {
    /// Creates an observer for every output of `graph` with a codec, and compares with `recording`
    /// where it has the stream.
    ///
    /// # Errors
    /// [`ReplayError::File`].
    pub fn new(
        graph: &CheckedGraph,
        recording: Option<&Recording>,
    ) -> Result<Arc<Self>, ReplayError> {
        let outputs = graph.nodes.iter().flat_map(|node| {
            let coded =
                node.def.outputs.iter().filter_map(|port| Some((port.name.clone(), port.codec?)));
            coded.map(|(port, codec)| (node.name.clone(), port, codec))
        });
        let mut streams: Vec<_> = outputs
            .map(|(node, port, codec)| Stream {
                expected: recording.and_then(|all| all.stream(&node, &port)).map(|_| Vec::new()),
                node,
                port,
                codec,
                seen: Mutex::default(),
            })
            .collect();
        if let Some(recording) = recording {
            recording.for_each(|message| {
                let Recorded::Packet { node, output, at, bytes, .. } = message else { return };
                let fits = |stream: &&mut Stream| stream.node == node && *stream.port == *output;
                if let Some(Stream { expected: Some(expected), codec, .. }) =
                    streams.iter_mut().find(fits)
                {
                    // The hash of a damaged message matches no value.
                    let value = codec.uncompressed(bytes);
                    expected.push(StreamHash::of(at, value.as_deref().unwrap_or(bytes)));
                }
            })?;
        }
        Ok(Arc::new(Self { streams }))
    }

    /// Verdicts for every output, in graph order.
    pub fn verdicts(&self) -> Vec<StreamVerdict> {
        let verdict = |stream: &Stream| {
            let seen = lock(&stream.seen);
            let recorded = stream.expected.as_ref().map(|expected| expected.len() as u64);
            let packets = seen.sent.packets();
            let missing = recorded.filter(|recorded| *recorded > packets);
            let missing = missing.map(|_| Difference { packet: packets, at: None });
            StreamVerdict {
                output: format!("{}.{}", stream.node, stream.port),
                packets,
                hash: seen.sent.hex(),
                recorded,
                difference: seen.difference.or(missing),
                skipped: None,
            }
        };
        self.streams.iter().map(verdict).collect()
    }
}

impl Observer for Compare {
    fn sent(&self, node: &str, port: &str, _: Timestamp, packet: &Packet) {
        let fits = |stream: &&Stream| stream.node == node && *stream.port == *port;
        let Some(stream) = self.streams.iter().find(fits) else { return };
        let mut seen = lock(&stream.seen);
        let number = seen.sent.packets();
        let own = seen.sent.add(stream.codec, packet);
        let expected = stream
            .expected
            .as_ref()
            .map(|expected| usize::try_from(number).ok().and_then(|index| expected.get(index)));
        if expected.is_some_and(|expected| expected != Some(&own)) && seen.difference.is_none() {
            let at = Some(packet.header.at);
            seen.difference = Some(Difference { packet: number, at });
        }
    }
}
