//! Images.

use std::{mem, sync::Arc};

use afferent_core::{Tensor, TensorView};

use crate::{Affine, Camera, Cdr, Wire};
use afferent_graph::{Field, OnFull, Payload, RecordCodec, WireCodec};

mod error;
mod format;
mod jpeg;
mod message;
mod png;
mod ros;
#[cfg(test)]
mod tests;
mod wire;

pub use error::ImageError;
pub use format::{ColorMatrix, ColorRange, Colorimetry, PixelFormat};
pub use ros::RawImage;

/// An image: rows from top to bottom, pixels from left to right, stored in a tensor.
///
/// Planes of chroma follow the luma: of `nv12` with the same row stride, of `i420` with half of it.
///
/// The timestamp of its packet is the middle of the exposure. The default image has no pixels.
#[derive(Debug, Clone)]
pub struct Image {
    /// `[rows of all planes, row]`, of the dtype of the format. A row may be longer than its pixels.
    pixels: Tensor,
    /// Height, width, and channels.
    sizes: [usize; 3],
    format: PixelFormat,
    /// Coordinate frame of the camera: x to the right, y down, z forward.
    pub frame_id: String,
    /// Meaning of the values of a YUV format.
    pub colorimetry: Colorimetry,
    /// Map from pixels of this image to pixels of the source image, which is the image as the camera
    /// delivered it. A node that resizes or crops composes it with its own map.
    pub to_source: Affine,
    /// Calibration of the camera for the source image, if known.
    pub camera: Option<Arc<Camera>>,
}

/// A plane of an image.
#[derive(Debug, Clone, Copy)]
pub struct Plane<'i> {
    /// All bytes, including row padding, whose content is unspecified.
    pub bytes: &'i [u8],
    /// Row stride in bytes.
    pub row_stride: usize,
    /// Size of a row without padding, in bytes.
    pub row_bytes: usize,
}

impl<'i> Plane<'i> {
    /// The bytes of each row, without padding.
    pub fn rows(self) -> impl Iterator<Item = &'i [u8]> {
        self.bytes.chunks_exact(self.row_stride.max(1)).map(move |row| &row[..self.row_bytes])
    }
}

impl Image {
    /// Maximum size of an image in bytes, including row padding.
    pub const MAX_BYTES: usize = 1 << 30;

    /// Creates an image from a copy of `bytes` with rows `row_stride` bytes apart.
    ///
    /// # Errors
    /// [`ImageError::Size`], [`ImageError::Subsampling`], [`ImageError::RowStride`], and
    /// [`ImageError::Length`] if `bytes` does not hold exactly the rows of all planes.
    pub fn new(
        format: PixelFormat,
        width: usize,
        height: usize,
        row_stride: usize,
        bytes: &[u8],
    ) -> Result<Self, ImageError> {
        let mut image = Self::default();
        // Checked before memory is allocated.
        Self::check_length(format, height, row_stride, bytes.len())?;
        image.reshape_padded(format, width, height, row_stride)?.copy_from_slice(bytes);
        Ok(image)
    }

    /// Sets the shape of the image, without row padding, and returns its bytes for writing. Their
    /// content is unspecified.
    ///
    /// Resets `colorimetry`, `to_source` and `camera`, which a loaned image may have from an earlier
    /// use.
    ///
    /// # Errors
    /// [`ImageError::Size`] and [`ImageError::Subsampling`].
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
    /// [`ImageError::Size`], [`ImageError::Subsampling`] and [`ImageError::RowStride`].
    pub fn reshape_padded(
        &mut self,
        format: PixelFormat,
        width: usize,
        height: usize,
        row_stride: usize,
    ) -> Result<&mut [u8], ImageError> {
        Self::check(format, width, height, row_stride)?;
        let dtype = format.dtype();
        let wrong_size = ImageError::Size { width, height, format: format.name() };
        if self.pixels.dtype() != dtype {
            self.pixels = Tensor::zeros(dtype, &[0, 0]);
        }
        let sizes = [format.stored_rows(height), row_stride / dtype.size()];
        self.pixels.resize(&sizes).map_err(|_| wrong_size)?;
        (self.format, self.sizes) = (format, [height, width, format.channels()]);
        (self.colorimetry, self.to_source, self.camera) = Default::default();
        Ok(self.pixels.bytes_mut())
    }

