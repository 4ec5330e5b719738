//! Errors of images.

use afferent_graph::NodeError;

use super::Image;
#[cfg(doc)]
use super::PixelFormat;

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
    /// The row stride is too small, or is not a multiple of the accepted unit.
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
        /// [`PixelFormat::stride_unit`].
        unit: usize,
        /// Size of the pixels of a row in bytes.
        least: usize,
    },
    /// The size is odd, but pixels of the format share their chroma.
    #[error(
        "an image of {width} × {height} pixels of {format} is not supported; the width must be a \
         multiple of {}, the height of {}",
        unit[0], unit[1]
    )]
    Subsampling {
        /// Width in pixels.
        width: usize,
        /// Height in pixels.
        height: usize,
        /// [`PixelFormat::name`].
        format: &'static str,
        /// [`PixelFormat::subsampling`].
        unit: [usize; 2],
    },
    /// The number of bytes does not match the height and the row stride.
    #[error("{found} bytes do not match {rows} rows of {row_stride} bytes")]
    Length {
        /// Number of bytes given.
        found: usize,
        /// Number of rows of all planes.
        rows: usize,
        /// Row stride in bytes.
        row_stride: usize,
    },
    /// A PNG file cannot be decoded, or has another pixel format.
    #[error("the PNG image cannot be decoded: {reason}")]
    Png {
        /// Reason of the failure.
        reason: String,
    },
    /// A JPEG file cannot be decoded, or not to the pixel format.
    #[error("the JPEG image cannot be decoded: {reason}")]
    Jpeg {
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
