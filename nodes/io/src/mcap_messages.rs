//! Messages of a topic of an MCAP file.

use std::{
    fs::File,
    io::{BufReader, Read},
    path::Path,
    time::Duration,
};

use afferent_graph::{Header, NodeError};
use afferent_messages::CdrMessage;
use mcap::{Channel, McapError, io::MessageReader, sans_io::LinearReaderOptions};

use crate::{output::file_error, paced::Readings};

mod chunk;

use chunk::ChunkDecoder;

/// Largest record in bytes.
const MAX_RECORD: usize = 1 << 30;

/// Bytes that every MCAP file begins with.
pub(crate) const MAGIC: &[u8] = mcap::MAGIC;

/// The messages of one topic, in CDR, in the order of the file.
pub(crate) struct McapMessages<R: Read> {
    messages: MessageReader<R>,
    /// Names of messages that are read.
    names: &'static [&'static str],
    /// Topic; the first one that has such messages if none is given.
    topic: Option<String>,
    /// Topics of other messages that were skipped, for errors.
    skipped: Vec<String>,
    has_begun: bool,
}

/// A message of the topic.
pub(crate) struct TopicMessage {
    pub(crate) topic: String,
    /// Name of the message.
    pub(crate) name: String,
    /// Time of publishing in nanoseconds.
    pub(crate) published_ns: u64,
    /// CDR with its header.
    pub(crate) data: Vec<u8>,
}

/// Topic, message and encoding of a channel.
fn described(channel: &Channel<'_>) -> String {
    let message = channel.schema.as_ref().map_or("no schema", |schema| schema.name.as_str());
    format!("{} ({message}, {})", channel.topic, channel.message_encoding)
}

fn reason(error: &McapError) -> String {
    match error {
        McapError::UnsupportedCompression(kind) => {
            format!("its chunks are compressed with {kind:?}; zstd and lz4 are supported")
        }
        other => other.to_string(),
    }
}

impl<R: Read> McapMessages<R> {
    /// Reads messages with one of the `names`.
    ///
    /// # Errors
    /// The reason why the file cannot be read.
    pub(crate) fn new(
        file: R,
        topic: Option<String>,
        names: &'static [&'static str],
    ) -> Result<Self, String> {
        let options = LinearReaderOptions::default()
            .with_record_length_limit(MAX_RECORD)
            .with_validate_chunk_crcs(true);
        let mut messages = MessageReader::new_with_options(file, options);
        for decoder in [ChunkDecoder::zstd(), ChunkDecoder::lz4()] {
            messages.add_decompressor(decoder).map_err(|error| reason(&error))?;
        }
        Ok(Self { messages, names, topic, skipped: Vec::new(), has_begun: false })
    }

    /// The next message; `None` at the end.
    ///
    /// # Errors
    /// The reason why the rest cannot be read, or that there is no such message.
    pub(crate) fn next(&mut self) -> Result<Option<TopicMessage>, String> {
        loop {
            let Some(message) = self.messages.next() else {
                return if self.has_begun { Ok(None) } else { Err(self.nothing()) };
            };
            let message = message.map_err(|error| reason(&error))?;
            let channel = &message.channel;
            let is_other = self.topic.as_ref().is_some_and(|topic| *topic != channel.topic);
            let name = channel.schema.as_ref().map_or("", |schema| schema.name.as_str());
            if is_other || !self.names.contains(&name) || channel.message_encoding != "cdr" {
                let name = described(channel);
                if !self.skipped.contains(&name) {
                    self.skipped.push(name);
                }
                continue;
            }
            self.has_begun = true;
            self.topic.get_or_insert_with(|| channel.topic.clone());
            return Ok(Some(TopicMessage {
                topic: channel.topic.clone(),
                name: name.to_owned(),
                published_ns: message.publish_time,
                data: message.data.into_owned(),
            }));
        }
    }

    /// The reason why the file has no message.
    fn nothing(&self) -> String {
        let others = match self.skipped.as_slice() {
            [] => "it has no messages".to_owned(),
            topics => format!("it has {}", topics.join(", ")),
        };
        let names = self.names.join(" or ");
        match &self.topic {
            Some(topic) => format!("the topic {topic:?} has no {names} in CDR; {others}"),
            None => format!("no topic has {names} in CDR; {others}"),
        }
    }
}

