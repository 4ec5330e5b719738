//! Pictures.

use afferent_core::{ScalarType, Tensor, TensorView};
use serde::{Deserialize, Serialize};

use crate::{Cdr, CdrMessage, cdr::ros_header};
use afferent_graph::{Choice, Field, NodeError, OnFull, Payload, RecordCodec, choices};

mod bytes;
mod png;

use bytes::Bytes;

choices! {
    /// What a pixel is made of, in the order of memory and by the names of ROS
    /// (`sensor_msgs/image_encodings`). Values of 16 bits are in the byte order of the machine.
    pub enum PixelFormat {
        /// Brightness, 8 bits.
        Mono8 = "mono8",
        /// Red, green, blue, 8 bits each.
        Rgb8 = "rgb8",
        /// Blue, green, red, 8 bits each.
        Bgr8 = "bgr8",
        /// Red, green, blue, opacity, 8 bits each; colours are not multiplied by opacity.
        Rgba8 = "rgba8",
        /// Brightness, 16 bits.
        Mono16 = "mono16",
        /// Distance along the optical axis in millimetres, 16 bits; 0 where it is not known
        /// (REP 118).
        Depth16 = "16UC1",
    }
}

impl PixelFormat {
    /// As in graph files and messages.
    pub fn name(self) -> &'static str {
        let place = Self::VALUES.iter().position(|format| *format == self);
        place.and_then(|place| Self::WORDS.get(place)).copied().unwrap_or_default()
    }

    /// The format with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::VALUES.iter().copied().find(|format| format.name() == name)
    }

    /// Values of a pixel.
    pub const fn channels(self) -> usize {
        match self {
            Self::Mono8 | Self::Mono16 | Self::Depth16 => 1,
            Self::Rgb8 | Self::Bgr8 => 3,
            Self::Rgba8 => 4,
        }
    }

    /// What a value is.
    pub const fn dtype(self) -> ScalarType {
        match self {
            Self::Mono8 | Self::Rgb8 | Self::Bgr8 | Self::Rgba8 => ScalarType::Byte,
            Self::Mono16 | Self::Depth16 => ScalarType::UInt16,
        }
    }

    /// Bytes of a pixel.
    pub const fn pixel_bytes(self) -> usize {
        self.channels() * self.dtype().size()
    }
}

impl From<ImageError> for NodeError {
    fn from(error: ImageError) -> Self {
        Self::Payload(error.to_string())
    }
}

/// Why something is no picture.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// It has no pixels, or too many.
    #[error(
        "{width} × {height} pixels of {format} are no picture; it has at least one and takes at \
         most {} bytes",
        Image::MAX_BYTES
    )]
    Size {
        /// In pixels.
        width: usize,
        /// In pixels.
        height: usize,
        /// [`PixelFormat::name`].
        format: &'static str,
    },
    /// Its rows do not fit into their memory.
    #[error(
        "a row stride of {row_stride} bytes does not suit {width} pixels of {format}: it is a \
         multiple of {unit}, at least {least}"
    )]
    RowStride {
        /// From one row to the next, in bytes.
        row_stride: usize,
        /// In pixels.
        width: usize,
        /// [`PixelFormat::name`].
        format: &'static str,
        /// Bytes of one value.
        unit: usize,
        /// Bytes of the pixels of a row.
        least: usize,
    },
    /// There are more or fewer bytes than pixels.
    #[error("{found} bytes are not {height} rows of {row_stride}")]
    Length {
        /// The bytes that there are.
        found: usize,
        /// In pixels.
        height: usize,
        /// From one row to the next, in bytes.
        row_stride: usize,
    },
    /// A PNG file cannot be read, or is of another format.
    #[error("the PNG picture cannot be read: {reason}")]
    Png {
        /// What is wrong with it.
        reason: String,
    },
    /// A PNG file cannot be made.
    #[error("the picture cannot be written as PNG: {reason}")]
    NoPng {
        /// What is in the way.
        reason: String,
    },
}

/// A picture: rows of pixels from the top, each from the left, in the memory of a tensor.
///
/// The time of its packet is the middle of the exposure. The default has no pixels.
#[derive(Debug, Clone)]
pub struct Image {
    /// `[height, row]`, of the dtype of the format; a row may be longer than its pixels.
    pixels: Tensor,
    /// Height, width and channels.
    sizes: [usize; 3],
    format: PixelFormat,
    /// The coordinate frame of the camera: x to the right, y down, z into the picture.
    pub frame_id: String,
}

impl Image {
    /// Largest size of the memory of a picture, in bytes.
    pub const MAX_BYTES: usize = 1 << 30;

