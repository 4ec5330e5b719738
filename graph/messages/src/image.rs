//! Images.

use std::mem;

use afferent_core::{ScalarType, Tensor, TensorView};
use serde::{Deserialize, Serialize};

use crate::{Cdr, CdrMessage, Wire, bytes::Bytes, cdr::ros_header};
use afferent_graph::{Choice, Field, NodeError, OnFull, Payload, RecordCodec, WireCodec, choices};

mod png;
mod wire;

choices! {
    /// Pixel format: channels in memory order, with the names of ROS
    /// (`sensor_msgs/image_encodings`). 16-bit values are in native byte order.
    pub enum PixelFormat {
        /// Luminance, 8 bits.
        Mono8 = "mono8",
        /// Red, green, blue, 8 bits each.
        Rgb8 = "rgb8",
        /// Blue, green, red, 8 bits each.
        Bgr8 = "bgr8",
        /// Red, green, blue, alpha, 8 bits each. Colors are not premultiplied by alpha.
        Rgba8 = "rgba8",
        /// Luminance, 16 bits.
        Mono16 = "mono16",
        /// Distance along the optical axis in millimeters, 16 bits; 0 if unknown (REP 118).
        Depth16 = "16UC1",
    }
}

impl PixelFormat {
    /// Name of the format in graph files and messages.
    pub fn name(self) -> &'static str {
        self.word()
    }

    /// The format named `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::from_word(name)
    }

    /// Number of channels.
    pub const fn channels(self) -> usize {
        match self {
            Self::Mono8 | Self::Mono16 | Self::Depth16 => 1,
            Self::Rgb8 | Self::Bgr8 => 3,
            Self::Rgba8 => 4,
        }
    }

    /// Data type of a channel.
    pub const fn dtype(self) -> ScalarType {
        match self {
            Self::Mono8 | Self::Rgb8 | Self::Bgr8 | Self::Rgba8 => ScalarType::Byte,
            Self::Mono16 | Self::Depth16 => ScalarType::UInt16,
        }
    }

    /// Size of a pixel in bytes.
    pub const fn pixel_bytes(self) -> usize {
        self.channels() * self.dtype().size()
    }
}

impl From<ImageError> for NodeError {
    fn from(error: ImageError) -> Self {
        Self::Payload(error.to_string())
    }
}

/// Errors of [`Image`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The image has no pixels, or is too large.
    #[error(
        "an image of {width} × {height} pixels of {format} is not supported; it must have at least \
         one pixel and at most {} bytes",
        Image::MAX_BYTES
    )]
    Size {
        /// Width in pixels.
        width: usize,
        /// Height in pixels.
        height: usize,
        /// [`PixelFormat::name`].
        format: &'static str,
    },
    /// The row stride is too small, or is not a multiple of the channel size.
    #[error(
        "a row stride of {row_stride} bytes does not fit {width} pixels of {format}: it must be a \
         multiple of {unit} and at least {least}"
    )]
    RowStride {
        /// Row stride in bytes.
        row_stride: usize,
        /// Width in pixels.
        width: usize,
        /// [`PixelFormat::name`].
        format: &'static str,
        /// Size of a channel in bytes.
        unit: usize,
        /// Size of the pixels of a row in bytes.
        least: usize,
    },
    /// The number of bytes does not match the height and the row stride.
    #[error("{found} bytes do not match {height} rows of {row_stride} bytes")]
    Length {
        /// Number of bytes given.
        found: usize,
        /// Height in pixels.
        height: usize,
        /// Row stride in bytes.
        row_stride: usize,
    },
    /// A PNG file cannot be decoded, or has another pixel format.
    #[error("the PNG image cannot be decoded: {reason}")]
    Png {
        /// Reason of the failure.
        reason: String,
    },
    /// An image cannot be encoded as PNG.
    #[error("the image cannot be encoded as PNG: {reason}")]
    NoPng {
        /// Reason of the failure.
        reason: String,
    },
}

/// An image: rows from top to bottom, pixels from left to right, stored in a tensor.
///
/// The timestamp of its packet is the middle of the exposure. The default image has no pixels.
#[derive(Debug, Clone)]
pub struct Image {
    /// `[height, row]`, of the dtype of the format. A row may be longer than its pixels.
    pixels: Tensor,
    /// Height, width, and channels.
    sizes: [usize; 3],
    format: PixelFormat,
    /// Coordinate frame of the camera: x to the right, y down, z forward.
    pub frame_id: String,
}

