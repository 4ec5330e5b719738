//! Lossless PNG encoding of images.

use std::{borrow::Cow, io::Cursor};

use ::png::{
    BitDepth, ColorType, Compression, Decoder, Encoder, Limits,
    chunk::{ChunkType, IDAT},
};

use super::{Image, ImageError, PixelFormat};

/// Maximum number of bytes that one byte of a deflate stream can expand to.
const MAX_INFLATE_RATIO: usize = 1032;

/// Chunk with the meaning of the pixels: ancillary, private, and unsafe to copy to changed pixels.
const MEANING: ChunkType = ChunkType(*b"afIM");

/// PNG color type and bit depth of `format`.
fn layout(format: PixelFormat) -> (ColorType, BitDepth) {
    match format {
        PixelFormat::Mono8
        | PixelFormat::Yuyv
        | PixelFormat::Uyvy
        | PixelFormat::Nv12
        | PixelFormat::I420 => (ColorType::Grayscale, BitDepth::Eight),
        PixelFormat::Rgb8 | PixelFormat::Bgr8 => (ColorType::Rgb, BitDepth::Eight),
        PixelFormat::Rgba8 | PixelFormat::Depth32 => (ColorType::Rgba, BitDepth::Eight),
        PixelFormat::Mono16 | PixelFormat::Depth16 => (ColorType::Grayscale, BitDepth::Sixteen),
    }
}

/// Columns of the file for a pixel: a YUV format has one for each byte.
fn columns(format: PixelFormat) -> usize {
    if format.is_yuv() { format.pixel_bytes() } else { 1 }
}

pub(super) fn encode(image: &Image, meaning: Option<&[u8]>) -> Result<Vec<u8>, ImageError> {
    let fault = |reason: String| ImageError::NoPng { reason };
    let side = |pixels: usize| u32::try_from(pixels).map_err(|error| fault(error.to_string()));
    let format = image.format();
    let width = side(image.width() * columns(format))?;
    let height = side(format.stored_rows(image.height()))?;
    let pixels = to_file(image);
    let mut file = Vec::with_capacity(pixels.len() / 4);
    let mut encoder = Encoder::new(&mut file, width, height);
    let (color, depth) = layout(format);
    encoder.set_color(color);
    encoder.set_depth(depth);
    encoder.set_compression(Compression::Fast);
    let written = encoder.write_header().and_then(|mut writer| {
        meaning.map_or(Ok(()), |meaning| writer.write_chunk(MEANING, meaning))?;
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
    let (columns, height) = (columns(format), side(header.height));
    let (width, rows) = (side(header.width) / columns, height);
    let height = if format.is_planar() { height - height / 3 } else { height };
    if (side(header.width), rows) != (width * columns, format.stored_rows(height)) {
        let reason =
            format!("{} × {rows} bytes are not the planes of {}", header.width, format.name());
        return Err(fault(reason));
    }
    // A short file that declares a large image must not cause a large allocation.
    let needed = width.saturating_mul(rows).saturating_mul(format.pixel_bytes());
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
    swap(format, pixels);
    Ok(image)
}

/// Decodes `file` to the format that has its colors.
pub(super) fn decode_any(file: &[u8]) -> Result<Image, ImageError> {
    let fault = |reason: String| ImageError::Png { reason };
    let limits = Limits { bytes: Image::MAX_BYTES };
    let mut decoder = Decoder::new_with_limits(Cursor::new(file), limits);
    let header = decoder.read_header_info().map_err(|error| fault(error.to_string()))?;
    let found = (header.color_type, header.bit_depth);
    let known = [PixelFormat::Mono8, PixelFormat::Mono16, PixelFormat::Rgb8, PixelFormat::Rgba8];
    let format = known.into_iter().find(|format| layout(*format) == found).ok_or_else(|| {
        let (color, bits) = (found.0, found.1 as u8);
        fault(format!(
            "pixels of the kind {color:?} with {bits} bits are not supported; gray with 8 or 16 \
             bits, RGB and RGBA with 8 bits are"
        ))
    })?;
    decode(format, file)
}

/// The chunk with the meaning of the pixels, if `file` has one ahead of its image data.
pub(super) fn meaning(file: &[u8]) -> Option<&[u8]> {
    let mut rest = file.get(8..)?;
    loop {
        let (len, after) = rest.split_first_chunk::<4>()?;
        let (name, after) = after.split_first_chunk::<4>()?;
        let (data, after) = after.split_at_checked(u32::from_be_bytes(*len) as usize)?;
        match ChunkType(*name) {
            MEANING => return Some(data),
            IDAT => return None,
            _ => rest = after.get(4..)?,
        }
    }
}

/// Converts the pixels to the order of a PNG file: no padding, red first, 16-bit and 32-bit values
/// in big endian.
fn to_file(image: &Image) -> Cow<'_, [u8]> {
    let format = image.format();
    let is_padded = image.row_stride() != image.width() * format.pixel_bytes();
    let is_swapped = format == PixelFormat::Bgr8 || format.dtype().size() > 1;
    if !is_padded && !is_swapped {
        return Cow::Borrowed(image.bytes());
    }
    let mut pixels = Vec::with_capacity(image.bytes().len());
    image.rows().for_each(|row| pixels.extend_from_slice(row));
    swap(format, &mut pixels);
    Cow::Owned(pixels)
}

/// Converts pixels between memory order and the order of a PNG file, in place.
fn swap(format: PixelFormat, pixels: &mut [u8]) {
    match (format, format.dtype().size()) {
        (PixelFormat::Bgr8, _) => {
            pixels.as_chunks_mut::<3>().0.iter_mut().for_each(|pixel| pixel.swap(0, 2));
        }
        (_, 2) if cfg!(target_endian = "little") => {
            pixels.as_chunks_mut::<2>().0.iter_mut().for_each(|value| value.reverse());
        }
        (_, 4) if cfg!(target_endian = "little") => {
            pixels.as_chunks_mut::<4>().0.iter_mut().for_each(|value| value.reverse());
        }
        _ => {}
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
