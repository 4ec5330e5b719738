//! Replaces the sources of a graph with a recording.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufReader, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use afferent_engine::RunError;
use afferent_graph::{
    Codec, Cx, DynNode, Header, NodeDef, NodeError, NodeSpec, Packet, PortId, SessionStart,
    Timestamp,
};
use afferent_spec::{CheckedGraph, OnError};
use mcap::{Channel, McapError, Message, io::MessageReader, sans_io::LinearReaderOptions};
use serde::Serialize;

use crate::{
    calls::{self, Recorded},
    files, reason,
};

/// Maximum size of a record in bytes. No supported value is larger.
const MAX_RECORD: usize = 1 << 30;

/// Errors that prevent a replay.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The file cannot be read.
    #[error("{}: {reason}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Reason of the failure.
        reason: String,
    },
    /// The file holds no stream of a recording.
    #[error("{}: the file has no streams recorded by Afferent", path.display())]
    Empty {
        /// Path of the file.
        path: PathBuf,
    },
    /// An output of a replaced node is not in the recording.
    #[error(
        "node {node} is not in the recording: {output} was not recorded; recorded streams are {known}"
    )]
    Missing {
        /// Name of the node.
        node: String,
        /// Name of the output.
        output: String,
        /// Streams of the recording.
        known: String,
    },
    /// The calls belong to another graph.
    #[error(
        "{}: the recorded graph had other nodes or edges: check the recording with the graph file \
         that it was made with, which it contains", path.display()
    )]
    OtherGraph {
        /// Path of the file.
        path: PathBuf,
    },
    /// A node cannot be opened.
    #[error(transparent)]
    Open(#[from] RunError),
    /// The message type of a stream differs from that of the output.
    #[error("stream {stream} holds {recorded}, but the output of the graph has type {sent}")]
    Mismatch {
        /// Stream as `node.output`.
        stream: String,
        /// Message type of the recording.
        recorded: String,
        /// Message type of the output.
        sent: String,
    },
}

/// A recording: an MCAP file written by a [`Recorder`].
///
/// [`Recorder`]: crate::Recorder
#[derive(Debug, Clone)]
pub struct Recording {
    path: PathBuf,
    streams: Vec<RecordedStream>,
    /// [`calls::graph_shape`] of the recorded graph, if the calls were recorded.
    calls: Option<String>,
    start: Option<SessionStart>,
    /// Error at the end of the file, if it was truncated.
    cut: Option<String>,
}

/// A stream of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecordedStream {
    /// Node that sent the stream.
    pub node: String,
    /// Output of the node.
    pub output: String,
    /// Message type, such as `afferent_msgs/msg/AudioBlock`.
    pub message: String,
    /// Number of packets.
    pub packets: u64,
    /// Session time at which the last packet was sent; zero if there is none.
    pub last: Timestamp,
}

impl Recording {
    /// Scans the file `path`. A truncated file is read up to the truncation. An output that sent no
    /// packet has a stream, too.
    ///
    /// # Errors
    /// [`ReplayError::File`] and [`ReplayError::Empty`].
    pub fn open(path: &Path) -> Result<Self, ReplayError> {
        let (mut streams, mut cut) = (BTreeMap::new(), None);
        let mut messages = messages(path)?;
        for message in &mut messages {
            match message {
                Ok(message) => {
                    let sent = on_session(&message.channel, message.log_time);
                    let (Some(found), Some(sent)) = (stream(&message.channel), sent) else {
                        continue;
                    };
                    let key = (found.node.clone(), found.output.clone());
                    let stream = streams.entry(key).or_insert(found);
                    stream.packets += 1;
                    stream.last = stream.last.max(sent);
                }
                Err(error) => cut = Some(error),
            }
        }
        let channels = || (0..=u16::MAX).filter_map(|id| messages.get_channel(id));
        let calls = channels().find(|channel| channel.topic == calls::CHANNEL);
        let calls =
            calls.map(|found| found.metadata.get(calls::SHAPE).cloned().unwrap_or_default());
        let start =
            channels().find_map(|channel| Some(SessionStart { unix_ns: begin_ns(&channel)? }));
        for found in channels().filter_map(|channel| stream(&channel)) {
            streams.entry((found.node.clone(), found.output.clone())).or_insert(found);
        }
        let cut = cut.map(|error| match error {
            McapError::BadMagic => "it is not an MCAP file".to_owned(),
            error => reason(&error),
        });
        if streams.is_empty() {
            let path = path.to_owned();
            return Err(match cut {
                Some(reason) => ReplayError::File { path, reason },
                None => ReplayError::Empty { path },
            });
        }
        Ok(Self {
            path: path.to_owned(),
            streams: streams.into_values().collect(),
            calls,
            start,
            cut,
        })
    }