    /// A picture with a copy of `bytes`, whose rows lie `row_stride` bytes apart.
    ///
    /// # Errors
    /// [`ImageError::Size`], [`ImageError::RowStride`], and [`ImageError::Length`] when `bytes` are
    /// not exactly its rows.
    pub fn new(
        format: PixelFormat,
        width: usize,
        height: usize,
        row_stride: usize,
        bytes: &[u8],
    ) -> Result<Self, ImageError> {
        let mut image = Self::default();
        // Before memory is asked for.
        if row_stride.checked_mul(height) != Some(bytes.len()) {
            return Err(ImageError::Length { found: bytes.len(), height, row_stride });
        }
        image.reshape_padded(format, width, height, row_stride)?.copy_from_slice(bytes);
        Ok(image)
    }

    /// Gives the picture its shape and returns its bytes to fill, row after row without gaps. What
    /// they hold is unspecified.
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

    /// The same with rows that lie `row_stride` bytes apart, as cameras give them.
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
        let (dtype, name) = (format.dtype(), format.name());
        let wrong_size = ImageError::Size { width, height, format: name };
        let Some(least) = width.checked_mul(format.pixel_bytes()).filter(|row| *row > 0) else {
            return Err(wrong_size);
        };
        let unit = dtype.size();
        if row_stride < least || !row_stride.is_multiple_of(unit) {
            let format = name;
            return Err(ImageError::RowStride { row_stride, width, format, unit, least });
        }
        if height == 0 || row_stride.checked_mul(height).is_none_or(|all| all > Self::MAX_BYTES) {
            return Err(wrong_size);
        }
        if self.pixels.dtype() != dtype {
            self.pixels = Tensor::zeros(dtype, &[0, 0]);
        }
        self.pixels.resize(&[height, row_stride / unit]).map_err(|_| wrong_size)?;
        (self.format, self.sizes) = (format, [height, width, format.channels()]);
        Ok(self.pixels.bytes_mut())
    }

    /// What a pixel is.
    pub fn format(&self) -> PixelFormat {
        self.format
    }

    /// Pixels of a row.
    pub fn width(&self) -> usize {
        self.sizes[1]
    }

    /// Number of rows.
    pub fn height(&self) -> usize {
        self.sizes[0]
    }

    /// From one row to the next, in bytes.
    pub fn row_stride(&self) -> usize {
        self.pixels.sizes().get(1).copied().unwrap_or(0) * self.format.dtype().size()
    }

    /// All bytes, with those between the rows, which mean nothing.
    pub fn bytes(&self) -> &[u8] {
        self.pixels.view().bytes()
    }

    /// The bytes of the pixels of each row.
    pub fn rows(&self) -> impl Iterator<Item = &[u8]> {
        let row = self.width() * self.format.pixel_bytes();
        self.bytes().chunks_exact(self.row_stride().max(1)).map(move |bytes| &bytes[..row])
    }

    /// The pixels as a tensor `[height, width, channels]` of `u8` or `u16`; `None` when there is
    /// something between the rows.
    pub fn tensor(&self) -> Option<TensorView<'_>> {
        TensorView::from_bytes(self.format.dtype(), &self.sizes, self.bytes()).ok()
    }

    /// The picture as a PNG file, without loss. Blue, green, red is written as red, green, blue;
    /// the frame is left out.
    ///
    /// # Errors
    /// [`ImageError::NoPng`], for a picture without pixels.
    pub fn to_png(&self) -> Result<Vec<u8>, ImageError> {
        png::encode(self)
    }

    /// The picture that [`Image::to_png`] made `png` of.
    ///
    /// # Errors
    /// [`ImageError::Png`] when it is damaged or its pixels are not what is written for `format`,
    /// and [`ImageError::Size`].
    pub fn from_png(format: PixelFormat, png: &[u8]) -> Result<Self, ImageError> {
        png::decode(format, png)
    }
}

impl Image {
    /// A picture without pixels.
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

/// By what is seen: what lies between the rows does not count.
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
}

/// The standard message of ROS 2, as its `compressed_image_transport` writes PNG. Its stamp is
/// zero: a recording has the time beside each message. Rows are written without gaps.
impl CdrMessage for Image {
    const MESSAGE: &'static str = "sensor_msgs/msg/CompressedImage";
    const SCHEMA: &'static str =
        concat!("std_msgs/Header header\nstring format\nuint8[] data\n", ros_header!());
    const IS_COMPRESSED: bool = true;
    type Wire = RosCompressedImage;

