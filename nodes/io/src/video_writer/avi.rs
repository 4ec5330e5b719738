//! AVI files with JPEG images, with an index.
//!
//! The header has its final size from the start, and is written again at the end. A file of more than
//! [`SEGMENT_BYTES`] continues in further segments, as in the OpenDML extensions.

use std::{
    fs::File,
    io::{self, BufWriter, Seek, SeekFrom, Write},
};

use afferent_messages::{Image, PixelFormat};
use jpeg_encoder::{Encoder, ImageBuffer, JpegColorType, SamplingFactor};

use super::{VideoFile, rate::Rate};
use crate::luma_chroma::{self, LumaChroma};

/// Size of a segment; its index has offsets of 32 bits.
const SEGMENT_BYTES: u64 = 1 << 30;

/// Most segments that the index has room for.
const MAX_SEGMENTS: usize = 128;

/// Name of a chunk with an image.
const IMAGE: &[u8; 4] = b"00dc";

/// Size of the name and the size of a chunk.
const CHUNK_HEAD: u64 = 8;

/// Offset of the name `movi` in the header of each segment after the first.
const MOVIE_OFFSET: u64 = 20;

pub(super) struct AviFile<W: Write + Seek = File> {
    file: BufWriter<W>,
    /// Bytes that were written.
    len: u64,
    rate: Rate,
    quality: u8,
    /// Width and height of the images.
    size: [u32; 2],
    segments: Vec<Segment>,
    /// Images of the current segment: offset of their bytes from its start, and size.
    index: Vec<(u32, u32)>,
    /// Images of all segments, and of the first.
    images: [u32; 2],
    largest: u32,
    segment_bytes: u64,
    jpeg: Vec<u8>,
}

/// Part of the file with an index of its own.
#[derive(Debug, Clone, Copy)]
struct Segment {
    start: u64,
    /// Offset of the name `movi`.
    movie: u64,
    /// Offset and size of the index of the segment, and the number of its images.
    index: u64,
    index_bytes: u32,
    images: u32,
}

impl<W: Write + Seek> AviFile<W> {
    pub(super) fn new(file: W, image: &Image, rate: Rate, quality: u8) -> Result<Self, String> {
        Self::with_segments(file, image, rate, quality, SEGMENT_BYTES)
    }

    fn with_segments(
        file: W,
        image: &Image,
        rate: Rate,
        quality: u8,
        segment_bytes: u64,
    ) -> Result<Self, String> {
        LumaChroma::new(image, luma_chroma::JPEG)?;
        let side = |side: usize| {
            let side = u16::try_from(side).map_err(|_| {
                format!("JPEG images have at most {} pixels in a row or column", u16::MAX)
            });
            side.map(u32::from)
        };
        let mut avi = Self {
            file: BufWriter::new(file),
            len: 0,
            rate,
            quality,
            size: [side(image.width())?, side(image.height())?],
            segments: Vec::new(),
            index: Vec::new(),
            images: [0; 2],
            largest: 0,
            segment_bytes,
            jpeg: Vec::new(),
        };
        let header = avi.header();
        let movie = header.len() as u64 - 4;
        avi.put(&header).map_err(told)?;
        avi.segments.push(Segment { start: 0, movie, index: 0, index_bytes: 0, images: 0 });
        Ok(avi)
    }

    /// The start of the file, up to the first image.
    fn header(&self) -> Vec<u8> {
        let Rate { numerator, denominator } = self.rate;
        let [width, height] = self.size;
        let [images, first_images] = self.images;
        let period_us = (1e6 / self.rate.fps()).round() as u32;
        let bytes_per_second = f64::from(self.largest) * self.rate.fps();
        // Flag: the file has an index.
        let main = [period_us, bytes_per_second as u32, 0, 0x10, first_images, 0, 1, self.largest];
        let main = [&main[..], &[width, height, 0, 0, 0, 0]].concat();
        let stream = [0, 0, 0, denominator, numerator, 0, images, self.largest, u32::MAX, 0];
        let rectangle = (height << 16 | width).to_le_bytes();
        let stream = [b"vidsMJPG", &*words(&stream), &[0; 4], &rectangle].concat();
        let format = [40, width, height, 1 | 24 << 16, u32::from_le_bytes(*b"MJPG")];
        let format = [&format[..], &[width * height * 3, 0, 0, 0, 0]].concat();
        let stream = [
            chunk(b"strh", &stream),
            chunk(b"strf", &words(&format)),
            chunk(b"indx", &self.index_of_segments()),
        ];
        let extension = chunk(b"dmlh", &words(&[images]));
        let header = list(
            b"hdrl",
            &[
                chunk(b"avih", &words(&main)),
                list(b"strl", &stream.concat()),
                list(b"odml", &extension),
            ]
            .concat(),
        );
        let first = self.segments.first();
        let (end, movie_end) = first.map_or((0, 0), |segment| {
            let movie_end = segment.index + u64::from(segment.index_bytes);
            (movie_end + CHUNK_HEAD + 16 * u64::from(segment.images), movie_end)
        });
        let movie = 12 + header.len() as u64 + CHUNK_HEAD;
        let sizes = [end.saturating_sub(CHUNK_HEAD), movie_end.saturating_sub(movie)];
        let [riff, movie] = sizes.map(|size| (size as u32).to_le_bytes());
        [b"RIFF", &riff, b"AVI ", &*header, b"LIST", &movie, b"movi"].concat()
    }