impl Image {
    /// Maximum size of an image in bytes, including row padding.
    pub const MAX_BYTES: usize = 1 << 30;

    /// Creates an image from a copy of `bytes` with rows `row_stride` bytes apart.
    ///
    /// # Errors
    /// [`ImageError::Size`], [`ImageError::RowStride`], and [`ImageError::Length`] if `bytes` does
    /// not hold exactly `height` rows.
    pub fn new(
        format: PixelFormat,
        width: usize,
        height: usize,
        row_stride: usize,
        bytes: &[u8],
    ) -> Result<Self, ImageError> {
        let mut image = Self::default();
        // Checked before memory is allocated.
        if row_stride.checked_mul(height) != Some(bytes.len()) {
            return Err(ImageError::Length { found: bytes.len(), height, row_stride });
        }
        image.reshape_padded(format, width, height, row_stride)?.copy_from_slice(bytes);
        Ok(image)
    }

    /// Sets the shape of the image, without row padding, and returns its bytes for writing. Their
    /// content is unspecified.
    ///
    /// # Errors
    /// [`ImageError::Size`].
    pub fn reshape(
        &mut self,
        format: PixelFormat,
        width: usize,
        height: usize,
    ) -> Result<&mut [u8], ImageError> {
        let row = width.saturating_mul(format.pixel_bytes());
        self.reshape_padded(format, width, height, row)
    }

    /// Like [`Image::reshape`], with rows `row_stride` bytes apart, as cameras deliver them.
    ///
    /// # Errors
    /// [`ImageError::Size`] and [`ImageError::RowStride`].
    pub fn reshape_padded(
        &mut self,
        format: PixelFormat,
        width: usize,
        height: usize,
        row_stride: usize,
    ) -> Result<&mut [u8], ImageError> {
        Self::check(format, width, height, row_stride)?;
        let (dtype, unit) = (format.dtype(), format.dtype().size());
        let wrong_size = ImageError::Size { width, height, format: format.name() };
        if self.pixels.dtype() != dtype {
            self.pixels = Tensor::zeros(dtype, &[0, 0]);
        }
        self.pixels.resize(&[height, row_stride / unit]).map_err(|_| wrong_size)?;
        (self.format, self.sizes) = (format, [height, width, format.channels()]);
        Ok(self.pixels.bytes_mut())
    }

    /// Pixel format.
    pub fn format(&self) -> PixelFormat {
        self.format
    }

    /// Width in pixels.
    pub fn width(&self) -> usize {
        self.sizes[1]
    }

    /// Height in pixels.
    pub fn height(&self) -> usize {
        self.sizes[0]
    }

    /// Row stride in bytes.
    pub fn row_stride(&self) -> usize {
        self.pixels.sizes().get(1).copied().unwrap_or(0) * self.format.dtype().size()
    }

    /// All bytes, including row padding, whose content is unspecified.
    pub fn bytes(&self) -> &[u8] {
        self.pixels.view().bytes()
    }

    /// The pixel bytes of each row, without padding.
    pub fn rows(&self) -> impl Iterator<Item = &[u8]> {
        let row = self.width() * self.format.pixel_bytes();
        self.bytes().chunks_exact(self.row_stride().max(1)).map(move |bytes| &bytes[..row])
    }

    /// The pixels as a tensor `[height, width, channels]` of `u8` or `u16`, or `None` if rows are
    /// padded.
    pub fn tensor(&self) -> Option<TensorView<'_>> {
        TensorView::from_bytes(self.format.dtype(), &self.sizes, self.bytes()).ok()
    }

    /// Encodes the image as PNG, losslessly. BGR is written as RGB. The coordinate frame is not
    /// written.
    ///
    /// # Errors
    /// [`ImageError::NoPng`] for an image without pixels.
    pub fn to_png(&self) -> Result<Vec<u8>, ImageError> {
        png::encode(self)
    }

    /// Decodes a PNG file written by [`Image::to_png`].
    ///
    /// # Errors
    /// [`ImageError::Png`] if the file is damaged or its pixels do not match `format`, and
    /// [`ImageError::Size`].
    pub fn from_png(format: PixelFormat, png: &[u8]) -> Result<Self, ImageError> {
        png::decode(format, png)
    }
}