    /// Takes the coordinate frame, the camera and the map to the source image from `image`, from
    /// whose pixels this image was made: `to_image` maps its pixels to those of `image`.
    pub fn derive_from(&mut self, image: &Self, to_image: &Affine) {
        self.frame_id.clone_from(&image.frame_id);
        self.camera.clone_from(&image.camera);
        self.to_source = image.to_source.after(to_image);
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

    /// Row stride in bytes, of the first plane.
    pub fn row_stride(&self) -> usize {
        self.pixels.sizes().get(1).copied().unwrap_or(0) * self.format.dtype().size()
    }

    /// The pixels: `[rows of all planes, row]`, of the dtype of the format.
    pub fn pixels(&self) -> &Tensor {
        &self.pixels
    }

    /// Replaces the shape and the pixels, which may be on a device. Resets what [`Image::reshape`]
    /// resets.
    ///
    /// # Errors
    /// As [`Image::reshape_padded`], and [`ImageError::Length`] if `pixels` is not a row-major tensor
    /// `[rows of all planes, row]` of the dtype of the format.
    pub fn set_pixels(
        &mut self,
        format: PixelFormat,
        width: usize,
        height: usize,
        pixels: Tensor,
    ) -> Result<(), ImageError> {
        let rows = format.stored_rows(height);
        let row = pixels.sizes().get(1).copied().unwrap_or(0);
        let row_stride = row.saturating_mul(format.dtype().size());
        Self::check(format, width, height, row_stride)?;
        let is_stored = pixels.dtype() == format.dtype() && pixels.dim_order() == [0, 1];
        if !is_stored || pixels.sizes() != [rows, row] {
            return Err(ImageError::Length { found: pixels.byte_len(), rows, row_stride });
        }
        (self.format, self.sizes) = (format, [height, width, format.channels()]);
        (self.colorimetry, self.to_source, self.camera) = Default::default();
        self.pixels = pixels;
        Ok(())
    }

    /// Offset in [`Image::bytes`] and row stride of each plane, in bytes.
    pub fn plane_layout(&self) -> Vec<(usize, usize)> {
        let (stride, height) = (self.row_stride(), self.height());
        let luma = (0, stride);
        let chroma = stride * height;
        match self.format {
            PixelFormat::I420 => {
                vec![luma, (chroma, stride / 2), (chroma + stride * height / 4, stride / 2)]
            }
            PixelFormat::Nv12 => vec![luma, (chroma, stride)],
            _ => vec![luma],
        }
    }

    /// All bytes, including row padding, whose content is unspecified.
    pub fn bytes(&self) -> &[u8] {
        self.pixels.view().bytes()
    }

    /// The planes: one, or luma and chroma of a planar format.
    pub fn planes(&self) -> impl Iterator<Item = Plane<'_>> {
        let (row_stride, row_bytes) = (self.row_stride(), self.width() * self.format.pixel_bytes());
        let (first, chroma) = self.bytes().split_at(row_stride * self.height());
        let split = usize::from(self.format == PixelFormat::I420) + 1;
        let chroma = chroma.chunks_exact((chroma.len() / split).max(1)).map(move |bytes| Plane {
            bytes,
            row_stride: row_stride / split,
            row_bytes: row_bytes / split,
        });
        std::iter::once(Plane { bytes: first, row_stride, row_bytes }).chain(chroma)
    }

    /// The bytes of each row of each plane, without padding.
    pub fn rows(&self) -> impl Iterator<Item = &[u8]> {
        self.planes().flat_map(Plane::rows)
    }

