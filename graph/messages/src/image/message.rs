//! Recorded form of images: PNG in a message of ROS 2.

use serde::{Deserialize, Serialize};

use super::{Image, PixelFormat, png, wire::Meaning};
use crate::{CdrMessage, bytes::Bytes, cdr, cdr::ros_header};

/// The standard message of ROS 2, with PNG data as `compressed_image_transport` writes it and
/// [`Image::to_png`] describes. Its stamp is zero because a recording stores the timestamp beside
/// each message. Rows are written without padding.
///
/// The message has no fields for the colorimetry, the map to the source image, and the camera. If
/// they differ from the default, they are in a private chunk `afIM` of the PNG data, as CDR. An
/// image without pixels has no PNG data and is recorded without them.
///
/// Messages of other programs may also hold JPEG data ([`Image::read_compressed`]).
impl CdrMessage for Image {
    const MESSAGE: &'static str = "sensor_msgs/msg/CompressedImage";
    const SCHEMA: &'static str =
        concat!("std_msgs/Header header\nstring format\nuint8[] data\n", ros_header!());
    const IS_COMPRESSED: bool = true;
    type Wire = RosCompressedImage;

    fn fetch(&self) -> Result<(), String> {
        self.pixels.fetch().map_err(|error| error.to_string())
    }

    fn to_wire(&self) -> RosCompressedImage {
        let meaning = self.meaning();
        RosCompressedImage {
            stamp: (0, 0),
            frame_id: self.frame_id.clone(),
            format: format!("{}; png compressed {}", self.format.name(), self.format.png_name()),
            // Encoding fails only for an image without pixels, which has no bytes.
            data: Bytes(png::encode(self, meaning.as_deref()).unwrap_or_default()),
        }
    }

    fn from_wire(wire: RosCompressedImage) -> Result<Self, String> {
        let (format, _) = wire.format.split_once(';').unwrap_or((&wire.format, ""));
        let format = PixelFormat::from_name(format);
        let mut image = Self::empty(format.unwrap_or(PixelFormat::Rgb8));
        if format.is_none() || !wire.data.0.is_empty() {
            image.read_compressed(&wire.format, &wire.data.0)?;
        }
        if let Some(meaning) = png::meaning(&wire.data.0) {
            cdr::read_all::<Meaning>(meaning)?.apply(&mut image)?;
        }
        image.frame_id = wire.frame_id;
        Ok(image)
    }

    fn write_uncompressed(&self, bytes: &mut Vec<u8>) {
        for text in [self.format.name(), &self.frame_id] {
            bytes.extend((text.len() as u64).to_le_bytes());
            bytes.extend(text.as_bytes());
        }
        bytes.extend(self.sizes.iter().flat_map(|size| (*size as u64).to_le_bytes()));
        if self.height() > 0 {
            bytes.extend(self.meaning().unwrap_or_default());
        }
        self.rows().for_each(|row| bytes.extend(row));
    }
}

impl Image {
    /// The meaning of the pixels as CDR, or `None` for the default.
    fn meaning(&self) -> Option<Vec<u8>> {
        let default = Self { frame_id: String::new(), ..Self::empty(self.format) };
        let (meaning, default) = (Meaning::unchecked(self), Meaning::unchecked(&default));
        let mut bytes = Vec::new();
        (meaning != default).then_some(())?;
        // Fields are always serializable.
        cdr::write(&meaning, &mut bytes).ok()?;
        Some(bytes)
    }
}

impl PixelFormat {
    /// Encoding that OpenCV decodes a PNG file of this format to, as `compressed_image_transport`
    /// names it; empty for formats with a depth of their own.
    pub const fn png_name(self) -> &'static str {
        match self {
            Self::Rgb8 | Self::Bgr8 => "bgr8",
            Self::Rgba8 => "bgra8",
            _ => "",
        }
    }
}

/// Fields of `sensor_msgs/msg/CompressedImage`.
#[derive(Serialize, Deserialize)]
pub struct RosCompressedImage {
    pub(super) stamp: (i32, u32),
    pub(super) frame_id: String,
    pub(super) format: String,
    pub(super) data: Bytes,
}