/// True if a file is an MCAP file.
fn is_mcap(path: &Path) -> Result<bool, NodeError> {
    let mut start = [0; MAGIC.len()];
    let mut file = File::open(path).map_err(|error| file_error(path, error))?;
    // A file that is shorter is none.
    Ok(file.read_exact(&mut start).is_ok() && start == MAGIC)
}

/// Values of a topic, if the file is an MCAP file.
///
/// # Errors
/// If the file cannot be opened, or a topic is given for another kind of file.
pub(crate) fn readings_of<T: CdrMessage + Clone>(
    path: &Path,
    topic: Option<&str>,
) -> Result<Option<Readings<T>>, NodeError> {
    if is_mcap(path)? {
        return readings(path, topic).map(Some);
    }
    match topic {
        None => Ok(None),
        Some(topic) => {
            let reason = format!("`topic: {topic}` is for MCAP files, and this is none; remove it");
            Err(file_error(path, reason))
        }
    }
}

/// Values of a topic of messages that begin with a header, with their times since the first one. The time
/// is the stamp of the message, or the time of publishing if that is zero.
fn readings<T: CdrMessage + Clone>(
    path: &Path,
    topic: Option<&str>,
) -> Result<Readings<T>, NodeError> {
    let file = File::open(path).map_err(|error| file_error(path, error))?;
    let messages = McapMessages::new(BufReader::new(file), topic.map(Into::into), &[T::MESSAGE]);
    let mut messages = messages.map_err(|error| file_error(path, error))?;
    let codec = T::CODEC.ok_or_else(|| file_error(path, "the payload has no recorded form"))?;
    let path = path.to_owned();
    // Times of the first and of the last message.
    let (mut first, mut last) = (None, None);
    Ok(Box::new(move || {
        let fault = |reason: String| file_error(&path, reason);
        let Some(message) = messages.next().map_err(fault)? else { return Ok(None) };
        let topic = message.topic;
        let at = stamp_ns(&message.data).unwrap_or(message.published_ns);
        if last.is_some_and(|last| at <= last) {
            return Err(fault(format!(
                "topic {topic:?}: the time {at} ns is not later than that of the message before"
            )));
        }
        last = Some(at);
        let packet = codec.decode(&message.data, Header::default());
        let packet = packet.map_err(|error| fault(format!("topic {topic:?}: {error}")))?;
        let value = packet.get::<T>().cloned();
        let since = Duration::from_nanos(at - *first.get_or_insert(at));
        Ok(value.map(|value| (since, value)))
    }))
}

