//! Decoding of JPEG images.

use std::borrow::Cow;

use zune_jpeg::{
    JpegDecoder,
    zune_core::{bytestream::ZCursor, colorspace::ColorSpace, options::DecoderOptions},
};

use super::{Image, PixelFormat};

/// Formats that a JPEG image is decoded to.
pub(crate) const FORMATS: [PixelFormat; 3] =
    [PixelFormat::Rgb8, PixelFormat::Bgr8, PixelFormat::Mono8];

/// Maximum number of bytes that one byte of a file can expand to: a block of 8 × 8 pixels needs at
/// least two bits.
const MAX_EXPANSION: usize = 1024;

/// Marker at the start of a file.
pub(super) const START: [u8; 2] = [0xff, 0xd8];

/// Marker at the end of a file.
const END: [u8; 2] = [0xff, 0xd9];

/// Huffman tables of the standard (ITU-T T.81, annex K), as segments of a file. Images of cameras may
/// come without tables and then mean these.
const TABLES: &[u8] = include_bytes!("../../data/huffman.bin");

/// Decodes `file` into `image` as `format`, or if it is absent as `mono8` or `rgb8`, as the file has
/// colors.
///
/// # Errors
/// The fault, and what is accepted.
pub(super) fn decode(
    image: &mut Image,
    format: Option<PixelFormat>,
    file: &[u8],
) -> Result<(), String> {
    let fault = |error: &dyn ToString| error.to_string();
    if let Some(format) = format.filter(|format| !FORMATS.contains(format)) {
        let known = FORMATS.map(PixelFormat::name).join(", ");
        return Err(format!("it cannot be decoded to {}; use one of {known}", format.name()));
    }
    // The decoder fills what is missing, and cameras pad their files with zeros.
    let end = file.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    if !file[..end].ends_with(&END) {
        return Err(fault(&"it has no end"));
    }
    let file = with_tables(file);
    let options = DecoderOptions::default().set_strict_mode(true);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(&*file), options);
    decoder.decode_headers().map_err(|error| fault(&error))?;
    let has_colors = decoder.input_colorspace() != Some(ColorSpace::Luma);
    let format = format.unwrap_or(if has_colors { PixelFormat::Rgb8 } else { PixelFormat::Mono8 });
    let space = match format {
        PixelFormat::Mono8 => ColorSpace::Luma,
        _ => ColorSpace::RGB,
    };
    decoder.set_options(options.jpeg_set_out_colorspace(space));
    let (width, height) = decoder.dimensions().ok_or_else(|| fault(&"it has no size"))?;
    // A short file that declares a large image must not cause a large allocation.
    if width.saturating_mul(height) > file.len().saturating_mul(MAX_EXPANSION) {
        let reason = format!("{} bytes cannot hold {width} × {height} pixels", file.len());
        return Err(fault(&reason));
    }
    let pixels = image.reshape(format, width, height).map_err(|error| fault(&error))?;
    if decoder.output_buffer_size() != Some(pixels.len()) {
        return Err(fault(&format!("its colors cannot be converted to {}", format.name())));
    }
    decoder.decode_into(pixels).map_err(|error| fault(&error))?;
    if format == PixelFormat::Bgr8 {
        pixels.as_chunks_mut::<3>().0.iter_mut().for_each(|pixel| pixel.swap(0, 2));
    }
    Ok(())
}

/// `file` with the tables of the standard, if it has none.
fn with_tables(file: &[u8]) -> Cow<'_, [u8]> {
    const START: usize = 2;
    let mut at = START;
    // Segments before the pixels: two bytes of marker, and two of the length without them.
    while let Some([0xff, marker, high, low]) = file.get(at..).and_then(<[u8]>::first_chunk) {
        match marker {
            0xc4 => return Cow::Borrowed(file),
            0xda => break,
            _ => at += 2 + usize::from(u16::from_be_bytes([*high, *low])),
        }
    }
    match file.split_at_checked(START) {
        Some((start, rest)) => Cow::Owned([start, TABLES, rest].concat()),
        None => Cow::Borrowed(file),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A color gradient of 24 × 16 pixels, by Pillow (`tests/data/make.py`).
    const COLORS: &[u8] = include_bytes!("../../tests/data/colors.jpg");

    /// The same in gray.
    const GRAY: &[u8] = include_bytes!("../../tests/data/gray.jpg");

    /// Pixels of both as Pillow decodes them.
    const PIXELS: &[u8] = include_bytes!("../../tests/data/pixels.bin");

    fn check(format: Option<PixelFormat>, file: &[u8], found: PixelFormat, expected: &[u8]) {
        let mut image = Image::default();
        decode(&mut image, format, file).unwrap();
        assert_eq!((image.format(), image.width(), image.height()), (found, 24, 16));
        for (found, expected) in image.bytes().iter().zip(expected) {
            assert!(found.abs_diff(*expected) <= 3, "{found}, {expected}");
        }
        assert_eq!(image.bytes().len(), expected.len());
    }

    #[test]
    fn pixels_are_those_of_another_decoder() {
        let (colors, gray) = PIXELS.split_at(24 * 16 * 3);
        check(None, COLORS, PixelFormat::Rgb8, colors);
        check(Some(PixelFormat::Rgb8), COLORS, PixelFormat::Rgb8, colors);
        let swapped: Vec<u8> =
            colors.chunks(3).flat_map(|pixel| [pixel[2], pixel[1], pixel[0]]).collect();
        check(Some(PixelFormat::Bgr8), COLORS, PixelFormat::Bgr8, &swapped);
        check(None, GRAY, PixelFormat::Mono8, gray);
        check(Some(PixelFormat::Mono8), GRAY, PixelFormat::Mono8, gray);
        let repeated: Vec<u8> = gray.iter().flat_map(|value| [*value; 3]).collect();
        check(Some(PixelFormat::Rgb8), GRAY, PixelFormat::Rgb8, &repeated);
        check(Some(PixelFormat::Bgr8), GRAY, PixelFormat::Bgr8, &repeated);
    }

    #[test]
    fn files_without_tables_have_those_of_the_standard() {
        let at = COLORS.windows(2).position(|marker| marker == [0xff, 0xc4]).unwrap();
        let mut file = COLORS.to_vec();
        assert_eq!(&file[at..at + TABLES.len()], TABLES, "Pillow writes them");
        file.drain(at..at + TABLES.len());
        check(None, &file, PixelFormat::Rgb8, PIXELS.split_at(24 * 16 * 3).0);
    }

    #[test]
    fn damaged_files_give_an_error_or_an_image() {
        for len in 0..COLORS.len() {
            assert!(decode(&mut Image::default(), None, &COLORS[..len]).is_err(), "{len}");
        }
        assert!(
            decode(&mut Image::default(), None, &[COLORS, &[0; 9]].concat()).is_ok(),
            "padding"
        );
        for at in 0..COLORS.len() {
            for flip in [1, 0x10, 0x80, 0xff] {
                let mut file = COLORS.to_vec();
                file[at] ^= flip;
                drop(decode(&mut Image::default(), None, &file));
            }
        }
        let size = COLORS.windows(2).position(|marker| marker == [0xff, 0xc0]).unwrap() + 5;
        let mut large = COLORS.to_vec();
        large[size..size + 4].fill(0x3f);
        let error = decode(&mut Image::default(), None, &large).unwrap_err();
        assert!(error.contains("bytes cannot hold 16191 × 16191 pixels"), "{error}");
    }
}