    fn index_of_segments(&self) -> Vec<u8> {
        let used = self.segments.iter().filter(|segment| segment.index > 0);
        // Four words each, an index of indexes.
        let mut index = words(&[4, used.clone().count() as u32, u32::from_le_bytes(*IMAGE)]);
        index.extend([0; 12]);
        for segment in used {
            index.extend(segment.index.to_le_bytes());
            index.extend(words(&[segment.index_bytes, segment.images]));
        }
        index.resize(24 + 16 * MAX_SEGMENTS, 0);
        index
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Writes an image, or with no bytes that the last one is shown again.
    fn put_image(&mut self, jpeg: &[u8]) -> Result<(), String> {
        // Images and their index entries, with room for an image that is larger than others.
        let taken = self.len - self.segment().start + 24 * self.index.len() as u64;
        if taken + jpeg.len() as u64 > self.segment_bytes && !self.index.is_empty() {
            self.next_segment()?;
        }
        let too_large = || format!("an image has {} bytes as JPEG", jpeg.len());
        let size = u32::try_from(jpeg.len()).ok().filter(|size| *size < 1 << 30);
        let size = size.ok_or_else(too_large)?;
        let offset = self.len + CHUNK_HEAD - self.segment().start;
        self.index.push((u32::try_from(offset).map_err(|_| too_large())?, size));
        self.images[0] += 1;
        self.largest = self.largest.max(size);
        self.put(IMAGE).and_then(|()| self.put(&size.to_le_bytes())).map_err(told)?;
        self.put(jpeg).and_then(|()| self.put(&[0][..jpeg.len() % 2])).map_err(told)
    }

    fn segment(&self) -> Segment {
        self.segments[self.segments.len() - 1]
    }

    fn next_segment(&mut self) -> Result<(), String> {
        if self.segments.len() == MAX_SEGMENTS {
            let gib = (MAX_SEGMENTS as u64 * self.segment_bytes) >> 30;
            return Err(format!("AVI files have at most {gib} GiB; use .mkv"));
        }
        self.close_segment().map_err(told)?;
        let start = self.len;
        self.put(b"RIFF\0\0\0\0AVIXLIST\0\0\0\0movi").map_err(told)?;
        let movie = start + MOVIE_OFFSET;
        self.segments.push(Segment { start, movie, index: 0, index_bytes: 0, images: 0 });
        Ok(())
    }

    /// Writes the index of the segment, and its sizes.
    fn close_segment(&mut self) -> io::Result<()> {
        let number = self.segments.len() - 1;
        let Segment { start, movie, .. } = self.segments[number];
        let index = std::mem::take(&mut self.index);
        let images = index.len() as u32;
        // Two words each, an index of chunks.
        let mut standard = words(&[2 | 0x0100_0000, images, u32::from_le_bytes(*IMAGE)]);
        standard.extend(start.to_le_bytes());
        standard.extend([0; 4]);
        standard.extend(index.iter().flat_map(|(offset, size)| words(&[*offset, *size])));
        let standard = chunk(b"ix00", &standard);
        let (at, index_bytes) = (self.len, standard.len() as u32);
        self.put(&standard)?;
        self.segments[number] = Segment { index: at, index_bytes, images, ..self.segments[number] };
        if number == 0 {
            self.images[1] = images;
            // The index of programs that do not know the extensions.
            let mut old = Vec::new();
            for (offset, size) in index {
                let offset = u64::from(offset) - CHUNK_HEAD + start - movie;
                old.extend(IMAGE);
                old.extend(words(&[0x10, offset as u32, size]));
            }
            return self.put(&chunk(b"idx1", &old));
        }
        let sizes = [(start + 4, start + CHUNK_HEAD), (start + 16, movie)];
        for (at, from) in sizes {
            self.file.seek(SeekFrom::Start(at))?;
            self.file.write_all(&((self.len - from) as u32).to_le_bytes())?;
        }
        self.file.seek(SeekFrom::Start(self.len)).map(drop)
    }
}

impl<W: Write + Seek + Send> VideoFile for AviFile<W> {
    fn write(&mut self, image: &Image) -> Result<(), String> {
        let mut jpeg = std::mem::take(&mut self.jpeg);
        jpeg.clear();
        let mut encoder = Encoder::new(&mut jpeg, self.quality);
        // As cameras write it, and decoders of video read it.
        encoder.set_sampling_factor(SamplingFactor::F_2_1);
        let colors = LumaChroma::new(image, luma_chroma::JPEG)?;
        let encoded = encoder.encode_image(JpegSource { image, colors });
        encoded.map_err(|error| error.to_string())?;
        let put = self.put_image(&jpeg);
        self.jpeg = jpeg;
        put
    }

    fn repeat(&mut self) -> Result<(), String> {
        self.put_image(&[])
    }

