//! Images of video files.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, stdin},
    path::Path,
    time::Duration,
};

use afferent_graph::NodeError;
use afferent_messages::{Image, PixelFormat};

use crate::{mcap_messages::MAGIC, output::file_error};

mod avi;
mod ffmpeg;
#[cfg(feature = "h264")]
mod h264;
mod mcap;
#[cfg(feature = "h264")]
mod mp4;
mod raw;
mod sequence;
mod y4m;

/// Images of a file, one after the other.
pub(crate) trait Frames: Send {
    /// Reads the next image; returns its time since the first one, and `None` at the end.
    ///
    /// # Errors
    /// The reason why the rest cannot be read.
    fn next(&mut self, image: &mut Image) -> Result<Option<Duration>, String>;

    /// Time from one image to the next, where it is known.
    fn period(&self) -> Option<Duration>;
}

/// How a file is read.
#[derive(Debug, Clone)]
pub(crate) struct ReadOptions {
    /// Images per second of a folder or of pixels without a header.
    pub(crate) fps: f64,
    /// Layout of pixels without a header.
    pub(crate) raw: Option<RawLayout>,
    /// Topic of an MCAP file.
    pub(crate) topic: Option<String>,
    /// True to read the file with ffmpeg in any case, false never to.
    pub(crate) ffmpeg: Option<bool>,
}

/// Layout of pixels without a header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawLayout {
    pub(crate) format: PixelFormat,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

impl ReadOptions {
    fn period(&self) -> Duration {
        Duration::from_secs_f64(1.0 / self.fps)
    }
}

/// Kind of a file, by its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Raw,
    Y4m,
    Avi,
    Mcap,
    Mp4,
    Other,
}

/// Opens the file or folder at `path`; `-` is standard input.
///
/// # Errors
/// The file, the reason, and what is accepted.
pub(crate) fn open(path: &Path, options: &ReadOptions) -> Result<Box<dyn Frames>, NodeError> {
    let fault = |reason: String| file_error(path, reason);
    if path.is_dir() {
        let frames = sequence::Sequence::open(path, options.period()).map_err(fault)?;
        return Ok(Box::new(frames));
    }
    if options.ffmpeg == Some(true) {
        return Ok(Box::new(ffmpeg::Ffmpeg::start(path).map_err(fault)?));
    }
    let mut file = reader(path).map_err(|error| fault(error.to_string()))?;
    let kind = kind(&mut file, options).map_err(|error| fault(error.to_string()))?;
    Ok(match (kind, options.raw) {
        (Kind::Raw, Some(layout)) => Box::new(raw::Raw::new(file, layout, options.period())),
        (Kind::Y4m, _) => Box::new(y4m::Y4m::open(file).map_err(fault)?),
        (Kind::Avi, _) => Box::new(avi::Avi::open(file).map_err(fault)?),
        (Kind::Mcap, _) => Box::new(mcap::Mcap::new(file, options.topic.clone()).map_err(fault)?),
        (Kind::Mp4, _) => open_mp4(path, options).map_err(fault)?,
        _ if options.ffmpeg == Some(false) => {
            return Err(fault(
                "it is not a Y4M file, an AVI file with JPEG images, an MP4 or MCAP file, or a \
                 folder of images; with `decoder: auto`, ffmpeg reads others"
                    .to_owned(),
            ));
        }
        _ => Box::new(ffmpeg::Ffmpeg::start(path).map_err(fault)?),
    })
}

/// Opens an MP4 file, with ffmpeg if this program does not read it.
fn open_mp4(path: &Path, options: &ReadOptions) -> Result<Box<dyn Frames>, String> {
    if !path.is_file() {
        return Err("an MP4 file cannot be read from a pipe".to_owned());
    }
    let reason = match open_h264(path) {
        Ok(frames) => return Ok(frames),
        Err(reason) if options.ffmpeg == Some(false) => return Err(reason),
        Err(reason) => reason,
    };
    let frames = ffmpeg::Ffmpeg::start(path).map_err(|other| format!("{reason}; {other}"))?;
    Ok(Box::new(frames))
}

#[cfg(feature = "h264")]
fn open_h264(path: &Path) -> Result<Box<dyn Frames>, String> {
    Ok(Box::new(h264::H264::open(path)?))
}

#[cfg(not(feature = "h264"))]
fn open_h264(_: &Path) -> Result<Box<dyn Frames>, String> {
    Err("a build with the feature h264 reads MP4 files with H.264; this one does not".to_owned())
}

type Reader = BufReader<Box<dyn Read + Send>>;

fn reader(path: &Path) -> io::Result<Reader> {
    let input: Box<dyn Read + Send> = match path.as_os_str() == "-" {
        true => Box::new(stdin()),
        false => Box::new(File::open(path)?),
    };
    Ok(BufReader::with_capacity(256 * 1024, input))
}

fn kind(file: &mut Reader, options: &ReadOptions) -> io::Result<Kind> {
    if options.raw.is_some() {
        return Ok(Kind::Raw);
    }
    let start = file.fill_buf()?;
    Ok(match start {
        _ if start.starts_with(b"YUV4MPEG2") => Kind::Y4m,
        _ if start.starts_with(MAGIC) => Kind::Mcap,
        [b'R', b'I', b'F', b'F', _, _, _, _, b'A', b'V', b'I', b' ', ..] => Kind::Avi,
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => Kind::Mp4,
        _ => Kind::Other,
    })
}

/// Time of image `number` with `numerator / denominator` seconds from one to the next.
fn time_of(number: u64, numerator: u64, denominator: u64) -> Duration {
    let ns = u128::from(number) * u128::from(numerator) * 1_000_000_000;
    let ns = ns.checked_div(u128::from(denominator)).unwrap_or(0);
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// A file with this content.
    pub(super) fn reader_of(content: Vec<u8>) -> Reader {
        BufReader::new(Box::new(Cursor::new(content)))
    }

    #[test]
    fn times_do_not_drift() {
        // 29.97 Hz for a day.
        let frames = 30_000 * 86_400 / 1001;
        assert_eq!(time_of(frames, 1001, 30_000).as_secs(), 86_399);
        assert_eq!(time_of(30_000, 1001, 30_000), Duration::from_secs(1001));
        assert_eq!(time_of(7, 1, 0), Duration::ZERO);
    }
}
