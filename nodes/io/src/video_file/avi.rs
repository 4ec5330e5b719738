//! AVI files with JPEG images.
//!
//! The file is read from its start to its end, chunk by chunk: it needs no index, and may come from a
//! pipe. <https://learn.microsoft.com/windows/win32/directshow/avi-riff-file-reference>

use std::{
    io::{self, Read},
    time::Duration,
};

use afferent_messages::{Image, PixelFormat};

use super::{Frames, Reader, time_of};

/// Largest image, in bytes.
const MAX_CHUNK: u32 = 256 << 20;

pub(super) struct Avi {
    file: Reader,
    /// Numbers of the streams that were described.
    streams: u32,
    video: Option<Video>,
    /// First chunk with an image, which the header was read up to.
    next: Option<u32>,
    number: u64,
    bytes: Vec<u8>,
}

/// Stream of images.
#[derive(Debug, Clone, Copy)]
struct Video {
    stream: u32,
    /// Seconds from one image to the next, as a fraction.
    scale: u32,
    rate: u32,
}

impl Avi {
    pub(super) fn open(file: Reader) -> Result<Self, String> {
        let (streams, video, next, number, bytes) = (0, None, None, 0, Vec::new());
        let mut avi = Self { file, streams, video, next, number, bytes };
        avi.next = avi.find_image()?;
        match avi.video {
            Some(video) if video.rate > 0 && video.scale > 0 => Ok(avi),
            Some(_) => Err("its header gives no rate of images".to_owned()),
            None => Err("it has no stream of JPEG images; ffmpeg reads others".to_owned()),
        }
    }

    /// Reads up to the next chunk with an image; returns its size, and `None` at the end.
    fn find_image(&mut self) -> Result<Option<u32>, String> {
        loop {
            let mut head = [0; 8];
            match fill(&mut self.file, &mut head) {
                Ok(8) => {}
                Ok(0) => return Ok(None),
                // Files may end with padding.
                Ok(_) if head == [0; 8] => return Ok(None),
                Ok(_) => return Err(self.cut()),
                Err(error) => return Err(error.to_string()),
            }
            let (name, size) = ([head[0], head[1], head[2], head[3]], u32_at(&head, 4));
            match &name {
                // What they hold follows.
                b"RIFF" | b"LIST" => self.skip(4)?,
                b"strh" => {
                    let header = self.take(size, 56)?;
                    let (kind, handler) = (header.get(..4), header.get(4..8));
                    let is_jpeg = handler.is_some_and(|code| code.eq_ignore_ascii_case(b"MJPG"));
                    if kind == Some(b"vids") && is_jpeg && self.video.is_none() {
                        let (scale, rate) = (u32_at(&header, 20), u32_at(&header, 24));
                        self.video = Some(Video { stream: self.streams, scale, rate });
                    }
                    self.streams += 1;
                }
                _ if self.is_image(name) => return Ok(Some(size)),
                _ => self.skip(u64::from(size) + u64::from(size % 2))?,
            }
        }
    }

    /// True for a chunk such as `00dc`: number of the stream, and compressed or not.
    fn is_image(&self, name: [u8; 4]) -> bool {
        let digit = |byte: u8| byte.is_ascii_digit().then(|| u32::from(byte - b'0'));
        let stream = digit(name[0]).zip(digit(name[1])).map(|(tens, ones)| tens * 10 + ones);
        self.video.is_some_and(|video| Some(video.stream) == stream)
            && matches!(&name[2..], b"dc" | b"db")
    }

    /// The first bytes of a chunk, at most `most`; the rest is skipped.
    fn take(&mut self, size: u32, most: u32) -> Result<Vec<u8>, String> {
        let taken = size.min(most);
        let mut bytes = vec![0; taken as usize];
        match fill(&mut self.file, &mut bytes) {
            Ok(found) if found == bytes.len() => {}
            Ok(_) => return Err(self.cut()),
            Err(error) => return Err(error.to_string()),
        }
        self.skip(u64::from(size - taken) + u64::from(size % 2))?;
        Ok(bytes)
    }

    fn skip(&mut self, bytes: u64) -> Result<(), String> {
        let skipped = io::copy(&mut (&mut self.file).take(bytes), &mut io::sink());
        skipped.map(drop).map_err(|error| error.to_string())
    }

    fn cut(&self) -> String {
        format!("it is cut off after {} images", self.number)
    }
}

