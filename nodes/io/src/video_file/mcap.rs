//! Images of an MCAP file.

use std::time::Duration;

use afferent_messages::Image;

use super::{Frames, Reader};
use crate::mcap_messages::McapMessages;

pub(super) struct Mcap {
    messages: McapMessages<Reader>,
    /// Time of the first image in nanoseconds.
    first: Option<u64>,
}

impl Mcap {
    pub(super) fn new(file: Reader, topic: Option<String>) -> Result<Self, String> {
        let messages = McapMessages::new(file, topic, &Image::ROS_MESSAGES)?;
        Ok(Self { messages, first: None })
    }
}

impl Frames for Mcap {
    fn next(&mut self, image: &mut Image) -> Result<Option<Duration>, String> {
        let Some(message) = self.messages.next()? else { return Ok(None) };
        let read = image.read_ros(&message.name, &message.data);
        read.map_err(|error| format!("topic {:?}: {error}", message.topic))?;
        let at = message.published_ns;
        let first = *self.first.get_or_insert(at);
        Ok(Some(Duration::from_nanos(at.saturating_sub(first))))
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
