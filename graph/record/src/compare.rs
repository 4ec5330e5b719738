//! Hashes the streams of a run, and compares them with a recording.

use std::sync::{Arc, Mutex};

use afferent_engine::Observer;
use afferent_graph::{Codec, Packet, Timestamp};
use afferent_spec::CheckedGraph;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::{Recording, ReplayError, files::hex, lock};

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
    packets: u64,
    hash: Sha256,
    bytes: Vec<u8>,
    difference: Option<Difference>,
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
            recording.for_each(|node, output, at, bytes| {
                let fits = |stream: &&mut Stream| stream.node == node && *stream.port == *output;
                if let Some(Stream { expected: Some(expected), codec, .. }) =
                    streams.iter_mut().find(fits)
                {
                    // The hash of a damaged message matches no value.
                    let value = codec.uncompressed(bytes);
                    expected.push(hash(at, value.as_deref().unwrap_or(bytes)));
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
            let missing = recorded.filter(|recorded| *recorded > seen.packets);
            let missing = missing.map(|_| Difference { packet: seen.packets, at: None });
            StreamVerdict {
                output: format!("{}.{}", stream.node, stream.port),
                packets: seen.packets,
                hash: hex(&seen.hash.clone().finalize()),
                recorded,
                difference: seen.difference.or(missing),
            }
        };
        self.streams.iter().map(verdict).collect()
    }
}

/// Hash of a timestamp and a value.
fn hash(at: Timestamp, bytes: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(at.0.to_le_bytes()).chain_update(bytes).finalize().into()
}

impl Observer for Compare {
    fn sent(&self, node: &str, port: &str, _: Timestamp, packet: &Packet) {
        let fits = |stream: &&Stream| stream.node == node && *stream.port == *port;
        let Some(stream) = self.streams.iter().find(fits) else { return };
        let mut seen = lock(&stream.seen);
        let Seen { packets, hash: all, bytes, difference } = &mut *seen;
        bytes.clear();
        let encoded = packet.payload().map(|value| stream.codec.encode_uncompressed(value, bytes));
        let at = packet.header.at;
        // A payload of the wrong type differs from every recorded value.
        let own = if let Some(Ok(())) = encoded { hash(at, bytes) } else { [0; 32] };
        all.update(own);
        let expected = stream
            .expected
            .as_ref()
            .map(|expected| usize::try_from(*packets).ok().and_then(|index| expected.get(index)));
        if expected.is_some_and(|expected| expected != Some(&own)) && difference.is_none() {
            *difference = Some(Difference { packet: *packets, at: Some(at) });
        }
        *packets += 1;
    }
}
