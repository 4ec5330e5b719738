//! Takes the packets of a run for a recording, and counts them.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc::{SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
};

use afferent_engine::Observer;
use afferent_graph::{AnyPayload, Codec, Packet, Timestamp};
use afferent_spec::{CheckedGraph, CheckedNode};
use mcap::{McapError, records::Metadata};
use serde::Serialize;

use crate::{NewFile, files, lock, reason, writer::Writer};

/// What is recorded, and how.
#[derive(Debug, Clone)]
pub struct RecordOptions {
    /// Outputs, as `node.output`, or nodes for all of theirs; empty for everything that can be
    /// recorded.
    pub streams: Vec<String>,
    /// How many packets may wait to be written; of more, the new ones are counted and not written.
    pub queue: usize,
    /// How many bytes of bulk data, such as images, may wait. A packet that finds nothing waiting
    /// may be larger.
    pub queue_bytes: usize,
    /// Largest size of the file, in bytes; it ends with the last packet that fits, and what comes
    /// later is counted and not written.
    pub max_bytes: Option<u64>,
    /// The time that the session is said to begin at, in nanoseconds since 1970; now when absent.
    pub begin_unix_ns: Option<u64>,
    /// Files that go with the recording, in YAML or JSON, such as the graph: name and content.
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
            begin_unix_ns: None,
            attachments,
        }
    }
}

/// Why nothing can be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The file cannot be made or written.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// The graph has no such output.
    #[error("there is no output {name:?} to record; the outputs: {known}")]
    UnknownStream {
        /// As it was asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// The payload type has no codec.
    #[error("output {name} cannot be recorded: {ty} does not say how it is written")]
    NotRecorded {
        /// The output.
        name: String,
        /// Its payload type.
        ty: String,
    },
    /// The system has no thread for it.
    #[error("cannot start the thread that records: {0}")]
    Thread(io::Error),
}

/// Records a run: give it to [`RunOptions::observers`], and call [`Recorder::finish`] at the end.
///
/// [`RunOptions::observers`]: afferent_engine::RunOptions::observers
pub struct Recorder {
    /// By place of the stream.
    outputs: Vec<Output>,
    /// Until the run begins.
    head: Mutex<Option<Head>>,
    counts: Arc<[Counts]>,
    waiting: Arc<Waiting>,
    /// Outputs whose type cannot be written.
    skipped: Vec<String>,
    /// While the run lasts.
    queue: Mutex<Option<SyncSender<Job>>>,
    writer: Mutex<Option<JoinHandle<Result<(), McapError>>>>,
    path: PathBuf,
    /// Packets that may wait, and the one that is written.
    holds: usize,
}

/// What stands before the packets, and where.
pub(crate) struct Head {
    pub(crate) file: NewFile,
    pub(crate) hashes: Metadata,
    pub(crate) options: RecordOptions,
}

#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) written: AtomicU64,
    pub(crate) dropped: AtomicU64,
}

/// Bulk data that waits to be written.
pub(crate) struct Waiting {
    pub(crate) bytes: AtomicUsize,
    most: usize,
}

/// A packet to write: the place of its stream, and when it was sent.
pub(crate) struct Job {
    pub(crate) stream: usize,
    pub(crate) now: Timestamp,
    pub(crate) packet: Packet,
    /// [`AnyPayload::bulk_bytes`].
    pub(crate) bytes: usize,
}

/// What was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecordReport {
    /// The file.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// In the order of the graph.
    pub streams: Vec<StreamRecord>,
    /// Outputs whose payload types cannot be recorded.
    pub skipped: Vec<String>,
    /// Why writing stopped early, such as a full disk.
    pub error: Option<String>,
}

/// What was recorded of one output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StreamRecord {
    /// As `node.output`.
    pub output: String,
    /// Packets in the file.
    pub written: u64,
    /// Packets that are not, because too many waited or the file could not be written.
    pub dropped: u64,
}

impl RecordReport {
    /// Packets in the file.
    pub fn written(&self) -> u64 {
        self.streams.iter().map(|stream| stream.written).sum()
    }

    /// Packets that are missing in it.
    pub fn dropped(&self) -> u64 {
        self.streams.iter().map(|stream| stream.dropped).sum()
    }
}

impl Recorder {
    /// Makes the file `path`, with the folders above it. What it held is there until the run begins,
    /// which fails where it cannot be written.
    ///
    /// # Errors
    /// Every [`RecordError`] but [`RecordError::Thread`].
    pub fn create(
        path: &Path,
        graph: &CheckedGraph,
        options: &RecordOptions,
    ) -> Result<Arc<Self>, RecordError> {
        let (outputs, skipped) = choose(graph, &options.streams)?;
        let file = NewFile::open(path).map_err(|error| {
            let reason = format!("it cannot be made: {error}");
            RecordError::File { path: path.to_owned(), reason }
        })?;
        let hashes = Metadata { name: files::METADATA.to_owned(), metadata: files::hashes(graph) };
        let waiting = Waiting { bytes: AtomicUsize::new(0), most: options.queue_bytes };
        Ok(Arc::new(Self {
            counts: outputs.iter().map(|_| Counts::default()).collect(),
            outputs,
            head: Mutex::new(Some(Head { file, hashes, options: options.clone() })),
            waiting: Arc::new(waiting),
            skipped,
            queue: Mutex::default(),
            writer: Mutex::default(),
            path: path.to_owned(),
            holds: options.queue.max(1).saturating_add(1),
        }))
    }