    fn finish(&mut self) -> Result<(), String> {
        self.close_segment().map_err(told)?;
        let header = self.header();
        self.file.seek(SeekFrom::Start(0)).map_err(told)?;
        self.file.write_all(&header).and_then(|()| self.file.flush()).map_err(told)
    }
}

/// An image as the encoder takes it.
struct JpegSource<'i> {
    image: &'i Image,
    colors: LumaChroma<'i>,
}

impl ImageBuffer for JpegSource<'_> {
    fn get_jpeg_color_type(&self) -> JpegColorType {
        match self.image.format() {
            PixelFormat::Mono8 => JpegColorType::Luma,
            _ => JpegColorType::Ycbcr,
        }
    }

    fn width(&self) -> u16 {
        self.image.width() as u16
    }

    fn height(&self) -> u16 {
        self.image.height() as u16
    }

    fn fill_buffers(&self, y: u16, [luma, blue, red, _]: &mut [Vec<u8>; 4]) {
        let is_gray = self.image.format() == PixelFormat::Mono8;
        self.colors.row(y.into(), |[y, u, v]| {
            luma.push(y);
            if !is_gray {
                blue.push(u);
                red.push(v);
            }
        });
    }
}

fn told(error: io::Error) -> String {
    error.to_string()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A chunk, padded to an even length.
fn chunk(name: &[u8; 4], content: &[u8]) -> Vec<u8> {
    let size = (content.len() as u32).to_le_bytes();
    [name, &size, content, &[0][..content.len() % 2]].concat()
}

fn list(name: &[u8; 4], content: &[u8]) -> Vec<u8> {
    chunk(b"LIST", &[name, content].concat())
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn image(value: u8) -> Image {
        let mut image = Image::default();
        image.reshape(PixelFormat::Rgb8, 16, 8).unwrap().fill(value);
        image
    }

    fn u32_at(bytes: &[u8], at: u64) -> u32 {
        let at = at as usize;
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
    }

    /// The file of `count` images in segments of `segment_bytes`; every fifth image is shown twice.
    fn file(count: u8, segment_bytes: u64) -> (Vec<u8>, Vec<Segment>) {
        let mut bytes = Cursor::new(Vec::new());
        let rate = Rate { numerator: 25, denominator: 2 };
        let mut avi =
            AviFile::with_segments(&mut bytes, &image(0), rate, 90, segment_bytes).unwrap();
        for number in 0..count {
            avi.write(&image(number)).unwrap();
            if number % 5 == 4 {
                avi.repeat().unwrap();
            }
        }
        avi.finish().unwrap();
        let segments = avi.segments.clone();
        drop(avi);
        (bytes.into_inner(), segments)
    }

    #[test]
    fn sizes_and_indexes_lead_to_the_images() {
        for (count, segment_bytes, expected) in [(0, 1 << 20, 1), (7, 1 << 20, 1), (40, 9000, 4)] {
            let (bytes, segments) = file(count, segment_bytes);
            assert_eq!(segments.len(), expected);
            let mut images = 0;
            for (number, segment) in segments.iter().enumerate() {
                let end = segments.get(number + 1).map_or(bytes.len() as u64, |next| next.start);
                assert_eq!(&bytes[segment.start as usize..][..4], b"RIFF");
                assert_eq!(u64::from(u32_at(&bytes, segment.start + 4)), end - segment.start - 8);
                let movie_end = segment.movie + u64::from(u32_at(&bytes, segment.movie - 4));
                assert_eq!(movie_end, segment.index + u64::from(segment.index_bytes));
                assert_eq!(&bytes[segment.index as usize..][..4], b"ix00");
                let base = u64::from(u32_at(&bytes, segment.index + 20));
                assert_eq!(base, segment.start);
                for entry in 0..segment.images {
                    let entry = segment.index + 32 + 8 * u64::from(entry);
                    let (at, size) =
                        (base + u64::from(u32_at(&bytes, entry)), u32_at(&bytes, entry + 4));
                    assert_eq!(&bytes[at as usize - 8..][..4], IMAGE);
                    assert_eq!(u32_at(&bytes, at - 4), size);
                    let is_jpeg = bytes[at as usize..].starts_with(&[0xff, 0xd8]);
                    assert_eq!(is_jpeg, size > 0);
                }
                images += segment.images;
            }
            assert_eq!(images, u32::from(count + count / 5));
            let first = segments[0];
            let old = first.index + u64::from(first.index_bytes);
            assert_eq!(&bytes[old as usize..][..4], b"idx1");
            for entry in 0..first.images {
                let entry = old + 8 + 16 * u64::from(entry);
                let at = first.movie + u64::from(u32_at(&bytes, entry + 8));
                assert_eq!(&bytes[at as usize..][..4], IMAGE);
                assert_eq!(u32_at(&bytes, at + 4), u32_at(&bytes, entry + 12));
            }
            // Rate and number of the images in the header of the stream.
            let stream = bytes.windows(8).position(|bytes| bytes == b"vidsMJPG").unwrap() as u64;
            let numbers = [20, 24, 32].map(|at| u32_at(&bytes, stream + at));
            assert_eq!(numbers, [2, 25, images]);
        }
    }
}
