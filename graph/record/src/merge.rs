//! One recording of the recordings of several processes.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::BufWriter,
    path::{Path, PathBuf},
};

use mcap::{
    Channel, McapError, Message, Summary, WriteOptions,
    read::attachment,
    records::{MessageHeader, Metadata},
};

use crate::{
    NewFile, Recording, ReplayError, files, reason,
    replay::{Messages, messages},
};

/// Errors of [`merge`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// A recording cannot be read.
    #[error(transparent)]
    Read(#[from] ReplayError),
    /// The recordings are of different runs.
    #[error(
        "{} and {} are of different runs: merge the recordings that the processes of one run wrote",
        first.display(), other.display()
    )]
    OtherRun {
        /// A recording.
        first: PathBuf,
        /// A recording of another run.
        other: PathBuf,
    },
    /// Two recordings hold the same stream.
    #[error("{} and {} both have packets of {stream}: each recording may be named once", first.display(), other.display())]
    Twice {
        /// Output as `node/output`.
        stream: String,
        /// A recording.
        first: PathBuf,
        /// Another one.
        other: PathBuf,
    },
    /// The output cannot be written.
    #[error("{}: {reason}", path.display())]
    Write {
        /// Path of the output.
        path: PathBuf,
        /// Error of the system.
        reason: String,
    },
}

/// Result of [`merge`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeReport {
    /// Packets and calls in the output.
    pub messages: u64,
    /// Streams with packets.
    pub streams: usize,
    /// Recordings that end early, with the reason.
    pub cut: Vec<(PathBuf, String)>,
}

/// Writes the packets and calls of `inputs`, recordings of the processes of one run, to `output` in
/// the order of their times. Attachments and hashes of files come from the first one.
///
/// # Errors
/// Every [`MergeError`]. The output is not touched unless all inputs can be read and belong
/// together.
pub fn merge(inputs: &[PathBuf], output: &Path) -> Result<MergeReport, MergeError> {
    let mut readers = Vec::new();
    let mut senders: BTreeMap<String, PathBuf> = BTreeMap::new();
    let (mut start, mut cut) = (None, Vec::new());
    for path in inputs {
        let recording = Recording::open(path)?;
        let (first, own) = start.get_or_insert((path.clone(), recording.start()));
        if *own != recording.start() {
            return Err(MergeError::OtherRun { first: first.clone(), other: path.clone() });
        }
        for stream in recording.streams().iter().filter(|stream| stream.packets > 0) {
            let name = format!("{}/{}", stream.node, stream.output);
            if let Some(first) = senders.insert(name.clone(), path.clone()) {
                return Err(MergeError::Twice { stream: name, first, other: path.clone() });
            }
        }
        cut.extend(recording.cut().map(|reason| (path.clone(), reason.to_owned())));
        readers.push(Reader { messages: messages(path)?, next: None });
    }
    let written = write(inputs, &mut readers, output)
        .map_err(|error| MergeError::Write { path: output.to_owned(), reason: reason(&error) })?;
    Ok(MergeReport { messages: written, streams: senders.len(), cut })
}

/// Messages of one recording.
struct Reader {
    messages: Messages,
    next: Option<Message<'static>>,
}

impl Reader {
    /// Reads the next message; `None` at the end of the file, which may be truncated.
    fn advance(&mut self) {
        self.next = self.messages.next().and_then(Result::ok);
    }
}

fn write(inputs: &[PathBuf], readers: &mut [Reader], output: &Path) -> Result<u64, McapError> {
    let file = NewFile::open(output)?.begin()?;
    let library = concat!("afferent ", env!("CARGO_PKG_VERSION"));
    let format = WriteOptions::new().compression(None).chunk_size(Some(1 << 20));
    let mut out = format.profile("ros2").library(library).create(BufWriter::new(file))?;
    if let Some(first) = inputs.first() {
        let bytes = fs::read(first)?;
        let summary = Summary::read(&bytes)?;
        for index in summary.iter().flat_map(|summary| &summary.attachment_indexes) {
            out.attach(&attachment(&bytes, index)?)?;
        }
        let hashes = files::recorded(first)?;
        out.write_metadata(&Metadata { name: files::METADATA.to_owned(), metadata: hashes })?;
    }
    readers.iter_mut().for_each(Reader::advance);
    let mut channels = Channels::default();
    // Outputs that sent nothing have a stream, too.
    for reader in &*readers {
        for channel in (0..=u16::MAX).filter_map(|id| reader.messages.get_channel(id)) {
            channels.add(&mut out, &channel)?;
        }
    }
    let mut written = 0;
    // At equal times, messages of the earlier recording come first.
    while let Some(reader) = readers
        .iter_mut()
        .filter(|reader| reader.next.is_some())
        .min_by_key(|reader| reader.next.as_ref().map(|message| message.log_time))
    {
        let Some(message) = reader.next.take() else { break };
        reader.advance();
        let header = MessageHeader {
            channel_id: channels.add(&mut out, &message.channel)?,
            sequence: message.sequence,
            log_time: message.log_time,
            publish_time: message.publish_time,
        };
        out.write_to_known_channel(&header, &message.data)?;
        written += 1;
    }
    out.finish()?;
    Ok(written)
}

/// Channels of the output, by their topic.
#[derive(Default)]
struct Channels(BTreeMap<String, u16>);

impl Channels {
    /// Number of the channel in the output, which gets it if it has none of this topic.
    fn add(
        &mut self,
        out: &mut mcap::Writer<BufWriter<File>>,
        channel: &Channel<'_>,
    ) -> Result<u16, McapError> {
        if let Some(id) = self.0.get(&channel.topic) {
            return Ok(*id);
        }
        let schema = match &channel.schema {
            Some(schema) => out.add_schema(&schema.name, &schema.encoding, &schema.data)?,
            None => 0,
        };
        let Channel { topic, message_encoding, metadata, .. } = channel;
        let id = out.add_channel(schema, topic, message_encoding, metadata)?;
        self.0.insert(topic.clone(), id);
        Ok(id)
    }
}
