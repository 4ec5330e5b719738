//! Images of an MCAP file.

use std::time::Duration;

use afferent_messages::Image;
use mcap::{Channel, McapError, io::MessageReader, sans_io::LinearReaderOptions};

use super::{Frames, Reader};

mod chunk;

use chunk::ChunkDecoder;

/// Largest record in bytes.
const MAX_RECORD: usize = 1 << 30;

/// Bytes that every MCAP file begins with.
pub(super) const MAGIC: &[u8] = mcap::MAGIC;

pub(super) struct Mcap {
    messages: MessageReader<Reader>,
    /// Topic of the images; the first one that has some if none is given.
    topic: Option<String>,
    /// Topics of other messages that were skipped, for errors.
    skipped: Vec<String>,
    /// Time of the first image in nanoseconds.
    first: Option<u64>,
}

/// Topic, message and encoding of a channel.
fn described(channel: &Channel<'_>) -> String {
    let message = channel.schema.as_ref().map_or("no schema", |schema| schema.name.as_str());
    format!("{} ({message}, {})", channel.topic, channel.message_encoding)
}

fn has_images(channel: &Channel<'_>) -> bool {
    let schema = channel.schema.as_ref();
    let is_image = schema.is_some_and(|schema| Image::ROS_MESSAGES.contains(&&*schema.name));
    is_image && channel.message_encoding == "cdr"
}

fn reason(error: &McapError) -> String {
    match error {
        McapError::UnsupportedCompression(kind) => {
            format!("its chunks are compressed with {kind:?}; zstd and lz4 are supported")
        }
        other => other.to_string(),
    }
}

impl Mcap {
    pub(super) fn new(file: Reader, topic: Option<String>) -> Result<Self, String> {
        let options = LinearReaderOptions::default()
            .with_record_length_limit(MAX_RECORD)
            .with_validate_chunk_crcs(true);
        let mut messages = MessageReader::new_with_options(file, options);
        for decoder in [ChunkDecoder::zstd(), ChunkDecoder::lz4()] {
            messages.add_decompressor(decoder).map_err(|error| reason(&error))?;
        }
        Ok(Self { messages, topic, skipped: Vec::new(), first: None })
    }

    /// The reason why the file has no image.
    fn nothing(&self) -> String {
        let others = match self.skipped.as_slice() {
            [] => "it has no messages".to_owned(),
            topics => format!("it has {}", topics.join(", ")),
        };
        let images = Image::ROS_MESSAGES.join(" or ");
        match &self.topic {
            Some(topic) => format!("the topic {topic:?} has no {images} in CDR; {others}"),
            None => format!("no topic has {images} in CDR; {others}"),
        }
    }
}

impl Frames for Mcap {
    fn next(&mut self, image: &mut Image) -> Result<Option<Duration>, String> {
        loop {
            let Some(message) = self.messages.next() else {
                return if self.first.is_none() { Err(self.nothing()) } else { Ok(None) };
            };
            let message = message.map_err(|error| reason(&error))?;
            let channel = &message.channel;
            let is_other = self.topic.as_ref().is_some_and(|topic| *topic != channel.topic);
            if is_other || !has_images(channel) {
                let name = described(channel);
                if !self.skipped.contains(&name) {
                    self.skipped.push(name);
                }
                continue;
            }
            self.topic.get_or_insert_with(|| channel.topic.clone());
            let name = channel.schema.as_ref().map_or("", |schema| schema.name.as_str());
            let read = image.read_ros(name, &message.data);
            read.map_err(|error| format!("topic {:?}: {error}", channel.topic))?;
            let at = message.publish_time;
            let first = *self.first.get_or_insert(at);
            return Ok(Some(Duration::from_nanos(at.saturating_sub(first))));
        }
    }