impl Image {
    /// Checks the shape of an image with pixels.
    fn check(
        format: PixelFormat,
        width: usize,
        height: usize,
        row_stride: usize,
    ) -> Result<(), ImageError> {
        let (unit, name) = (format.dtype().size(), format.name());
        let wrong_size = ImageError::Size { width, height, format: name };
        let Some(least) = width.checked_mul(format.pixel_bytes()).filter(|row| *row > 0) else {
            return Err(wrong_size);
        };
        if row_stride < least || !row_stride.is_multiple_of(unit) {
            let format = name;
            return Err(ImageError::RowStride { row_stride, width, format, unit, least });
        }
        if height == 0 || row_stride.checked_mul(height).is_none_or(|all| all > Self::MAX_BYTES) {
            return Err(wrong_size);
        }
        Ok(())
    }

    /// An image without pixels.
    fn empty(format: PixelFormat) -> Self {
        let pixels = Tensor::zeros(format.dtype(), &[0, 0]);
        Self { pixels, sizes: [0, 0, format.channels()], format, frame_id: String::new() }
    }
}

impl Default for Image {
    fn default() -> Self {
        Self::empty(PixelFormat::Rgb8)
    }
}

/// Compares pixels. Row padding is ignored.
impl PartialEq for Image {
    fn eq(&self, other: &Self) -> bool {
        self.format == other.format
            && self.sizes == other.sizes
            && self.frame_id == other.frame_id
            && self.rows().eq(other.rows())
    }
}

impl Payload for Image {
    const TYPE: &'static str = "vision/Image";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);
    const WIRE: Option<&'static dyn WireCodec> = Some(&Wire::<Self>::NEW);
    const ON_FULL: OnFull = OnFull::Latest;

    fn fields(&self) -> Vec<(&'static str, Field)> {
        let int = |n: usize| Field::Int(i64::try_from(n).unwrap_or(i64::MAX));
        vec![
            ("width", int(self.width())),
            ("height", int(self.height())),
            ("format", Field::Text(self.format.name().to_owned())),
            ("frame_id", Field::Text(self.frame_id.clone())),
        ]
    }

    fn bulk_bytes(&self) -> usize {
        self.bytes().len()
    }

    fn release_foreign(&mut self) {
        if self.pixels.is_foreign() {
            let frame_id = mem::take(&mut self.frame_id);
            *self = Self { frame_id, ..Self::empty(self.format) };
        }
    }
}

/// The standard message of ROS 2, with PNG data as `compressed_image_transport` writes it. Its
/// stamp is zero because a recording stores the timestamp beside each message. Rows are written
/// without padding.
impl CdrMessage for Image {
    const MESSAGE: &'static str = "sensor_msgs/msg/CompressedImage";
    const SCHEMA: &'static str =
        concat!("std_msgs/Header header\nstring format\nuint8[] data\n", ros_header!());
    const IS_COMPRESSED: bool = true;
    type Wire = RosCompressedImage;

    fn to_wire(&self) -> RosCompressedImage {
        // The last word is the encoding that OpenCV decodes the file to.
        let read_as = match self.format {
            PixelFormat::Rgb8 | PixelFormat::Bgr8 => "bgr8",
            PixelFormat::Rgba8 => "bgra8",
            PixelFormat::Mono8 | PixelFormat::Mono16 | PixelFormat::Depth16 => "",
        };
        RosCompressedImage {
            stamp: (0, 0),
            frame_id: self.frame_id.clone(),
            format: format!("{}; png compressed {read_as}", self.format.name()),
            // Encoding fails only for an image without pixels, which has no bytes.
            data: Bytes(self.to_png().unwrap_or_default()),
        }
    }

    fn from_wire(wire: RosCompressedImage) -> Result<Self, String> {
        let (format, codec) = wire.format.split_once(';').unwrap_or((&wire.format, ""));
        let format = PixelFormat::from_name(format).filter(|_| codec.contains("png"));
        let format = format.ok_or_else(|| {
            let known = PixelFormat::WORDS.join(", ");
            format!("format {:?} is none of {known} as png", wire.format)
        })?;
        let mut image = if wire.data.0.is_empty() {
            Self::empty(format)
        } else {
            Self::from_png(format, &wire.data.0).map_err(|error| error.to_string())?
        };
        image.frame_id = wire.frame_id;
        Ok(image)
    }

