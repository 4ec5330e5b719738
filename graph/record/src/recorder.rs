//! Queues the packets of a run for recording, and counts them.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc::{SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
};

use afferent_engine::{CallSpan, Observer};
use afferent_graph::{AnyPayload, Header, Packet, Timestamp};
use afferent_spec::{CheckedGraph, CheckedNode};
use mcap::{McapError, records::Metadata};
use serde::Serialize;

use crate::{
    NewFile,
    calls::{CallRecord, graph_shape},
    files, lock,
    queue::{Counts, Head, Job, Output, RecordOptions, Waiting},
    reason,
    writer::{Writer, is_full},
};

/// Errors that prevent a recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The file cannot be created or written.
    #[error("{}: {reason}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        reason: String,
    },
    /// The graph has no such output.
    #[error("there is no output {name:?} to record; the outputs are {known}")]
    UnknownStream {
        /// Requested output.
        name: String,
        /// Outputs of the graph.
        known: String,
    },
    /// The payload type has no codec.
    #[error("output {name} cannot be recorded: {ty} has no codec")]
    NotRecorded {
        /// Output as `node.output`.
        name: String,
        /// Payload type of the output.
        ty: String,
    },
    /// The writer thread cannot be started.
    #[error("cannot start the recorder thread: {0}")]
    Thread(io::Error),
}

/// Records a run. Pass it to [`RunOptions::observers`], and call [`Recorder::finish`] at the end.
///
/// [`RunOptions::observers`]: afferent_engine::RunOptions::observers
pub struct Recorder {
    /// Recorded outputs, by stream index; the calls have the index after them.
    outputs: Vec<Output>,
    /// Present until the run starts.
    head: Mutex<Option<Head>>,
    counts: Arc<[Counts]>,
    waiting: Arc<Waiting>,
    /// Number of recorded calls of each node whose calls are recorded, with its index in the graph.
    calls: HashMap<String, (usize, AtomicU64)>,
    /// Outputs whose payload type has no codec.
    skipped: Vec<String>,
    /// Present during the run.
    queue: Mutex<Option<SyncSender<Job>>>,
    writer: Mutex<Option<JoinHandle<Result<(), McapError>>>>,
    path: PathBuf,
    /// Maximum number of packets held: those in the queue and the one being written.
    holds: usize,
}

/// Result of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecordReport {
    /// Path of the file.
    pub path: PathBuf,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Recorded streams, in graph order.
    pub streams: Vec<StreamRecord>,
    /// Calls that are not in the recording, which cannot be checked from there on.
    pub dropped_calls: u64,
    /// Outputs whose payload types cannot be recorded.
    pub skipped: Vec<String>,
    /// True if the maximum size was reached.
    pub is_full: bool,
    /// Reason why writing stopped early, such as a full disk.
    pub error: Option<String>,
}

/// Packet counts of one recorded output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StreamRecord {
    /// Output as `node.output`.
    pub output: String,
    /// Packets written to the file.
    pub written: u64,
    /// Packets dropped because the queue was full or the file could not be written.
    pub dropped: u64,
}

impl RecordReport {
    /// Total number of packets written to the file.
    pub fn written(&self) -> u64 {
        self.streams.iter().map(|stream| stream.written).sum()
    }

    /// Total number of dropped packets.
    pub fn dropped(&self) -> u64 {
        self.streams.iter().map(|stream| stream.dropped).sum()
    }
}

impl Recorder {
    /// Creates the file `path` and its parent folders. Existing content is kept until the run
    /// starts. The start fails if the file cannot be written.
    ///
    /// # Errors
    /// Every [`RecordError`] except [`RecordError::Thread`].
    pub fn create(
        path: &Path,
        graph: &CheckedGraph,
        options: &RecordOptions,
    ) -> Result<Arc<Self>, RecordError> {
        let (outputs, skipped) = choose(graph, &options.streams)?;
        let shape = (options.calls && options.streams.is_empty()).then(|| graph_shape(graph));
        let calls = shape.as_ref().map(|_| repeatable(graph)).unwrap_or_default();
        let channels = outputs.len() + usize::from(shape.is_some());
        let file = NewFile::open(path).map_err(|error| {
            let reason = format!("the file cannot be created: {error}");
            RecordError::File { path: path.to_owned(), reason }
        })?;
        let hashes = Metadata { name: files::METADATA.to_owned(), metadata: files::hashes(graph) };
        let waiting = Waiting { bytes: AtomicUsize::new(0), most: options.queue_bytes };
        Ok(Arc::new(Self {
            counts: (0..channels).map(|_| Counts::default()).collect(),
            outputs,
            head: Mutex::new(Some(Head { file, hashes, calls: shape, options: options.clone() })),
            waiting: Arc::new(waiting),
            calls,
            skipped,
            queue: Mutex::default(),
            writer: Mutex::default(),
            path: path.to_owned(),
            holds: options.queue.max(1).saturating_add(1),
        }))
    }

    /// Writes the records that precede the packets, and starts the writer thread.
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

    /// Index of a stream among the recorded ones.
    fn stream(&self, node: &str, port: &str) -> Option<usize> {
        self.outputs.iter().position(|output| output.node == node && *output.port == *port)
    }

    /// Writes the queued packets and finishes the file. Later packets are counted as dropped.
    pub fn finish(&self) -> RecordReport {
        drop(lock(&self.queue).take());
        let writer = lock(&self.writer).take();
        let (is_full, error) = match writer.map(JoinHandle::join) {
            None | Some(Ok(Ok(()))) => (false, None),
            Some(Ok(Err(error))) if is_full(&error) => (true, None),
            Some(Ok(Err(error))) => (false, Some(reason(&error))),
            Some(Err(_)) => (false, Some("the recorder thread panicked".to_owned())),
        };
        let calls = self.counts.get(self.outputs.len());
        let dropped_calls = calls.map_or(0, |counts| counts.dropped.load(Ordering::Relaxed));
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
            dropped_calls,
            skipped: self.skipped.clone(),
            is_full,
            error,
        }
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
        if let Some(stream) = self.stream(node, port) {
            // Holding the packet must not copy its payload.
            self.queue(stream, now, packet.clone());
        }
    }

    fn called(&self, span: &CallSpan<'_>) {
        if let Some((node, count)) = self.calls.get(span.node) {
            // Only the thread of the node counts.
            let number = count.fetch_add(1, Ordering::Relaxed);
            let record = CallRecord::new(*node, number, span);
            let header = Header { at: span.now, ..Header::default() };
            self.queue(self.outputs.len(), span.now, Packet::new(record, header));
        }
    }
}

impl Recorder {
    /// Queues a packet for the writer, or counts it as dropped.
    fn queue(&self, stream: usize, now: Timestamp, packet: Packet) {
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

/// Nodes whose calls can be repeated: those with inputs and outputs that have no effects.
fn repeatable(graph: &CheckedGraph) -> HashMap<String, (usize, AtomicU64)> {
    let nodes = graph.nodes.iter().enumerate();
    let nodes = nodes.filter(|(_, node)| {
        let has_both = !node.def.is_source() && !node.def.outputs.is_empty();
        has_both && !node.has_effects()
    });
    nodes.map(|(index, node)| (node.name.clone(), (index, AtomicU64::new(0)))).collect()
}

/// Selects the outputs of `graph` to record by `wanted`. Also returns the outputs that were not
/// requested by name and have no codec.
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
                let (port, codec) = (port.name.clone(), *codec);
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
