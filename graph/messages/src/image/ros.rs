//! Images in the standard messages of ROS 2, as cameras and other programs write them.

use afferent_graph::Choice;
use serde::{Deserialize, Serialize};

use super::{Image, PixelFormat, png};
use crate::{CdrMessage, bytes::Bytes, cdr};

/// Fields of `sensor_msgs/msg/Image`.
#[derive(Serialize, Deserialize)]
pub(super) struct RosImage {
    pub(super) stamp: (i32, u32),
    pub(super) frame_id: String,
    pub(super) height: u32,
    pub(super) width: u32,
    pub(super) encoding: String,
    pub(super) is_bigendian: u8,
    pub(super) step: u32,
    pub(super) data: Bytes,
}

/// Encodings of ROS that have another name here, or become another format.
const OTHER_ENCODINGS: [(&str, PixelFormat); 3] = [
    ("yuv422", PixelFormat::Uyvy),
    ("yuv422_yuy2", PixelFormat::Yuyv),
    ("bgra8", PixelFormat::Rgba8),
];

/// Pixels as `sensor_msgs/msg/Image` has them.
#[derive(Debug, Clone, Copy)]
pub struct RawImage<'d> {
    /// Encoding, as in `sensor_msgs/image_encodings`.
    pub encoding: &'d str,
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// Row stride in bytes.
    pub step: usize,
    /// True if values of more than 8 bits are in big-endian byte order.
    pub is_big_endian: bool,
    /// The bytes of all planes.
    pub data: &'d [u8],
}

impl Image {
    const RAW_MESSAGE: &'static str = "sensor_msgs/msg/Image";