    fn write_uncompressed(&self, bytes: &mut Vec<u8>) {
        for text in [self.format.name(), &self.frame_id] {
            bytes.extend((text.len() as u64).to_le_bytes());
            bytes.extend(text.as_bytes());
        }
        bytes.extend(self.sizes.iter().flat_map(|size| (*size as u64).to_le_bytes()));
        self.rows().for_each(|row| bytes.extend(row));
    }
}

/// Fields of `sensor_msgs/msg/CompressedImage`.
#[derive(Serialize, Deserialize)]
pub struct RosCompressedImage {
    stamp: (i32, u32),
    frame_id: String,
    format: String,
    data: Bytes,
}

#[cfg(test)]
mod tests {
    use super::*;
    use afferent_graph::{Header, Packet};

    /// A test image of `format` with `gap` bytes of padding after each row.
    fn test_image(format: PixelFormat, width: usize, height: usize, gap: usize) -> Image {
        let row_stride = width * format.pixel_bytes() + gap;
        let bytes: Vec<u8> = (0..row_stride * height).map(|at| (at * at / 7) as u8).collect();
        let image = Image::new(format, width, height, row_stride, &bytes).unwrap();
        Image { frame_id: "camera".to_owned(), ..image }
    }

    fn read(message: &[u8]) -> Result<Packet, String> {
        Image::CODEC.unwrap().decode(message, Header::default())
    }

    fn write(image: &Image) -> Vec<u8> {
        let mut message = Vec::new();
        Image::CODEC.unwrap().encode(image, &mut message).unwrap();
        message
    }

    #[test]
    fn rows_exclude_padding() {
        let image = Image::new(PixelFormat::Mono8, 2, 3, 4, b"ab..cd..ef..").unwrap();
        assert_eq!(image.rows().collect::<Vec<_>>(), [b"ab", b"cd", b"ef"]);
        assert_eq!((image.width(), image.height(), image.row_stride()), (2, 3, 4));
        assert!(image.tensor().is_none(), "a tensor has no gaps");
        let dense = Image::new(PixelFormat::Mono8, 2, 3, 2, b"abcdef").unwrap();
        assert_eq!(image, dense);
        assert_eq!(dense.tensor().unwrap().sizes(), [3, 2, 1]);
        assert_eq!(Image::default().rows().count(), 0);
    }

    #[test]
    fn sixteen_bit_images_are_tensors_of_u16() {
        let bytes: Vec<u8> = [1_u16, 500, 65_535].iter().flat_map(|v| v.to_ne_bytes()).collect();
        let image = Image::new(PixelFormat::Depth16, 3, 1, 6, &bytes).unwrap();
        assert_eq!(image.tensor().unwrap().data::<u16>().unwrap(), [1, 500, 65_535]);
    }

    #[test]
    fn invalid_sizes_are_rejected() {
        let check = |format, [width, height, row_stride]: [usize; 3], len: usize, error: &str| {
            let found = Image::new(format, width, height, row_stride, &vec![0; len]);
            assert_eq!(found.unwrap_err().to_string(), error);
        };
        check(PixelFormat::Rgb8, [4, 2, 12], 23, "23 bytes do not match 2 rows of 12 bytes");
        check(
            PixelFormat::Rgb8,
            [4, 2, usize::MAX],
            24,
            &format!("24 bytes do not match 2 rows of {} bytes", usize::MAX),
        );
        let error = "a row stride of 11 bytes does not fit 4 pixels of rgb8: it must be a multiple \
                     of 1 and at least 12";
        check(PixelFormat::Rgb8, [4, 2, 11], 22, error);
        let error = "a row stride of 9 bytes does not fit 4 pixels of mono16: it must be a \
                     multiple of 2 and at least 8";
        check(PixelFormat::Mono16, [4, 2, 9], 18, error);
        let error = "an image of 0 × 2 pixels of mono8 is not supported; it must have at least one \
                     pixel and at most 1073741824 bytes";
        check(PixelFormat::Mono8, [0, 2, 0], 0, error);
        let huge = Image::default().reshape(PixelFormat::Rgba8, 1 << 20, 1 << 20).map(drop);
        assert!(matches!(huge, Err(ImageError::Size { .. })));
        let huge = Image::default().reshape(PixelFormat::Rgba8, usize::MAX, 1).map(drop);
        assert!(matches!(huge, Err(ImageError::Size { .. })));
    }