    fn period(&self) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, io::Cursor};

    use afferent_graph::Payload;
    use mcap::{Writer, records::MessageHeader};

    use super::{super::tests::reader_of, *};

    const COMPRESSED: &str = "sensor_msgs/msg/CompressedImage";

    /// A recording of two cameras by other programs; see `make_mcap.py`.
    const ZSTD: &[u8] = include_bytes!("../../tests/data/zstd.mcap");
    const LZ4: &[u8] = include_bytes!("../../tests/data/lz4.mcap");

    /// A file with the topics `/gps`, `/left` and `/right`; each camera has three images.
    fn file() -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        let options = mcap::WriteOptions::default().compression(None);
        let mut writer = Writer::with_options(&mut bytes, options).unwrap();
        let images = writer.add_schema(COMPRESSED, "ros2msg", b"").unwrap();
        let other = writer.add_schema("sensor_msgs/msg/NavSatFix", "ros2msg", b"").unwrap();
        let none = BTreeMap::new();
        let gps = writer.add_channel(other, "/gps", "cdr", &none).unwrap();
        let cameras = ["/left", "/right"]
            .map(|topic| writer.add_channel(images, topic, "cdr", &none).unwrap());
        let mut write = |channel_id: u16, time: u64, data: &[u8]| {
            let header =
                MessageHeader { channel_id, sequence: 0, log_time: time, publish_time: time };
            writer.write_to_known_channel(&header, data).unwrap();
        };
        for number in 0..3_u8 {
            let time = 1_000_000_000 + u64::from(number) * 40_000_000;
            write(gps, time, &[0, 1, 0, 0]);
            for (index, camera) in cameras.into_iter().enumerate() {
                let mut image = Image::default();
                let value = number + 100 * index as u8;
                let pixels = image.reshape(afferent_messages::PixelFormat::Mono8, 4, 2);
                pixels.unwrap().fill(value);
                let mut data = Vec::new();
                Image::CODEC.unwrap().encode(&image, &mut data).unwrap();
                write(camera, time, &data);
            }
        }
        writer.finish().unwrap();
        drop(writer);
        bytes.into_inner()
    }

    /// The time, the format and the first byte of each image.
    fn read(file: &[u8], topic: Option<&str>) -> Result<Vec<(Duration, &'static str, u8)>, String> {
        let mut frames = Mcap::new(reader_of(file.to_vec()), topic.map(str::to_owned))?;
        let (mut found, mut image) = (Vec::new(), Image::default());
        while let Some(at) = frames.next(&mut image)? {
            found.push((at, image.format().name(), image.bytes()[0]));
        }
        Ok(found)
    }

    fn at(number: u64) -> Duration {
        Duration::from_millis(40 * number)
    }

    #[test]
    fn images_of_a_topic_are_read_with_their_times() {
        let expected = |first: u8| [0, 1, 2].map(|n: u8| (at(n.into()), "mono8", first + n));
        assert_eq!(read(&file(), None).unwrap(), expected(0));
        assert_eq!(read(&file(), Some("/right")).unwrap(), expected(100));
        let told = read(&file(), Some("/gps")).unwrap_err();
        assert!(told.contains("/gps (sensor_msgs/msg/NavSatFix, cdr)"), "{told}");
        assert!(told.contains("/left") && told.contains(COMPRESSED), "{told}");
    }

    #[test]
    fn compressed_chunks_of_other_programs_are_read() {
        for (name, file) in [("zstd", ZSTD), ("lz4", LZ4)] {
            let images = read(file, Some("/raw")).unwrap();
            let expected: Vec<_> = (0..40).map(|n| (at(n), "rgb8", 3 * n as u8)).collect();
            assert_eq!(images, expected, "{name}");
            let images = read(file, Some("/depth")).unwrap();
            let expected: Vec<_> = (0..40).map(|n| (at(n), "16UC1", 5 * n as u8)).collect();
            assert_eq!(images, expected, "{name}");
            assert_eq!(read(file, Some("/jpeg")).unwrap().len(), 40, "{name}");
            let told = read(file, Some("/bayer")).unwrap_err();
            assert!(told.contains("\"/bayer\": encoding \"bayer_rggb8\" is none of"), "{told}");
            assert!(told.contains("mono8, rgb8"), "{told}");
        }
    }

    #[test]
    fn damaged_files_are_reported() {
        for whole in [&file(), ZSTD, LZ4] {
            for share in 2..6 {
                let cut = &whole[..whole.len() / share];
                assert!(read(cut, Some("/raw")).is_err());
            }
            // Indexes, which are not read, may be damaged.
            let mut damaged = whole.to_vec();
            let mut refused = 0;
            for at in (whole.len() / 8..whole.len() / 2).step_by(whole.len() / 50) {
                damaged[at] ^= 0x55;
                refused += usize::from(read(&damaged, Some("/raw")).is_err());
                damaged[at] ^= 0x55;
            }
            assert!(refused > 9, "{refused}");
        }
        let at = ZSTD.windows(4).position(|bytes| bytes == b"zstd").unwrap();
        let mut other = ZSTD.to_vec();
        other[at..at + 4].copy_from_slice(b"brot");
        let told = read(&other, None).unwrap_err();
        assert!(told.contains("\"brot\"") && told.contains("zstd and lz4"), "{told}");
    }
}