    /// The pixels as a tensor `[height, width, channels]` of `u8`, `u16` or `f32`, or `None` if rows
    /// are padded or there are several planes.
    pub fn tensor(&self) -> Option<TensorView<'_>> {
        TensorView::from_bytes(self.format.dtype(), &self.sizes, self.bytes()).ok()
    }

    /// Encodes the image as PNG, losslessly. BGR is written as RGB. A YUV format is written as a
    /// gray image of the rows of its planes, one below the other, and `32FC1` as RGBA, with the
    /// highest byte of a value as red. The coordinate frame and the geometry are not written.
    ///
    /// # Errors
    /// [`ImageError::NoPng`] for an image without pixels.
    pub fn to_png(&self) -> Result<Vec<u8>, ImageError> {
        png::encode(self, None)
    }

    /// Formats that JPEG files are decoded to.
    pub const JPEG_FORMATS: [PixelFormat; 3] = jpeg::FORMATS;

    /// Decodes a JPEG file into this image, as one of [`Image::JPEG_FORMATS`], or if `format` is absent
    /// as `mono8` or `rgb8`, as the file has colors.
    ///
    /// # Errors
    /// [`ImageError::Jpeg`].
    pub fn read_jpeg(
        &mut self,
        format: Option<PixelFormat>,
        file: &[u8],
    ) -> Result<(), ImageError> {
        jpeg::decode(self, format, file).map_err(|reason| ImageError::Jpeg { reason })
    }

    /// Decodes a PNG or JPEG file into this image, with the pixel format of the file.
    ///
    /// # Errors
    /// [`ImageError::Png`] and [`ImageError::Jpeg`].
    pub fn read_file(&mut self, file: &[u8]) -> Result<(), ImageError> {
        if file.starts_with(&jpeg::START) {
            return self.read_jpeg(None, file);
        }
        *self = png::decode_any(file)?;
        Ok(())
    }

    /// Decodes a PNG file written by [`Image::to_png`].
    ///
    /// # Errors
    /// [`ImageError::Png`] if the file is damaged or its pixels do not match `format`,
    /// [`ImageError::Size`], and [`ImageError::Subsampling`].
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
        let (unit, name) = (format.stride_unit(), format.name());
        let wrong_size = ImageError::Size { width, height, format: name };
        let Some(least) = width.checked_mul(format.pixel_bytes()).filter(|row| *row > 0) else {
            return Err(wrong_size);
        };
        let [columns, rows] = format.subsampling();
        if !width.is_multiple_of(columns) || !height.is_multiple_of(rows) {
            let (format, unit) = (name, [columns, rows]);
            return Err(ImageError::Subsampling { width, height, format, unit });
        }
        if row_stride < least || !row_stride.is_multiple_of(unit) {
            let format = name;
            return Err(ImageError::RowStride { row_stride, width, format, unit, least });
        }
        let bytes = row_stride.checked_mul(format.stored_rows(height));
        if height == 0 || bytes.is_none_or(|all| all > Self::MAX_BYTES) {
            return Err(wrong_size);
        }
        Ok(())
    }

    /// Checks the number of bytes of an image.
    fn check_length(
        format: PixelFormat,
        height: usize,
        row_stride: usize,
        found: usize,
    ) -> Result<(), ImageError> {
        let rows = format.stored_rows(height);
        if row_stride.checked_mul(rows) != Some(found) {
            return Err(ImageError::Length { found, rows, row_stride });
        }
        Ok(())
    }

    /// An image without pixels.
    fn empty(format: PixelFormat) -> Self {
        Self {
            pixels: Tensor::zeros(format.dtype(), &[0, 0]),
            sizes: [0, 0, format.channels()],
            format,
            frame_id: String::new(),
            colorimetry: Colorimetry::default(),
            to_source: Affine::IDENTITY,
            camera: None,
        }
    }
}

impl Default for Image {
    fn default() -> Self {
        Self::empty(PixelFormat::Rgb8)
    }
}

/// Compares pixels and their meaning. Row padding is ignored.
impl PartialEq for Image {
    fn eq(&self, other: &Self) -> bool {
        self.format == other.format
            && self.sizes == other.sizes
            && self.frame_id == other.frame_id
            && self.colorimetry == other.colorimetry
            && self.to_source == other.to_source
            && self.camera == other.camera
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
        self.pixels.byte_len()
    }

    fn release_foreign(&mut self) {
        if self.pixels.is_foreign() {
            let frame_id = mem::take(&mut self.frame_id);
            *self = Self { frame_id, ..Self::empty(self.format) };
        }
    }
}