    #[test]
    fn reshape_reuses_sufficient_memory() {
        let mut image = Image::default();
        let first = image.reshape(PixelFormat::Rgb8, 64, 48).unwrap().as_ptr();
        assert_eq!(image.reshape(PixelFormat::Bgr8, 32, 32).unwrap().as_ptr(), first);
        image.reshape(PixelFormat::Mono16, 64, 48).unwrap().fill(7);
        assert_eq!(image.tensor().unwrap().data::<u16>().unwrap()[0], 0x0707);
    }

    #[test]
    fn images_of_every_format_round_trip() {
        for &format in PixelFormat::VALUES {
            for (width, height, gap) in [(1, 1, 0), (37, 5, 0), (37, 5, 12), (64, 64, 64)] {
                let image = test_image(format, width, height, gap);
                let packet = read(&write(&image)).unwrap();
                let again = packet.get::<Image>().unwrap();
                assert_eq!(*again, image, "{width} x {height} {}", format.name());
                assert_eq!(again.row_stride(), width * format.pixel_bytes(), "without gaps");
                assert_eq!(write(again), write(&image));
            }
        }
        let empty = read(&write(&Image::default())).unwrap();
        assert_eq!(*empty.get::<Image>().unwrap(), Image::default());
        assert!(Image::default().to_png().is_err());
    }

    #[test]
    fn values_are_compared_uncompressed() {
        let codec = Image::CODEC.unwrap();
        let image = test_image(PixelFormat::Bgr8, 30, 20, 6);
        let mut bytes = Vec::new();
        codec.encode_uncompressed(&image, &mut bytes).unwrap();
        assert!(bytes.len() > 30 * 20 * 3);
        let message = write(&image);
        assert_eq!(*codec.uncompressed(&message).unwrap(), *bytes);
        assert!(codec.uncompressed(&message[..90]).is_err());
        let other = Image { frame_id: "other".to_owned(), ..image };
        assert_ne!(*codec.uncompressed(&write(&other)).unwrap(), *bytes);
    }

    #[test]
    fn messages_without_an_image_are_rejected() {
        let check = |format: &str, data: &[u8], error: &str| {
            let (format, data) = (format.to_owned(), Bytes(data.to_vec()));
            let wire = RosCompressedImage { stamp: (0, 0), frame_id: String::new(), format, data };
            let found = Image::from_wire(wire).unwrap_err();
            assert!(found.contains(error), "{found}");
        };
        let png = test_image(PixelFormat::Rgb8, 40, 30, 0).to_png().unwrap();
        check("jpeg", &png, "format \"jpeg\" is none of mono8, rgb8, bgr8, rgba8, mono16, 16UC1");
        check("rgb8; jpeg compressed bgr8", &png, "is none of");
        check("mono16; png compressed ", &png, "its pixels are Rgb of 8 bits; mono16 is Grayscale");
        check("rgb8; png", &png[..png.len() / 2], "cannot be decoded: ");
        check("rgb8; png", &png[..png.len() - 12], "cannot be decoded: ");
        check("rgb8; png", b"not a PNG file", "cannot be decoded: ");
        for (width, height) in [(1 << 30, 1 << 30), (60_000, 1), (0, 5), (u32::MAX, u32::MAX)] {
            check("rgb8; png", &png::with_size(&png, width, height), "cannot be decoded: ");
        }
        check("rgb8; png", &png::with_size(&png, 39, 30), "cannot be decoded: ");
        check("rgb8; png", &png::with_size(&png, 40, 31), "cannot be decoded: ");
    }

    #[test]
    fn damaged_messages_give_an_error_or_an_image() {
        let message = write(&test_image(PixelFormat::Rgba8, 12, 9, 0));
        let mut refused = 0;
        for at in 4..message.len() {
            for flip in [1, 0x80, 0xff] {
                let mut wrong = message.clone();
                wrong[at] ^= flip;
                refused += usize::from(read(&wrong).is_err());
            }
        }
        assert!(refused > 0);
    }

    #[test]
    fn a_black_image_compresses_and_round_trips() {
        let mut image = Image::default();
        image.reshape(PixelFormat::Mono8, 3000, 2000).unwrap().fill(0);
        let png = image.to_png().unwrap();
        assert!(png.len() < 60_000, "{}", png.len());
        assert_eq!(Image::from_png(PixelFormat::Mono8, &png).unwrap(), image);
    }
}