    /// Messages that [`Image::read_ros`] decodes.
    pub const ROS_MESSAGES: [&'static str; 2] = [Self::MESSAGE, Self::RAW_MESSAGE];

    /// Decodes a message of ROS 2 into this image: one of [`Image::ROS_MESSAGES`], as CDR.
    ///
    /// # Errors
    /// The invalid field and its accepted values.
    pub fn read_ros(&mut self, message: &str, bytes: &[u8]) -> Result<(), String> {
        if message == Self::MESSAGE {
            *self = Self::from_wire(cdr::read(bytes)?.0)?;
            return Ok(());
        }
        if message != Self::RAW_MESSAGE {
            let known = Self::ROS_MESSAGES.join(" and ");
            return Err(format!("the message {message} is not supported; {known} are"));
        }
        let (wire, _) = cdr::read::<RosImage>(bytes)?;
        let [width, height, step] = [wire.width, wire.height, wire.step].map(|size| size as usize);
        let (encoding, data) = (&*wire.encoding, &*wire.data.0);
        let is_big_endian = wire.is_bigendian != 0;
        self.read_raw(&RawImage { encoding, width, height, step, is_big_endian, data })?;
        self.frame_id = wire.frame_id;
        Ok(())
    }

    /// Takes over pixels, with row padding. `bgra8` becomes `rgba8`.
    ///
    /// # Errors
    /// The encoding and those that are known; a shape that does not match the data.
    pub fn read_raw(&mut self, raw: &RawImage<'_>) -> Result<(), String> {
        let other = OTHER_ENCODINGS.iter().find(|(name, _)| *name == raw.encoding);
        let format = other.map(|(_, format)| *format);
        let format = format.or_else(|| PixelFormat::from_name(raw.encoding)).ok_or_else(|| {
            let (known, others) =
                (PixelFormat::WORDS.join(", "), OTHER_ENCODINGS.map(|(name, _)| name).join(", "));
            format!("encoding {:?} is none of {known}, {others}", raw.encoding)
        })?;
        let (rows, found) = (format.stored_rows(raw.height), raw.data.len());
        if raw.step.checked_mul(rows) != Some(found) {
            return Err(format!("{found} bytes do not match {rows} rows of {} bytes", raw.step));
        }
        let pixels = self.reshape_padded(format, raw.width, raw.height, raw.step);
        let pixels = pixels.map_err(|error| error.to_string())?;
        pixels.copy_from_slice(raw.data);
        if raw.is_big_endian != cfg!(target_endian = "big") {
            pixels.chunks_exact_mut(format.dtype().size()).for_each(<[u8]>::reverse);
        }
        if raw.encoding == "bgra8" {
            for row in pixels.chunks_exact_mut(raw.step) {
                row.as_chunks_mut::<4>().0.iter_mut().for_each(|pixel| pixel.swap(0, 2));
            }
        }
        Ok(())
    }

    /// Decodes the data of `sensor_msgs/msg/CompressedImage`, which are PNG or JPEG. The format is as
    /// `compressed_image_transport` writes it, such as `rgb8; jpeg compressed bgr8`, or `png`, `jpeg`
    /// or `jpg` alone.
    ///
    /// # Errors
    /// A format that is not supported and those that are, and data that cannot be decoded.
    pub fn read_compressed(&mut self, format: &str, data: &[u8]) -> Result<(), String> {
        let (encoding, codec) = format.split_once(';').unwrap_or(("", format));
        let (encoding, known) = (encoding.trim(), PixelFormat::from_name(encoding.trim()));
        let read = match (codec.split_whitespace().next().unwrap_or_default(), known) {
            ("png", Some(format)) => png::decode(format, data).map(|image| *self = image),
            ("png", None) if encoding.is_empty() => {
                png::decode_any(data).map(|image| *self = image)
            }
            ("jpeg" | "jpg", None) if encoding.is_empty() => self.read_jpeg(None, data),
            ("jpeg" | "jpg", Some(format)) if Self::JPEG_FORMATS.contains(&format) => {
                self.read_jpeg(known, data)
            }
            _ => {
                return Err(format!(
                    "format {format:?} is not supported; accepted are `png`, `jpeg`, `ENCODING; png \
                     compressed ...` with an encoding of {}, and `ENCODING; jpeg compressed ...` \
                     with one of {}",
                    PixelFormat::WORDS.join(", "),
                    Self::JPEG_FORMATS.map(PixelFormat::name).join(", ")
                ));
            }
        };
        read.map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message with an image of 2 × 2 pixels, and four bytes of padding after each row.
    fn message(encoding: &str, is_bigendian: u8, rows: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let row = |row: &&[u8]| [*row, &[0xee; 4][..]].concat();
        let data: Vec<u8> = rows.iter().flat_map(row).collect();
        let (frame_id, encoding) = ("left".to_owned(), encoding.to_owned());
        let step = (data.len() / rows.len()) as u32;
        let (stamp, height, width, data) = ((1, 2), 2, 2, Bytes(data));
        let wire = RosImage { stamp, frame_id, height, width, encoding, is_bigendian, step, data };
        cdr::write(&wire, &mut bytes).unwrap();
        bytes
    }

    fn read(message: &[u8]) -> Result<Image, String> {
        let mut image = Image::default();
        image.read_ros("sensor_msgs/msg/Image", message)?;
        Ok(image)
    }

    #[test]
    fn raw_images_are_read() {
        let check = |encoding, is_bigendian, rows: &[&[u8]], format, expected: &[u8]| {
            let image = read(&message(encoding, is_bigendian, rows)).unwrap();
            assert_eq!((image.format(), &*image.frame_id), (format, "left"), "{encoding}");
            assert_eq!(image.rows().collect::<Vec<_>>().concat(), expected, "{encoding}");
        };
        let six: [&[u8]; 2] = [&[1, 2, 3, 4, 5, 6], &[7, 8, 9, 10, 11, 12]];
        check("rgb8", 0, &six, PixelFormat::Rgb8, &six.concat());
        check("bgr8", 0, &six, PixelFormat::Bgr8, &six.concat());
        let eight: [&[u8]; 2] = [&[1, 2, 3, 4, 5, 6, 7, 8], &[9, 10, 11, 12, 13, 14, 15, 16]];
        check("rgba8", 0, &eight, PixelFormat::Rgba8, &eight.concat());
        let swapped = [3, 2, 1, 4, 7, 6, 5, 8, 11, 10, 9, 12, 15, 14, 13, 16];
        check("bgra8", 0, &eight, PixelFormat::Rgba8, &swapped);
        let two: [&[u8]; 2] = [&[1, 2], &[3, 4]];
        check("mono8", 0, &two, PixelFormat::Mono8, &two.concat());
        let four: [&[u8]; 2] = [&[1, 2, 3, 4], &[5, 6, 7, 8]];
        for (name, format) in [
            ("yuv422", PixelFormat::Uyvy),
            ("uyvy", PixelFormat::Uyvy),
            ("yuv422_yuy2", PixelFormat::Yuyv),
            ("yuyv", PixelFormat::Yuyv),
        ] {
            check(name, 0, &four, format, &four.concat());
        }
        let [low, high] = [[1_u16, 0x0203, 4, 5], [0x0100, 0x0302, 0x0400, 0x0500]];
        let native = low.map(u16::to_ne_bytes).concat();
        let rows = |values: [u16; 4]| values.map(u16::to_le_bytes).concat();
        for (is_bigendian, values) in [(0, low), (1, high)] {
            let bytes = rows(values);
            let both: [&[u8]; 2] = [&bytes[..4], &bytes[4..]];
            check("16UC1", is_bigendian, &both, PixelFormat::Depth16, &native);
            check("mono16", is_bigendian, &both, PixelFormat::Mono16, &native);
        }
        let meters = [0.5_f32, -1.0, f32::NAN, 2.5].map(f32::to_le_bytes).concat();
        let native = [0.5_f32, -1.0, f32::NAN, 2.5].map(f32::to_ne_bytes).concat();
        check("32FC1", 0, &[&meters[..8], &meters[8..]], PixelFormat::Depth32, &native);
        let planes: [&[u8]; 3] = [&[1, 2], &[3, 4], &[5, 6]];
        check("nv12", 0, &planes, PixelFormat::Nv12, &planes.concat());
    }

    #[test]
    fn other_messages_are_refused() {
        let told = read(&message("nv21", 0, &[&[0; 2][..]; 3])).unwrap_err();
        assert!(told.starts_with("encoding \"nv21\" is none of mono8, rgb8, bgr8"), "{told}");
        assert!(told.ends_with("nv12, i420, yuv422, yuv422_yuy2, bgra8"), "{told}");
        let told = read(&message("rgb8", 0, &[&[0; 6][..]; 3])).unwrap_err();
        assert_eq!(told, "30 bytes do not match 2 rows of 10 bytes");
        let told = read(&message("rgba8", 0, &[&[0; 3][..]; 2])).unwrap_err();
        assert!(told.contains("row stride of 7 bytes"), "{told}");
        let told = Image::default().read_ros("sensor_msgs/msg/Imu", &[]).unwrap_err();
        assert!(told.contains("sensor_msgs/msg/Image"), "{told}");
        let whole = message("mono8", 0, &[&[0; 2][..]; 2]);
        for len in 0..whole.len() {
            assert!(read(&whole[..len]).is_err());
        }
    }
}