/// Stamp of a message that begins with a header, in nanoseconds; `None` if it is not set.
fn stamp_ns(data: &[u8]) -> Option<u64> {
    let field = |at: usize| data.get(at..at + 4)?.try_into().ok();
    let (seconds, nanos) = (u32::from_le_bytes(field(4)?), u32::from_le_bytes(field(8)?));
    let ns = u64::from(seconds) * 1_000_000_000 + u64::from(nanos);
    (ns > 0).then_some(ns)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use afferent_graph::{Packet, Payload};
    use afferent_messages::{Imu, Pose};
    use mcap::records::MessageHeader;

    use super::*;

    /// A recording with poses on two topics, and measurements with these stamps and times of publishing.
    fn file(name: &str, imu: &[((u32, u32), u64)]) -> std::path::PathBuf {
        let name = format!("afferent-messages-{name}-{}.mcap", std::process::id());
        let path = std::env::temp_dir().join(name);
        let options = mcap::WriteOptions::default().compression(None);
        let mut out = options.create(File::create(&path).unwrap()).unwrap();
        let mut channel = |topic: &str, codec: &dyn afferent_graph::RecordCodec| {
            let schema = out.add_schema(codec.message(), "ros2msg", codec.schema().as_bytes());
            out.add_channel(schema.unwrap(), topic, "cdr", &BTreeMap::new()).unwrap()
        };
        let codecs = (Pose::CODEC.unwrap(), Imu::CODEC.unwrap());
        let channels =
            [channel("/a", codecs.0), channel("/b", codecs.0), channel("/imu", codecs.1)];
        let mut write = |channel: usize, at: u64, data: &[u8]| {
            let header = MessageHeader {
                channel_id: channels[channel],
                sequence: 0,
                log_time: 0,
                publish_time: at,
            };
            out.write_to_known_channel(&header, data).unwrap();
        };
        let mut bytes = Vec::new();
        for (at, x) in [(1_000, 1.0), (5_000, 2.0)] {
            let pose =
                Pose { position_m: [x, 0.0, 0.0], frame_id: "map".into(), ..Pose::default() };
            for (channel, x) in [(0, x), (1, x + 10.0)] {
                bytes.clear();
                let pose = Packet::new(
                    Pose { position_m: [x, 0.0, 0.0], ..pose.clone() },
                    Header::default(),
                );
                codecs.0.encode(pose.payload().unwrap(), &mut bytes).unwrap();
                write(channel, at, &bytes);
            }
        }
        for ((seconds, nanos), at) in imu {
            bytes.clear();
            let value = Imu { acceleration_m_s2: [0.0, 0.0, *nanos as f32], ..Imu::default() };
            let packet = Packet::new(value, Header::default());
            codecs.1.encode(packet.payload().unwrap(), &mut bytes).unwrap();
            bytes[4..8].copy_from_slice(&seconds.to_le_bytes());
            bytes[8..12].copy_from_slice(&nanos.to_le_bytes());
            write(2, *at, &bytes);
        }
        out.finish().unwrap();
        path
    }

    fn all<T: CdrMessage + Clone>(
        path: &Path,
        topic: Option<&str>,
    ) -> Result<Vec<(u64, T)>, String> {
        let mut next = readings::<T>(path, topic).map_err(|error| error.to_string())?;
        let read = std::iter::from_fn(|| next().transpose());
        let read = read.map(|read| read.map(|(time, value)| (time.as_nanos() as u64, value)));
        read.collect::<Result<_, _>>().map_err(|error| error.to_string())
    }

    #[test]
    fn messages_come_at_their_stamps_or_at_their_publishing() {
        let path = file("times", &[((3, 500), 9), ((3, 700), 9), ((4, 0), 9)]);
        assert!(is_mcap(&path).unwrap());
        let imu = all::<Imu>(&path, None).unwrap();
        let found: Vec<_> = imu.iter().map(|(at, imu)| (*at, imu.acceleration_m_s2[2])).collect();
        assert_eq!(found, [(0, 500.0), (200, 700.0), (999_999_500, 0.0)]);
        let x = |topic: Option<&str>| -> Vec<(u64, f64)> {
            let poses = all::<Pose>(&path, topic).unwrap();
            poses.iter().map(|(at, pose)| (*at, pose.position_m[0])).collect()
        };
        assert_eq!(x(None), [(0, 1.0), (4_000, 2.0)]);
        assert_eq!(x(Some("/b")), [(0, 11.0), (4_000, 12.0)]);
    }

    #[test]
    fn faults_name_the_topic() {
        let path = file("faults", &[((3, 500), 9), ((3, 500), 10)]);
        let told = all::<Imu>(&path, None).unwrap_err();
        assert!(told.contains("topic \"/imu\": the time 3000000500 ns is not later"), "{told}");
        let told = all::<Imu>(&path, Some("/a")).unwrap_err();
        let expected = "the topic \"/a\" has no sensor_msgs/msg/Imu in CDR; it has /a (geometry_msgs/msg/PoseStamped, cdr)";
        assert!(told.contains(expected), "{told}");
        let text = std::env::temp_dir().join(format!("afferent-no-mcap-{}", std::process::id()));
        std::fs::write(&text, "1,0").unwrap();
        assert!(!is_mcap(&text).unwrap());
    }
}
