//! Writer thread of a recording, which writes chunk by chunk.

use std::{
    fs::File,
    io::{self, BufWriter, ErrorKind},
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use afferent_graph::{Codec, SessionStart};
use mcap::{Attachment, McapError, WriteOptions, records::MessageHeader};

use crate::{
    calls::{self, CallCodec},
    queue::{Counts, Head, Job, Output, Waiting},
    reason,
};

/// Maximum time between flushes. A killed process loses at most this much of the recording.
const FLUSH_PERIOD: Duration = Duration::from_secs(1);
/// Packet bytes after which a chunk is closed.
const CHUNK_BYTES: u64 = 1 << 20;

// Upper bounds of the MCAP overhead, in bytes.
/// Per packet: record header, and entry in the chunk index.
const PACKET_HEAD: u64 = 48;
/// Per chunk: header, and index header for each channel.
const CHUNK_HEAD: (u64, u64) = (64, 16);
/// Per chunk in the summary at the end of the file, and additionally for each channel.
const CHUNK_ENTRY: (u64, u64) = (80, 10);
/// End of the file, and additionally for each channel. A copy of all channels is added to it.
const END: (u64, u64) = (512, 10);
/// Per attachment in the summary, without its name.
const ATTACHMENT_ENTRY: u64 = 128;

/// Writes packets to an MCAP file. A packet counts as written when its chunk is closed, because
/// readers find only closed chunks.
pub(crate) struct Writer {
    /// `None` after an error.
    out: Option<mcap::Writer<BufWriter<File>>>,
    /// Handle of the same file.
    file: File,
    channels: Vec<Channel>,
    counts: Arc<[Counts]>,
    waiting: Arc<Waiting>,
    start: SessionStart,
    /// File size up to the end of the last closed chunk.
    closed: u64,
    /// Size of the open chunk.
    open: u64,
    /// Size reserved for the end of the file.
    end: u64,
    most: u64,
    bytes: Vec<u8>,
}

struct Channel {
    id: u16,
    codec: Codec,
    /// Packets in the open chunk.
    open: u64,
}

impl Writer {
    /// Writes the records that precede the packets: attachments, file hashes, a channel for each of
    /// `outputs`, and one for the calls if they are recorded.
    pub(crate) fn new(
        head: Head,
        outputs: &[Output],
        counts: Arc<[Counts]>,
        waiting: Arc<Waiting>,
    ) -> Result<Self, McapError> {
        let Head { file, hashes, calls, options } = head;
        let file = file.begin()?;
        let start = options.start.unwrap_or_else(SessionStart::now);
        let library = concat!("afferent ", env!("CARGO_PKG_VERSION"));
        let format = WriteOptions::new().compression(None).chunk_size(None);
        let format = format.profile("ros2").library(library);
        let mut out = format.create(BufWriter::new(file.try_clone()?))?;
        for (name, data) in &options.attachments {
            out.attach(&Attachment {
                log_time: start.unix_ns,
                create_time: start.unix_ns,
                name: name.clone(),
                media_type: media_type(name).to_owned(),
                data: data.into(),
            })?;
        }
        out.write_metadata(&hashes)?;
        out.flush()?;
        let before = file.metadata()?.len();
        let mut channels = Vec::new();
        let packets = outputs.iter().map(|Output { node, port, codec }| {
            let metadata = vec![("node", node.clone()), ("output", port.to_string())];
            (format!("{node}/{port}"), metadata, *codec)
        });
        let calls = calls.map(|shape| {
            let metadata = vec![(calls::SHAPE, shape)];
            (calls::CHANNEL.to_owned(), metadata, Codec::of_static(&CallCodec))
        });
        for (topic, mut metadata, codec) in packets.chain(calls) {
            metadata.push(("begin_ns", start.unix_ns.to_string()));
            let metadata = metadata.into_iter().map(|(name, value)| (name.to_owned(), value));
            let schema = out.add_schema(codec.message(), "ros2msg", codec.schema().as_bytes())?;
            let id = out.add_channel(schema, &topic, "cdr", &metadata.collect())?;
            channels.push(Channel { id, codec, open: 0 });
        }
        // In a chunk of their own, which readers find even if the file is truncated later.
        out.flush()?;
        let closed = file.metadata()?.len();
        let each = channels.len() as u64;
        let attached = options.attachments.iter();
        let attached = attached.map(|(name, _)| ATTACHMENT_ENTRY + name.len() as u64).sum::<u64>();
        let end = (closed - before) + END.0 + END.1 * each + attached;
        let most = options.max_bytes.unwrap_or(u64::MAX);
        if closed + end > most {
            return Err(full());
        }
        let (out, bytes) = (Some(out), Vec::new());
        Ok(Self { out, file, channels, counts, waiting, start, closed, open: 0, end, most, bytes })
    }

    /// Writes until the queue is closed. After an error or at the maximum size it only counts.
    pub(crate) fn run(mut self, jobs: &Receiver<Job>) -> Result<(), McapError> {
        let (mut result, mut has_failed) = (Ok(()), false);
        let mut flushed = Instant::now();
        loop {
            let job = match jobs.recv_timeout(FLUSH_PERIOD) {
                Ok(job) => Some(job),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if let Some(job) = job {
                if result.is_ok() {
                    result = self.write(&job);
                } else {
                    self.counts[job.stream].dropped.fetch_add(1, Ordering::Relaxed);
                }
                self.waiting.bytes.fetch_sub(job.bytes, Ordering::Relaxed);
            }
            if result.is_ok() && self.open > 0 && flushed.elapsed() >= FLUSH_PERIOD {
                result = self.close_chunk();
                flushed = Instant::now();
            }
            if let Err(error) = &result
                && !std::mem::replace(&mut has_failed, true)
            {
                let reason = reason(error);
                tracing::warn!("the recording stops, and the graph continues: {reason}");
            }
        }
        result.and_then(|()| self.finish())
    }

    /// Writes a packet, or counts it as dropped if its type is not that of its stream.
    fn write(&mut self, job: &Job) -> Result<(), McapError> {
        let dropped = &self.counts[job.stream].dropped;
        let channel = &mut self.channels[job.stream];
        self.bytes.clear();
        let encoded =
            job.packet.payload().map(|value| channel.codec.encode(value, &mut self.bytes));
        if !matches!(encoded, Some(Ok(()))) {
            dropped.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        let (mut open, mut end) = (self.open, self.end);
        if open == 0 {
            let each = self.counts.len() as u64;
            open += CHUNK_HEAD.0 + CHUNK_HEAD.1 * each;
            end += CHUNK_ENTRY.0 + CHUNK_ENTRY.1 * each;
        }
        open += PACKET_HEAD + self.bytes.len() as u64;
        if self.closed + open + end > self.most {
            dropped.fetch_add(1, Ordering::Relaxed);
            self.finish()?;
            return Err(full());
        }
        let header = MessageHeader {
            channel_id: channel.id,
            // Gaps show packets that were not recorded.
            sequence: job.packet.header.sequence as u32,
            log_time: self.start.unix_ns(job.now),
            publish_time: self.start.unix_ns(job.packet.header.at),
        };
        channel.open += 1;
        (self.open, self.end) = (open, end);
        let written = match &mut self.out {
            Some(out) => out.write_to_known_channel(&header, &self.bytes),
            None => Err(McapError::AttemptedWriteAfterFailure),
        };
        if written.is_err() {
            self.discard_chunk();
        } else if self.open > CHUNK_BYTES {
            return self.close_chunk();
        }
        written
    }

    fn close_chunk(&mut self) -> Result<(), McapError> {
        let Some(out) = &mut self.out else { return Err(McapError::AttemptedWriteAfterFailure) };
        match out.flush().and_then(|()| Ok(self.file.metadata()?.len())) {
            Ok(len) => {
                (self.closed, self.open) = (len, 0);
                for (channel, counts) in self.channels.iter_mut().zip(self.counts.iter()) {
                    counts.written.fetch_add(std::mem::take(&mut channel.open), Ordering::Relaxed);
                }
                Ok(())
            }
            Err(error) => {
                self.discard_chunk();
                Err(error)
            }
        }
    }

    /// Removes the open chunk from the file.
    fn discard_chunk(&mut self) {
        if let Some(out) = self.out.take() {
            // Prevents further writes.
            drop(out.into_inner().into_parts());
        }
        // Only regular files, and not devices for example, can be truncated.
        let _ = self.file.set_len(self.closed);
        for (channel, counts) in self.channels.iter_mut().zip(self.counts.iter()) {
            counts.dropped.fetch_add(std::mem::take(&mut channel.open), Ordering::Relaxed);
        }
    }

    fn finish(&mut self) -> Result<(), McapError> {
        self.close_chunk()?;
        self.out.as_mut().map_or(Ok(()), |out| out.finish().map(drop))
    }
}

fn full() -> McapError {
    io::Error::new(ErrorKind::QuotaExceeded, "the maximum file size is reached").into()
}

/// True if the recording ended at [`RecordOptions::max_bytes`](crate::RecordOptions::max_bytes).
pub(crate) fn is_full(error: &McapError) -> bool {
    // The system's errors have a number.
    matches!(error, McapError::Io(error)
        if error.kind() == ErrorKind::QuotaExceeded && error.raw_os_error().is_none())
}

/// Media type of the file `name`, by its extension.
fn media_type(name: &str) -> &'static str {
    if name.ends_with(".json") { "application/json" } else { "application/yaml" }
}
