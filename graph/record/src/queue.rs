//! Options of a recording, and items that the recorder passes to its writer.

use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use afferent_graph::{Codec, Packet, SessionStart, Timestamp};
use mcap::records::Metadata;

use crate::NewFile;

/// Options of a [`Recorder`](crate::Recorder).
#[derive(Debug, Clone)]
pub struct RecordOptions {
    /// Outputs as `node.output`, or nodes for all of their outputs. Empty for everything that can
    /// be recorded.
    pub streams: Vec<String>,
    /// Maximum number of packets that wait to be written. Packets beyond it are dropped and
    /// counted.
    pub queue: usize,
    /// Maximum number of bytes of bulk data, such as images, that wait to be written. A larger
    /// packet is accepted only if the queue holds no bulk data.
    pub queue_bytes: usize,
    /// Maximum size of the file in bytes. Packets that do not fit, and all later ones, are dropped
    /// and counted.
    pub max_bytes: Option<u64>,
    /// Start of the session; `None` for the current time.
    pub start: Option<SessionStart>,
    /// Also record the calls, so that a run on the real clock can be checked. Ignored if `streams`
    /// excludes outputs.
    pub calls: bool,
    /// Name and content of files to attach to the recording, such as the graph, in YAML or JSON.
    pub attachments: Vec<(String, Vec<u8>)>,
}

impl Default for RecordOptions {
    fn default() -> Self {
        let (streams, attachments) = (Vec::new(), Vec::new());
        Self {
            streams,
            queue: 1024,
            queue_bytes: 256 << 20,
            max_bytes: None,
            start: None,
            calls: false,
            attachments,
        }
    }
}

/// File, and the records that precede the packets.
pub(crate) struct Head {
    pub(crate) file: NewFile,
    pub(crate) hashes: Metadata,
    /// Identifies the graph if the calls are recorded, as [`graph_shape`](crate::calls::graph_shape).
    pub(crate) calls: Option<String>,
    pub(crate) options: RecordOptions,
}

/// Packets of one stream that were written and dropped.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) written: AtomicU64,
    pub(crate) dropped: AtomicU64,
}

/// Amount of bulk data that waits to be written.
pub(crate) struct Waiting {
    pub(crate) bytes: AtomicUsize,
    pub(crate) most: usize,
}

impl Waiting {
    /// True if `bytes` more may wait. The caller holds the queue lock, so the amount can only
    /// shrink meanwhile.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let waiting = self.bytes.load(Ordering::Relaxed);
        waiting == 0 || bytes == 0 || waiting.saturating_add(bytes) <= self.most
    }
}

/// A packet to write, with the index of its stream and the time at which it was sent.
pub(crate) struct Job {
    pub(crate) stream: usize,
    pub(crate) now: Timestamp,
    pub(crate) packet: Packet,
    /// [`AnyPayload::bulk_bytes`](afferent_graph::AnyPayload::bulk_bytes).
    pub(crate) bytes: usize,
}

/// A recorded output.
pub(crate) struct Output {
    pub(crate) node: String,
    pub(crate) port: Arc<str>,
    pub(crate) codec: Codec,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulk_data_is_queued_up_to_its_limit() {
        let check = |waiting, bytes, expected| {
            let waiting = Waiting { bytes: AtomicUsize::new(waiting), most: 100 };
            assert_eq!(waiting.has_room(bytes), expected);
        };
        check(0, 1000, true);
        check(40, 60, true);
        check(40, 61, false);
        check(100, 0, true);
        check(100, usize::MAX, false);
    }
}
