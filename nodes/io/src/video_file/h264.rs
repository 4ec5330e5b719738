//! MP4 files with H.264, decoded by OpenH264.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    fs::File,
    io::BufReader,
    path::Path,
    time::Duration,
};

use afferent_messages::{ColorMatrix, ColorRange, Colorimetry, Image, PixelFormat};
use openh264::{
    OpenH264API,
    decoder::{DecodedYUV, Decoder, DecoderConfig, Flush},
    formats::YUVSource,
};

use super::{Frames, mp4::Track};
use crate::luma_chroma::matrix_of_height;

pub(super) struct H264 {
    file: BufReader<File>,
    track: Track,
    decoder: Decoder,
    /// Next sample to decode.
    number: usize,
    units: Vec<u8>,
    /// Times of the images that are being decoded. The decoder gives images in the order of their
    /// times.
    times: BinaryHeap<Reverse<i64>>,
    /// Images that came at the end.
    last: VecDeque<Image>,
    is_flushed: bool,
    /// Time of the first image.
    first: Option<Duration>,
}

impl H264 {
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let file = File::open(path).map_err(|error| error.to_string())?;
        let mut file = BufReader::new(file);
        let track = Track::open(&mut file)?;
        // Images are given out as soon as their order is known.
        let config = DecoderConfig::new().flush_after_decode(Flush::NoFlush);
        let decoder = Decoder::with_api_config(OpenH264API::from_source(), config);
        let decoder = decoder.map_err(|error| format!("no decoder: {error}"))?;
        let (times, last, units) = (BinaryHeap::new(), VecDeque::new(), Vec::new());
        let (number, is_flushed, first) = (0, false, None);
        let mut opened =
            Self { file, track, decoder, number, units, times, last, is_flushed, first };
        // Sets in the file header come ahead of the first image.
        let sets = std::mem::take(&mut opened.track.parameter_sets);
        let decoded = opened.decoder.decode(&sets);
        decoded.map_err(|error| format!("its H.264 profile is not supported: {error}"))?;
        Ok(opened)
    }

    /// Decodes up to the next image, in the order of times.
    fn decode(&mut self, image: &mut Image) -> Result<bool, String> {
        while self.number < self.track.len() {
            let number = self.number;
            let time = self.track.sample(&mut self.file, number, &mut self.units)?;
            self.times.push(Reverse(time));
            self.number += 1;
            let decoded = self.decoder.decode(&self.units);
            let decoded = decoded.map_err(|error| {
                format!("image {number} is damaged, or its H.264 profile is not supported: {error}")
            })?;
            if let Some(decoded) = decoded {
                copy(&decoded, self.track.colors, image)?;
                return Ok(true);
            }
        }
        if !self.is_flushed {
            self.is_flushed = true;
            let rest = self.decoder.flush_remaining().map_err(|error| error.to_string())?;
            for decoded in &rest {
                let mut image = Image::default();
                copy(decoded, self.track.colors, &mut image)?;
                self.last.push_back(image);
            }
        }
        let last = self.last.pop_front();
        Ok(last.map(|last| *image = last).is_some())
    }
}

/// Copies the planes.
fn copy(
    decoded: &DecodedYUV<'_>,
    colors: Option<(u16, bool)>,
    image: &mut Image,
) -> Result<(), String> {
    let (width, height) = decoded.dimensions();
    let bytes = image.reshape(PixelFormat::I420, width, height);
    let bytes = bytes.map_err(|error| error.to_string())?;
    let (luma, chroma) = bytes.split_at_mut(width * height);
    let (blue, red) = chroma.split_at_mut(width * height / 4);
    let strides = decoded.strides();
    for (to, from, stride, row) in [
        (luma, decoded.y(), strides.0, width),
        (blue, decoded.u(), strides.1, width / 2),
        (red, decoded.v(), strides.2, width / 2),
    ] {
        for (to, from) in to.chunks_exact_mut(row.max(1)).zip(from.chunks(stride.max(1))) {
            let from = from.get(..row).ok_or("the decoder gives incomplete rows")?;
            to.copy_from_slice(from);
        }
    }
    let matrix = match colors.map(|(coefficients, _)| coefficients) {
        Some(1) => ColorMatrix::Bt709,
        Some(5 | 6) => ColorMatrix::Bt601,
        Some(9) => ColorMatrix::Bt2020,
        _ => matrix_of_height(height),
    };
    let is_full = colors.is_some_and(|(_, is_full)| is_full);
    let range = if is_full { ColorRange::Full } else { ColorRange::Limited };
    image.colorimetry = Colorimetry { matrix, range };
    Ok(())
}