    /// True if the file `path` begins like a recording.
    pub fn is_recording(path: &Path) -> bool {
        let mut magic = [0; mcap::MAGIC.len()];
        let read = File::open(path).and_then(|mut file| file.read_exact(&mut magic));
        read.is_ok() && magic == mcap::MAGIC
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The streams, sorted by name.
    pub fn streams(&self) -> &[RecordedStream] {
        &self.streams
    }

    /// Error at the end of the file, or `None` if it is complete.
    pub fn cut(&self) -> Option<&str> {
        self.cut.as_deref()
    }

    /// The stream of an output.
    pub fn stream(&self, node: &str, output: &str) -> Option<&RecordedStream> {
        self.streams.iter().find(|stream| stream.node == node && stream.output == output)
    }

    /// Node parameters of `graph`, as `node.parameter`, that name a file whose content changed
    /// since the recording, such as a model. Excludes files that sources read or sinks write.
    pub fn changed_files(&self, graph: &CheckedGraph) -> Vec<String> {
        let Ok(recorded) = files::recorded(&self.path) else { return Vec::new() };
        let present = files::hashes(graph).into_iter();
        let changed = present
            .filter(|(name, hash)| recorded.get(name).is_some_and(|recorded| recorded != hash));
        changed.map(|(name, _)| name).collect()
    }

    /// Replaces the sources of `graph` with the recording, and unless `executes` also the nodes with
    /// effects, such as tools and loudspeakers: each sends the recorded packets at the recorded
    /// times. Returns the names of the replaced nodes.
    ///
    /// A missing stream is an error only if the output is connected.
    ///
    /// # Errors
    /// [`ReplayError::Missing`] and [`ReplayError::Mismatch`].
    pub fn replace_nodes(
        &self,
        graph: &mut CheckedGraph,
        executes: bool,
    ) -> Result<Vec<String>, ReplayError> {
        let mut replaced = Vec::new();
        for node_index in 0..graph.nodes.len() {
            let node = &graph.nodes[node_index];
            if !node.def.is_source() && (executes || !node.has_effects()) {
                continue;
            }
            let mut codecs = Vec::new();
            for port in &node.def.outputs {
                let is_used = graph.edges.iter().any(|edge| edge.from == (node_index, port.id));
                match (self.stream(&node.name, &port.name), &port.codec) {
                    (Some(stream), Some(codec)) if stream.message == codec.message() => {
                        codecs.push((port.name.clone(), port.id, *codec));
                    }
                    (Some(stream), codec) => {
                        let sent = codec.as_ref().map_or(&*port.ty, |codec| codec.message());
                        return Err(ReplayError::Mismatch {
                            stream: format!("{}.{}", node.name, port.name),
                            recorded: stream.message.clone(),
                            sent: sent.to_owned(),
                        });
                    }
                    (None, _) if is_used => {
                        let known = self.streams.iter();
                        let known =
                            known.map(|stream| format!("{}.{}", stream.node, stream.output));
                        return Err(ReplayError::Missing {
                            node: node.name.clone(),
                            output: port.name.to_string(),
                            known: known.collect::<Vec<_>>().join(", "),
                        });
                    }
                    (None, _) => {}
                }
            }
            replaced.push(node.name.clone());
            let (path, name) = (self.path.clone(), node.name.clone());
            // Restarting cannot repair a faulty file.
            graph.nodes[node_index].on_error = OnError::Stop;
            // Besides its packets, a node with inputs waits for the recorded times.
            let spec = NodeSpec { timed: true, ..(**graph.nodes[node_index].def.spec()).clone() };
            let has_inputs = !spec.is_source();
            let replayed = NodeDef::from_fn(spec, move |_| {
                let source = Replay::open(&path, name.clone(), has_inputs, codecs.clone());
                let source = source.map_err(|error| NodeError::File {
                    path: path.clone(),
                    reason: error.to_string(),
                })?;
                Ok(Box::new(source))
            });
            graph.nodes[node_index].def = replayed;
        }
        Ok(replaced)
    }

    /// Calls `visit` with every packet of the output `output` of `node`, in the order of the file, until
    /// it returns false.
    ///
    /// # Errors
    /// [`ReplayError::File`] if the file cannot be read, or a packet is not what `codec` writes.
    pub fn read(
        &self,
        (node, output): (&str, &str),
        codec: Codec,
        mut visit: impl FnMut(Packet) -> bool,
    ) -> Result<(), ReplayError> {
        for message in messages(&self.path)? {
            // The truncation was reported when the file was opened.
            let Ok(message) = message else { break };
            let is_wanted =
                origin(&message).is_some_and(|found| (found.0, found.1) == (node, output));
            let Some(at) = captured(&message).filter(|_| is_wanted) else { continue };
            let header = Header { at, sequence: message.sequence.into(), ..Header::default() };
            let packet = codec.decode(&message.data, header).map_err(|reason| {
                let reason = format!("stream {node}.{output}: {reason}");
                ReplayError::File { path: self.path.clone(), reason }
            })?;
            if !visit(packet) {
                break;
            }
        }
        Ok(())
    }

    /// Session start, for nodes that use the civil time; `None` in a file of another program.
    pub fn start(&self) -> Option<SessionStart> {
        self.start
    }

    /// True if the calls of the run were recorded, because it ran on the real clock.
    pub fn has_calls(&self) -> bool {
        self.calls.is_some()
    }

    /// Checks that `graph` is the one whose calls were recorded.
    ///
    /// # Errors
    /// [`ReplayError::OtherGraph`].
    pub(crate) fn check_graph(&self, graph: &CheckedGraph) -> Result<(), ReplayError> {
        match &self.calls {
            Some(shape) if *shape != calls::graph_shape(graph) => {
                Err(ReplayError::OtherGraph { path: self.path.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Calls a function for every packet and call in file order.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(Recorded<'_>)) -> Result<(), ReplayError> {
        for message in messages(&self.path)? {
            let Ok(message) = message else { break };
            if message.channel.topic == calls::CHANNEL {
                let record = calls::read(&message.data)
                    .map_err(|reason| ReplayError::File { path: self.path.clone(), reason })?;
                visit(Recorded::Call(record));
            } else if let (Some((node, output, _)), Some(at)) =
                (origin(&message), captured(&message))
            {
                let (sequence, bytes) = (message.sequence, &*message.data);
                visit(Recorded::Packet { node, output, sequence, at, bytes });
            }
        }
        Ok(())
    }
}

pub(crate) type Messages = MessageReader<BufReader<File>>;

pub(crate) fn messages(path: &Path) -> Result<Messages, ReplayError> {
    let file = File::open(path)
        .map_err(|error| ReplayError::File { path: path.to_owned(), reason: error.to_string() })?;
    let options = LinearReaderOptions::default()
        .with_record_length_limit(MAX_RECORD)
        .with_validate_chunk_crcs(true);
    Ok(MessageReader::new_with_options(BufReader::new(file), options))
}

/// Stream of a channel, with a packet count of zero, or `None` for a channel of another program.
fn stream(channel: &Channel<'_>) -> Option<RecordedStream> {
    let named = |name: &str| channel.metadata.get(name).cloned();
    begin_ns(channel)?;
    Some(RecordedStream {
        node: named("node")?,
        output: named("output")?,
        message: channel.schema.as_ref().map_or_else(String::new, |schema| schema.name.clone()),
        packets: 0,
        last: Timestamp::ZERO,
    })
}

/// Node, output, and session time at which the packet was sent, or `None` for a message of another
/// program.
fn origin<'m>(message: &'m Message<'_>) -> Option<(&'m str, &'m str, Timestamp)> {
    let metadata = &message.channel.metadata;
    let sent = on_session(&message.channel, message.log_time)?;
    Some((metadata.get("node")?, metadata.get("output")?, sent))
}

/// Timestamp of the packet.
fn captured(message: &Message<'_>) -> Option<Timestamp> {
    on_session(&message.channel, message.publish_time)
}

fn on_session(channel: &Channel<'_>, unix_ns: u64) -> Option<Timestamp> {
    let since = i128::from(unix_ns) - i128::from(begin_ns(channel)?);
    Some(Timestamp(i64::try_from(since).ok()?))
}

fn begin_ns(channel: &Channel<'_>) -> Option<u64> {
    channel.metadata.get("begin_ns")?.parse().ok()
}

/// Node that sends the recorded packets of another one.
struct Replay {
    node: String,
    /// True if packets arrive, which are ignored.
    has_inputs: bool,
    codecs: Vec<(Arc<str>, PortId, Codec)>,
    messages: Messages,
    next: Option<Next>,
}

/// The next packet: send time, output, timestamp, and value.
struct Next {
    sent: Timestamp,
    name: Arc<str>,
    port: PortId,
    codec: Codec,
    at: Timestamp,
    bytes: Vec<u8>,
}

impl Replay {
    fn open(
        path: &Path,
        node: String,
        has_inputs: bool,
        codecs: Vec<(Arc<str>, PortId, Codec)>,
    ) -> Result<Self, ReplayError> {
        let mut replay = Self { node, has_inputs, codecs, messages: messages(path)?, next: None };
        replay.advance();
        Ok(replay)
    }

    fn advance(&mut self) {
        self.next = None;
        // A read error ends the stream. `Recording::open` has already reported it.
        while let Some(Ok(message)) = self.messages.next() {
            let Some((node, output, sent)) = origin(&message) else { continue };
            let codec =
                self.codecs.iter().find(|(name, ..)| node == self.node && **name == *output);
            if let (Some((name, port, codec)), Some(at)) = (codec, captured(&message)) {
                let (name, port, codec) = (name.clone(), *port, *codec);
                let bytes = message.data.into_owned();
                self.next = Some(Next { sent, name, port, codec, at, bytes });
                return;
            }
        }
    }
}

impl Replay {
    /// Sends the next packet if it is due; returns true if it did.
    fn send_due(&mut self, cx: &mut Cx<'_>) -> Result<bool, NodeError> {
        let due = self.next.take_if(|next| next.sent <= cx.now());
        let Some(Next { name, port, codec, at, bytes, .. }) = due else { return Ok(false) };
        let packet = codec.decode(&bytes, Header { at, ..Header::default() });
        let packet = packet
            .map_err(|reason| NodeError::InvalidInput { port: name.to_string().into(), reason })?;
        cx.send_packet(port, packet);
        self.advance();
        Ok(true)
    }

    fn wake(&self, cx: &mut Cx<'_>) {
        if let Some(next) = &self.next {
            cx.wake_at(next.sent);
        }
    }
}

impl DynNode for Replay {
    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if self.has_inputs {
            // A node with inputs sends only after it has received a packet.
            while self.send_due(cx)? {}
            self.wake(cx);
            return Ok(());
        }
        self.send_due(cx)?;
        match &self.next {
            Some(next) => cx.resume_at(next.sent),
            None => cx.end(),
        }
        Ok(())
    }

    fn cancel(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        // The interrupt has canceled the next call.
        self.wake(cx);
        Ok(())
    }
}