impl Frames for Avi {
    fn next(&mut self, image: &mut Image) -> Result<Option<Duration>, String> {
        let Some(video) = self.video else { return Ok(None) };
        loop {
            let size = match self.next.take() {
                Some(size) => Some(size),
                None => self.find_image()?,
            };
            let Some(size) = size else { return Ok(None) };
            if size > MAX_CHUNK {
                return Err(format!("image {} has {size} bytes", self.number));
            }
            let at = time_of(self.number, video.scale.into(), video.rate.into());
            self.number += 1;
            // The image before is to be shown again.
            if size == 0 {
                continue;
            }
            self.bytes = self.take(size, size)?;
            let read = image.read_jpeg(Some(PixelFormat::Rgb8), &self.bytes);
            read.map_err(|error| format!("image {}: {error}", self.number - 1))?;
            return Ok(Some(at));
        }
    }

    fn period(&self) -> Option<Duration> {
        self.video.map(|video| time_of(1, video.scale.into(), video.rate.into()))
    }
}

/// Reads until `bytes` is full or the file ends; returns the number of bytes.
fn fill(file: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut found = 0;
    while found < bytes.len() {
        match file.read(&mut bytes[found..])? {
            0 => break,
            more => found += more,
        }
    }
    Ok(found)
}

/// Little-endian number; 0 beyond the end.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::video_file::tests::reader_of;

    /// A color gradient of 24 × 16 pixels.
    const JPEG: &[u8] = include_bytes!("../../../../graph/messages/tests/data/colors.jpg");

    fn chunk(name: &[u8; 4], content: &[u8]) -> Vec<u8> {
        let mut chunk = name.to_vec();
        chunk.extend((content.len() as u32).to_le_bytes());
        chunk.extend(content);
        chunk.resize(chunk.len().next_multiple_of(2), 0);
        chunk
    }

    fn list(name: &[u8; 4], chunks: &[Vec<u8>]) -> Vec<u8> {
        chunk(b"LIST", &[name.to_vec(), chunks.concat()].concat())
    }

    /// A file with a stream of sound and one of images, with 12.5 images per second.
    fn file(handler: &[u8; 4], images: &[&[u8]]) -> Vec<u8> {
        let stream = |kind: &[u8; 4], handler: &[u8; 4]| {
            let numbers: Vec<u8> =
                [0_u32, 0, 0, 2, 25].iter().flat_map(|n| n.to_le_bytes()).collect();
            let header = [&kind[..], handler, &numbers, &[0; 28]].concat();
            list(b"strl", &[chunk(b"strh", &header), chunk(b"strf", &[0; 40])])
        };
        let streams = [stream(b"auds", &[0; 4]), stream(b"vids", handler)];
        let header = list(b"hdrl", &[vec![chunk(b"avih", &[0; 56])], streams.to_vec()].concat());
        let images =
            images.iter().flat_map(|image| [chunk(b"00wb", &[7; 5]), chunk(b"01dc", image)]);
        let movie = list(b"movi", &images.collect::<Vec<_>>());
        let content = [b"AVI ".to_vec(), header, movie, chunk(b"idx1", &[0; 32])].concat();
        chunk(b"RIFF", &content)
    }

    #[test]
    fn images_are_decoded_with_their_times() {
        let file = file(b"MJPG", &[JPEG, &[], JPEG]);
        let mut frames = Avi::open(reader_of(file)).unwrap();
        let mut image = Image::default();
        assert_eq!(frames.next(&mut image), Ok(Some(Duration::ZERO)));
        assert_eq!((image.width(), image.height()), (24, 16));
        assert_eq!(
            frames.next(&mut image),
            Ok(Some(Duration::from_millis(160))),
            "one is repeated"
        );
        assert_eq!(frames.next(&mut image), Ok(None));
    }

    #[test]
    fn damaged_and_other_files_are_refused() {
        let read = |file: Vec<u8>| {
            let mut image = Image::default();
            let mut frames = Avi::open(reader_of(file))?;
            while frames.next(&mut image)?.is_some() {}
            Ok::<_, String>(())
        };
        let whole = file(b"MJPG", &[JPEG, JPEG]);
        assert_eq!(read(whole.clone()), Ok(()));
        assert!(read(file(b"H264", &[JPEG])).unwrap_err().contains("no stream of JPEG images"));
        let told = read(whole[..whole.len() - 200].to_vec()).unwrap_err();
        assert_eq!(told, "it is cut off after 2 images");
        for len in 0..whole.len() {
            drop(read(whole[..len].to_vec()));
        }
        let mut damaged = whole;
        for at in (0..damaged.len()).step_by(7) {
            damaged[at] ^= 0x41;
            drop(read(damaged.clone()));
        }
    }
}
