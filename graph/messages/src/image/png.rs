//! Lossless PNG encoding of images.

use std::{borrow::Cow, io::Cursor};

use ::png::{BitDepth, ColorType, Compression, Decoder, Encoder, Limits};

use super::{Image, ImageError, PixelFormat};

/// Maximum number of bytes that one byte of a deflate stream can expand to.
const MAX_INFLATE_RATIO: usize = 1032;

/// PNG color type and bit depth of `format`.
fn layout(format: PixelFormat) -> (ColorType, BitDepth) {
    match format {
        PixelFormat::Mono8 => (ColorType::Grayscale, BitDepth::Eight),
        PixelFormat::Rgb8 | PixelFormat::Bgr8 => (ColorType::Rgb, BitDepth::Eight),
        PixelFormat::Rgba8 => (ColorType::Rgba, BitDepth::Eight),
        PixelFormat::Mono16 | PixelFormat::Depth16 => (ColorType::Grayscale, BitDepth::Sixteen),
    }
}

pub(super) fn encode(image: &Image) -> Result<Vec<u8>, ImageError> {
    let fault = |reason: String| ImageError::NoPng { reason };
    let side = |pixels: usize| u32::try_from(pixels).map_err(|error| fault(error.to_string()));
    let (width, height) = (side(image.width())?, side(image.height())?);
    let pixels = to_file(image);
    let mut file = Vec::with_capacity(pixels.len() / 4);
    let mut encoder = Encoder::new(&mut file, width, height);
    let (color, depth) = layout(image.format());
    encoder.set_color(color);
    encoder.set_depth(depth);
    encoder.set_compression(Compression::Fast);
    let written = encoder.write_header().and_then(|mut writer| {
        writer.write_image_data(&pixels)?;
        writer.finish()
    });
    written.map_err(|error| fault(error.to_string()))?;
    Ok(file)
}

pub(super) fn decode(format: PixelFormat, file: &[u8]) -> Result<Image, ImageError> {
    let fault = |reason: String| ImageError::Png { reason };
    let limits = Limits { bytes: Image::MAX_BYTES };
    let mut decoder = Decoder::new_with_limits(Cursor::new(file), limits);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    let header = decoder.read_header_info().map_err(|error| fault(error.to_string()))?;
    let (color, depth) = layout(format);
    if (header.color_type, header.bit_depth) != (color, depth) {
        let (found, bits) = (header.color_type, header.bit_depth as u8);
        let reason = format!(
            "its pixels are {found:?} of {bits} bits; {} is {color:?} of {}",
            format.name(),
            depth as u8
        );
        return Err(fault(reason));
    }
    let side = |pixels: u32| usize::try_from(pixels).unwrap_or(usize::MAX);
    let (width, height) = (side(header.width), side(header.height));
    // A short file that declares a large image must not cause a large allocation.
    let needed = width.saturating_mul(height).saturating_mul(format.pixel_bytes());
    if needed > file.len().saturating_mul(MAX_INFLATE_RATIO) {
        let reason = format!("{} bytes cannot hold {width} × {height} pixels", file.len());
        return Err(fault(reason));
    }
    let mut image = Image::default();
    let pixels = image.reshape(format, width, height)?;
    let read = decoder.read_info().and_then(|mut reader| {
        reader.next_frame(pixels)?;
        reader.finish()
    });
    read.map_err(|error| fault(error.to_string()))?;
    from_file(format, pixels);
    Ok(image)
}

/// Converts the pixels to the order of a PNG file: no padding, red first, 16-bit values in big
/// endian.
fn to_file(image: &Image) -> Cow<'_, [u8]> {
    let is_padded = image.tensor().is_none();
    match image.format() {
        PixelFormat::Mono8 | PixelFormat::Rgb8 | PixelFormat::Rgba8 if !is_padded => {
            return Cow::Borrowed(image.bytes());
        }
        _ => {}
    }
    let mut pixels = Vec::with_capacity(image.bytes().len());
    image.rows().for_each(|row| pixels.extend_from_slice(row));
    match image.format() {
        PixelFormat::Bgr8 => pixels.chunks_exact_mut(3).for_each(|pixel| pixel.swap(0, 2)),
        PixelFormat::Mono16 | PixelFormat::Depth16 => swap_values(&mut pixels, u16::to_be),
        PixelFormat::Mono8 | PixelFormat::Rgb8 | PixelFormat::Rgba8 => {}
    }
    Cow::Owned(pixels)
}

/// Converts the pixels of a PNG file to memory order, in place.
fn from_file(format: PixelFormat, pixels: &mut [u8]) {
    match format {
        PixelFormat::Bgr8 => pixels.chunks_exact_mut(3).for_each(|pixel| pixel.swap(0, 2)),
        PixelFormat::Mono16 | PixelFormat::Depth16 => swap_values(pixels, u16::from_be),
        PixelFormat::Mono8 | PixelFormat::Rgb8 | PixelFormat::Rgba8 => {}
    }
}

/// Applies `swap` to each 16-bit value.
fn swap_values(pixels: &mut [u8], swap: fn(u16) -> u16) {
    for value in pixels.as_chunks_mut::<2>().0 {
        *value = swap(u16::from_ne_bytes(*value)).to_ne_bytes();
    }
}

/// Returns the file with another size in its header and a matching checksum.
#[cfg(test)]
pub(super) fn with_size(file: &[u8], width: u32, height: u32) -> Vec<u8> {
    let mut file = file.to_vec();
    file[16..20].copy_from_slice(&width.to_be_bytes());
    file[20..24].copy_from_slice(&height.to_be_bytes());
    let crc = !file[12..29].iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    });
    file[29..33].copy_from_slice(&crc.to_be_bytes());
    file
}
