//! Images of an MCAP file.

use std::time::Duration;

use afferent_graph::{Header, Payload};
use afferent_messages::Image;
use mcap::{Channel, McapError, io::MessageReader, sans_io::LinearReaderOptions};

use super::{Frames, Reader};

/// Largest record in bytes.
const MAX_RECORD: usize = 1 << 30;

/// Message of the images (ROS 2).
const MESSAGE: &str = "sensor_msgs/msg/CompressedImage";

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
    let is_image = channel.schema.as_ref().is_some_and(|schema| schema.name == MESSAGE);
    is_image && channel.message_encoding == "cdr"
}

fn reason(error: &McapError) -> String {
    match error {
        McapError::UnsupportedCompression(kind) => {
            format!("its chunks are compressed with {kind:?}; write it without compression")
        }
        other => other.to_string(),
    }
}

impl Mcap {
    pub(super) fn new(file: Reader, topic: Option<String>) -> Self {
        let options = LinearReaderOptions::default()
            .with_record_length_limit(MAX_RECORD)
            .with_validate_chunk_crcs(true);
        let messages = MessageReader::new_with_options(file, options);
        Self { messages, topic, skipped: Vec::new(), first: None }
    }

    /// The reason why the file has no image.
    fn nothing(&self) -> String {
        let others = match self.skipped.as_slice() {
            [] => "it has no messages".to_owned(),
            topics => format!("it has {}", topics.join(", ")),
        };
        match &self.topic {
            Some(topic) => format!("the topic {topic:?} has no {MESSAGE} in CDR; {others}"),
            None => format!("no topic has {MESSAGE} in CDR; {others}"),
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
            let codec = Image::CODEC.ok_or("images have no codec")?;
            let packet = codec.decode(&message.data, Header::default());
            let packet = packet.map_err(|error| format!("topic {:?}: {error}", channel.topic))?;
            if let Some(found) = packet.into_loan::<Image>(None) {
                *image = found.clone();
            }
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

    use mcap::{Writer, records::MessageHeader};

    use super::{super::tests::reader_of, *};

    /// A file with the topics `/gps`, `/left` and `/right`; each camera has three images.
    fn file() -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        let options = mcap::WriteOptions::default().compression(None);
        let mut writer = Writer::with_options(&mut bytes, options).unwrap();
        let images = writer.add_schema(MESSAGE, "ros2msg", b"").unwrap();
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

    fn read(topic: Option<&str>) -> Result<Vec<(Duration, u8)>, String> {
        let mut frames = Mcap::new(reader_of(file()), topic.map(str::to_owned));
        let (mut found, mut image) = (Vec::new(), Image::default());
        while let Some(at) = frames.next(&mut image)? {
            found.push((at, image.bytes()[0]));
        }
        Ok(found)
    }

    #[test]
    fn images_of_a_topic_are_read_with_their_times() {
        let at = |number: u64| Duration::from_millis(40 * number);
        assert_eq!(read(None).unwrap(), [(at(0), 0), (at(1), 1), (at(2), 2)]);
        assert_eq!(read(Some("/right")).unwrap(), [(at(0), 100), (at(1), 101), (at(2), 102)]);
        let told = read(Some("/gps")).unwrap_err();
        assert!(told.contains("/gps (sensor_msgs/msg/NavSatFix, cdr)"), "{told}");
        assert!(told.contains("/left") && told.contains(MESSAGE), "{told}");
    }

    #[test]
    fn damaged_files_are_reported() {
        let mut bytes = file();
        bytes.truncate(bytes.len() / 3);
        let mut frames = Mcap::new(reader_of(bytes), None);
        let mut image = Image::default();
        let end = loop {
            match frames.next(&mut image) {
                Ok(Some(_)) => {}
                end => break end,
            }
        };
        assert!(end.is_err(), "{end:?}");
    }
}
