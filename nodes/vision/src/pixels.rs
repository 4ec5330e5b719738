//! Images as sources of the fused kernel for images.

use afferent_messages::{ColorRange, Image, PixelFormat};
use afferent_simd::image::{Format, Plane, Source, Yuv};

/// The image as a source of `afferent_simd::image`.
///
/// # Errors
/// The pixel format that has no colors, and what is accepted.
pub fn source_of(image: &Image) -> Result<Source, String> {
    let format = match image.format() {
        PixelFormat::Mono8 => Format::Mono8,
        PixelFormat::Rgb8 => Format::Rgb8,
        PixelFormat::Bgr8 => Format::Bgr8,
        PixelFormat::Rgba8 => Format::Rgba8,
        PixelFormat::Yuyv => Format::Yuyv,
        PixelFormat::Uyvy => Format::Uyvy,
        PixelFormat::Nv12 => Format::Nv12,
        PixelFormat::I420 => Format::I420,
        other @ (PixelFormat::Mono16 | PixelFormat::Depth16 | PixelFormat::Depth32) => {
            return Err(format!(
                "images in {} are not supported; accepted are mono8, rgb8, bgr8, rgba8, yuyv, uyvy, \
                 nv12 and i420",
                other.name()
            ));
        }
    };
    let yuv = Yuv {
        weights: image.colorimetry.matrix.weights(),
        is_full_range: image.colorimetry.range == ColorRange::Full,
    };
    Ok(Source { format, width: image.width(), height: image.height(), yuv })
}

/// Calls `f` with the planes of the image, which are read back if they are on the GPU.
///
/// # Errors
/// If the GPU was lost, and the errors of `f`.
pub fn with_planes<T, E: std::fmt::Display>(
    image: &Image,
    f: impl FnOnce(&[Plane<'_>]) -> Result<T, E>,
) -> Result<T, String> {
    image.pixels().fetch().map_err(|error| error.to_string())?;
    let mut planes = [Plane { bytes: &[], row_stride: 0 }; 3];
    let mut count = 0;
    for (to, plane) in planes.iter_mut().zip(image.planes()) {
        *to = Plane { bytes: plane.bytes, row_stride: plane.row_stride };
        count += 1;
    }
    f(&planes[..count]).map_err(|error| error.to_string())
}