impl Frames for H264 {
    fn next(&mut self, image: &mut Image) -> Result<Option<Duration>, String> {
        while self.decode(image)? {
            let time = self.times.pop().ok_or("the decoder gives more images than it got")?;
            // An edit list may leave out the first images.
            let Some(time) = self.track.duration(time.0) else { continue };
            let first = *self.first.get_or_insert(time);
            return Ok(Some(time.saturating_sub(first)));
        }
        match self.times.len() {
            0 => Ok(None),
            count => Err(format!("{count} images were not decoded")),
        }
    }

    fn period(&self) -> Option<Duration> {
        self.track.period()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::testing::TempFolder;

    /// A clip of libx264 with B-frames and a gap; see `make_h264.sh`.
    const CLIP: &[u8] = include_bytes!("../../tests/data/h264.mp4");

    /// Number of the period and checksum of each image, as ffmpeg decodes the clip.
    const CHECKSUMS: &str = include_str!("../../tests/data/h264.framecrc");

    fn read(file: &[u8]) -> Result<Vec<(Duration, u32)>, String> {
        let folder = TempFolder::new();
        let path = folder.path("clip.mp4");
        fs::write(&path, file).unwrap();
        let mut frames = H264::open(&path)?;
        assert_eq!(frames.period(), Some(Duration::from_millis(40)));
        let (mut found, mut image) = (Vec::new(), Image::default());
        while let Some(at) = frames.next(&mut image)? {
            assert_eq!((image.width(), image.height()), (64, 48));
            found.push((at, checksum(image.bytes())));
        }
        Ok(found)
    }

    /// Adler-32 with the start value of ffmpeg.
    fn checksum(bytes: &[u8]) -> u32 {
        let add = |(a, b): (u32, u32), byte: &u8| {
            let a = (a + u32::from(*byte)) % 65_521;
            (a, (b + a) % 65_521)
        };
        let (a, b) = bytes.iter().fold((0, 0), add);
        b << 16 | a
    }

    #[test]
    fn images_are_those_of_ffmpeg() {
        let lines = CHECKSUMS.lines().filter(|line| !line.starts_with('#'));
        let expected: Vec<_> = lines
            .map(|line| {
                let fields: Vec<_> = line.split(',').map(str::trim).collect();
                let number: u64 = fields[2].parse().unwrap();
                let checksum = u32::from_str_radix(&fields[5][2..], 16).unwrap();
                (Duration::from_millis(40 * number), checksum)
            })
            .collect();
        assert_eq!(expected.len(), 24);
        assert_eq!(read(CLIP).unwrap(), expected);
    }

    /// The clip with other bytes in its tables, which follow the images.
    fn replaced(from: &[u8], to: &[u8]) -> Vec<u8> {
        let at = CLIP.windows(from.len()).rposition(|bytes| bytes == from).unwrap();
        let mut file = CLIP.to_vec();
        file[at..at + to.len()].copy_from_slice(to);
        file
    }

    #[test]
    fn damaged_and_other_files_are_refused() {
        let check = |file: &[u8], expected: &str| {
            let told = read(file).unwrap_err();
            assert!(told.contains(expected), "{told}");
        };
        check(&replaced(b"avc1\0\0\0\0\0\0\0\x01", b"hvc1"), "coded as hvc1, not as H.264");
        check(&replaced(b"vide", b"soun"), "no track of images");
        check(&replaced(b"stsc", b"free"), "its box stbl is damaged or missing");
        check(&CLIP[..CLIP.len() / 2], "no box moov");
        // A matrix that rotates by 90°.
        let one = [0, 1, 0, 0];
        let matrix = |rows: [[u8; 4]; 5]| rows.concat();
        let upright = matrix([one, [0; 4], [0; 4], [0; 4], one]);
        let header = CLIP.windows(4).position(|bytes| bytes == b"tkhd").unwrap();
        let at = header + CLIP[header..].windows(20).position(|bytes| *bytes == upright).unwrap();
        let mut rotated = CLIP.to_vec();
        rotated[at..at + 20].copy_from_slice(&matrix([[0; 4], one, [0; 4], [255; 4], [0; 4]]));
        check(&rotated, "rotated");
        // Any damage of the tables.
        let tables = CLIP.windows(4).position(|bytes| bytes == b"moov").unwrap();
        let sets = CLIP.windows(4).position(|bytes| bytes == b"avcC").unwrap();
        let mut damaged = CLIP.to_vec();
        let mut refused = 0;
        for at in (tables - 4..CLIP.len()).filter(|at| !(sets..sets + 60).contains(at)) {
            damaged[at] ^= 0xff;
            let folder = TempFolder::new();
            let path = folder.path("clip.mp4");
            fs::write(&path, &damaged).unwrap();
            refused += usize::from(H264::open(&path).is_err());
            damaged[at] ^= 0xff;
        }
        assert!(refused > 100, "{refused}");
    }
}