    /// Writes what stands before the packets and starts the thread that writes these.
    fn start(&self, head: Head) -> Result<(), RecordError> {
        let (queue, jobs) = sync_channel(head.options.queue.max(1));
        let (counts, waiting) = (self.counts.clone(), self.waiting.clone());
        let writer = Writer::new(head, &self.outputs, counts, waiting).map_err(|error| {
            RecordError::File { path: self.path.clone(), reason: reason(&error) }
        })?;
        let writer = thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || writer.run(&jobs))
            .map_err(RecordError::Thread)?;
        *lock(&self.queue) = Some(queue);
        *lock(&self.writer) = Some(writer);
        Ok(())
    }

    /// The place of a stream among those that are recorded.
    fn stream(&self, node: &str, port: &str) -> Option<usize> {
        self.outputs.iter().position(|output| output.node == node && *output.port == *port)
    }

    /// Writes what waits and ends the file. Later packets are counted as dropped.
    pub fn finish(&self) -> RecordReport {
        drop(lock(&self.queue).take());
        let writer = lock(&self.writer).take();
        let error = match writer.map(JoinHandle::join) {
            None | Some(Ok(Ok(()))) => None,
            Some(Ok(Err(error))) => Some(reason(&error)),
            Some(Err(_)) => Some("the thread that records panicked".to_owned()),
        };
        let streams = self.outputs.iter().zip(self.counts.iter());
        let streams = streams.map(|(Output { node, port, .. }, counts)| StreamRecord {
            output: format!("{node}.{port}"),
            written: counts.written.load(Ordering::Relaxed),
            dropped: counts.dropped.load(Ordering::Relaxed),
        });
        RecordReport {
            path: self.path.clone(),
            bytes: self.path.metadata().map_or(0, |metadata| metadata.len()),
            streams: streams.collect(),
            skipped: self.skipped.clone(),
            error,
        }
    }
}

impl Waiting {
    /// Whether so many more bytes may wait. Who asks holds the queue, so only less can wait then.
    fn has_room(&self, bytes: usize) -> bool {
        let waiting = self.bytes.load(Ordering::Relaxed);
        waiting == 0 || bytes == 0 || waiting.saturating_add(bytes) <= self.most
    }
}

impl Observer for Recorder {
    fn begin(&self) -> Result<(), String> {
        let head = lock(&self.head).take();
        head.map_or(Ok(()), |head| self.start(head)).map_err(|error| error.to_string())
    }

    fn holds(&self, node: &str, port: &str) -> usize {
        if self.stream(node, port).is_some() { self.holds } else { 0 }
    }

    fn sent(&self, node: &str, port: &str, now: Timestamp, packet: &Packet) {
        let Some(stream) = self.stream(node, port) else { return };
        // Writing it is no part of its way through the graph, nor is a clone.
        let packet = packet.clone();
        let bytes = packet.payload().map_or(0, AnyPayload::bulk_bytes);
        let queue = lock(&self.queue);
        let queue = queue.as_ref().filter(|_| self.waiting.has_room(bytes));
        let queued = queue.is_some_and(|queue| {
            self.waiting.bytes.fetch_add(bytes, Ordering::Relaxed);
            let sent = queue.try_send(Job { stream, now, packet, bytes }).is_ok();
            if !sent {
                self.waiting.bytes.fetch_sub(bytes, Ordering::Relaxed);
            }
            sent
        });
        if !queued {
            self.counts[stream].dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// An output that is recorded.
pub(crate) struct Output {
    pub(crate) node: String,
    pub(crate) port: Arc<str>,
    pub(crate) codec: Codec,
}

/// The outputs of `graph` that `wanted` names, and those that nobody named and that cannot be
/// recorded.
fn choose(
    graph: &CheckedGraph,
    wanted: &[String],
) -> Result<(Vec<Output>, Vec<String>), RecordError> {
    let outputs = graph.nodes.iter().flat_map(|node| {
        node.def
            .outputs
            .iter()
            .map(move |port| (node, port, format!("{}.{}", node.name, port.name)))
    });
    let outputs: Vec<_> = outputs.collect();
    for name in wanted {
        let known = |node: &CheckedNode, output: &str| output == name || node.name == *name;
        if !outputs.iter().any(|(node, _, output)| known(node, output)) {
            let known = outputs.iter().map(|(.., output)| output.as_str());
            let known = known.collect::<Vec<_>>().join(", ");
            return Err(RecordError::UnknownStream { name: name.clone(), known });
        }
    }
    let (mut chosen, mut skipped) = (Vec::new(), Vec::new());
    for (node, port, output) in outputs {
        let named = wanted.contains(&output);
        if !wanted.is_empty() && !named && !wanted.contains(&node.name) {
            continue;
        }
        match &port.codec {
            Some(codec) => {
                let (port, codec) = (port.name.clone(), codec.clone());
                chosen.push(Output { node: node.name.clone(), port, codec });
            }
            None if named => {
                return Err(RecordError::NotRecorded { name: output, ty: port.ty.to_string() });
            }
            None => skipped.push(output),
        }
    }
    Ok((chosen, skipped))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulk_data_waits_up_to_its_limit() {
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