    fn to_wire(&self) -> RosCompressedImage {
        // The last word is what OpenCV makes of the file.
        let read_as = match self.format {
            PixelFormat::Rgb8 | PixelFormat::Bgr8 => "bgr8",
            PixelFormat::Rgba8 => "bgra8",
            PixelFormat::Mono8 | PixelFormat::Mono16 | PixelFormat::Depth16 => "",
        };
        RosCompressedImage {
            stamp: (0, 0),
            frame_id: self.frame_id.clone(),
            format: format!("{}; png compressed {read_as}", self.format.name()),
            // Only a picture without pixels has no PNG file; it has no bytes.
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

/// The fields of `sensor_msgs/msg/CompressedImage`.
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

    /// A picture of `format` whose rows lie `gap` bytes further apart than they must.
    fn picture(format: PixelFormat, width: usize, height: usize, gap: usize) -> Image {
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
    fn rows_are_seen_without_what_lies_between_them() {
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
    fn values_of_16_bits_are_a_tensor_of_u16() {
        let bytes: Vec<u8> = [1_u16, 500, 65_535].iter().flat_map(|v| v.to_ne_bytes()).collect();
        let image = Image::new(PixelFormat::Depth16, 3, 1, 6, &bytes).unwrap();
        assert_eq!(image.tensor().unwrap().data::<u16>().unwrap(), [1, 500, 65_535]);
    }

    #[test]
    fn what_is_no_picture_is_refused() {
        let check = |format, [width, height, row_stride]: [usize; 3], len: usize, error: &str| {
            let found = Image::new(format, width, height, row_stride, &vec![0; len]);
            assert_eq!(found.unwrap_err().to_string(), error);
        };
        check(PixelFormat::Rgb8, [4, 2, 12], 23, "23 bytes are not 2 rows of 12");
        check(
            PixelFormat::Rgb8,
            [4, 2, usize::MAX],
            24,
            &format!("24 bytes are not 2 rows of {}", usize::MAX),
        );
        let error = "a row stride of 11 bytes does not suit 4 pixels of rgb8: it is a multiple of \
                     1, at least 12";
        check(PixelFormat::Rgb8, [4, 2, 11], 22, error);
        let error = "a row stride of 9 bytes does not suit 4 pixels of mono16: it is a multiple of \
                     2, at least 8";
        check(PixelFormat::Mono16, [4, 2, 9], 18, error);
        let error = "0 × 2 pixels of mono8 are no picture; it has at least one and takes at most \
                     1073741824 bytes";
        check(PixelFormat::Mono8, [0, 2, 0], 0, error);
        let huge = Image::default().reshape(PixelFormat::Rgba8, 1 << 20, 1 << 20).map(drop);
        assert!(matches!(huge, Err(ImageError::Size { .. })));
        let huge = Image::default().reshape(PixelFormat::Rgba8, usize::MAX, 1).map(drop);
        assert!(matches!(huge, Err(ImageError::Size { .. })));
    }

    #[test]
    fn memory_is_kept_where_it_suffices() {
        let mut image = Image::default();
        let first = image.reshape(PixelFormat::Rgb8, 64, 48).unwrap().as_ptr();
        assert_eq!(image.reshape(PixelFormat::Bgr8, 32, 32).unwrap().as_ptr(), first);
        image.reshape(PixelFormat::Mono16, 64, 48).unwrap().fill(7);
        assert_eq!(image.tensor().unwrap().data::<u16>().unwrap()[0], 0x0707);
    }

    #[test]
    fn pictures_of_every_format_come_back_bit_by_bit() {
        for &format in PixelFormat::VALUES {
            for (width, height, gap) in [(1, 1, 0), (37, 5, 0), (37, 5, 12), (64, 64, 64)] {
                let image = picture(format, width, height, gap);
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
        let image = picture(PixelFormat::Bgr8, 30, 20, 6);
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
    fn messages_that_hold_no_picture_are_refused() {
        let check = |format: &str, data: &[u8], error: &str| {
            let (format, data) = (format.to_owned(), Bytes(data.to_vec()));
            let wire = RosCompressedImage { stamp: (0, 0), frame_id: String::new(), format, data };
            let found = Image::from_wire(wire).unwrap_err();
            assert!(found.contains(error), "{found}");
        };
        let png = picture(PixelFormat::Rgb8, 40, 30, 0).to_png().unwrap();
        check("jpeg", &png, "format \"jpeg\" is none of mono8, rgb8, bgr8, rgba8, mono16, 16UC1");
        check("rgb8; jpeg compressed bgr8", &png, "is none of");
        check("mono16; png compressed ", &png, "its pixels are Rgb of 8 bits; mono16 is Grayscale");
        check("rgb8; png", &png[..png.len() / 2], "cannot be read: ");
        check("rgb8; png", &png[..png.len() - 12], "cannot be read: ");
        check("rgb8; png", b"no picture", "cannot be read: ");
        for (width, height) in [(1 << 30, 1 << 30), (60_000, 1), (0, 5), (u32::MAX, u32::MAX)] {
            check("rgb8; png", &png::with_size(&png, width, height), "cannot be read: ");
        }
        check("rgb8; png", &png::with_size(&png, 39, 30), "cannot be read: ");
        check("rgb8; png", &png::with_size(&png, 40, 31), "cannot be read: ");
    }

    #[test]
    fn wrong_bytes_give_an_error_or_a_picture() {
        let message = write(&picture(PixelFormat::Rgba8, 12, 9, 0));
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
    fn a_dark_picture_takes_little_and_comes_back() {
        let mut image = Image::default();
        image.reshape(PixelFormat::Mono8, 3000, 2000).unwrap().fill(0);
        let png = image.to_png().unwrap();
        assert!(png.len() < 60_000, "{}", png.len());
        assert_eq!(Image::from_png(PixelFormat::Mono8, &png).unwrap(), image);
    }
}
