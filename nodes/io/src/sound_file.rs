//! Block-by-block reader of sound files and of raw samples.

mod coded;
mod kind;
mod pcm;
mod wav;

use std::{
    fs::File,
    io::{self, BufReader, Cursor, Read, Seek},
    path::{Path, PathBuf},
};

use afferent_graph::NodeError;
use afferent_messages::{AudioBlock, SampleRate};
use symphonia::core::io::ReadOnlySource;

use self::{
    coded::CodedReader,
    kind::Kind,
    pcm::PcmReader,
    wav::{WavEncoding, WavHeader},
};
use crate::output::file_error;

pub use self::pcm::Encoding;

/// Bytes from which the format of a file is recognized.
const HEAD_BYTES: u64 = 512;

/// Reader of samples.
trait SampleReader: Send {
    /// Appends the next `count` samples, channels interleaved; fewer at the end of the file. On an
    /// error, appends those before it.
    fn read(&mut self, count: usize, samples: &mut Vec<f32>) -> Result<(), String>;
}

/// Format of samples without a header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawFormat {
    pub(crate) encoding: Encoding,
    pub(crate) rate: SampleRate,
    pub(crate) channels: usize,
}

/// An open sound file, pipe, or standard input.
pub(crate) struct SoundFile {
    path: PathBuf,
    reader: Box<dyn SampleReader>,
    rate: SampleRate,
    channels: usize,
    /// Samples per channel; `None` if the file does not state them.
    total: Option<usize>,
    /// True if the header does not state the number of samples, although it could.
    is_streamed: bool,
    /// Samples per channel that were read.
    position: usize,
    is_at_end: bool,
    /// Samples of the last block, channels interleaved.
    interleaved: Vec<f32>,
}

/// Reader with the format and the length that it states.
struct Opened {
    reader: Box<dyn SampleReader>,
    rate: u32,
    channels: usize,
    total: Option<u64>,
    is_streamed: bool,
}

/// True if `path` is `-`, which stands for standard input.
pub(crate) fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// True if reading `path` may wait for its writer, and what was read cannot be read again.
pub(crate) fn is_pipe(path: &Path) -> bool {
    is_standard_input(path)
        || path.metadata().is_ok_and(|about| !about.is_file() && !about.is_dir())
}

impl SoundFile {
    /// Opens `path`; `raw` is the format of samples without a header.
    pub(crate) fn open(path: &Path, raw: Option<RawFormat>) -> Result<Self, NodeError> {
        let failed = |reason: String| file_error(path, reason);
        let opened = if is_standard_input(path) {
            open_pipe(io::stdin(), raw)
        } else {
            let file = File::open(path).map_err(|error| failed(error.to_string()))?;
            if is_pipe(path) { open_pipe(file, raw) } else { open_file(file, raw) }
        };
        let Opened { reader, rate, channels, total, is_streamed } = opened.map_err(failed)?;
        if !(1..=AudioBlock::MAX_CHANNELS).contains(&channels) {
            let most = AudioBlock::MAX_CHANNELS;
            let reason = format!("the file has {channels} channels; 1 to {most} are supported");
            return Err(failed(reason));
        }
        if !AudioBlock::RATES_HZ.contains(&rate) {
            let (least, most) = AudioBlock::RATES_HZ.into_inner();
            let reason = format!("the file has {rate} Hz; {least} to {most} Hz are supported");
            return Err(failed(reason));
        }
        Ok(Self {
            path: path.to_owned(),
            reader,
            rate: SampleRate(rate),
            channels,
            total: total.map(|total| usize::try_from(total).unwrap_or(usize::MAX)),
            is_streamed,
            position: 0,
            is_at_end: false,
            interleaved: Vec::new(),
        })
    }

    pub(crate) fn channels(&self) -> usize {
        self.channels
    }

    pub(crate) fn rate(&self) -> SampleRate {
        self.rate
    }

    /// True if the header does not state the number of samples, although it could.
    pub(crate) fn is_streamed(&self) -> bool {
        self.is_streamed
    }

    /// Samples per channel that were read.
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// Samples of the last [`SoundFile::read`], channels interleaved.
    pub(crate) fn samples(&self) -> &[f32] {
        &self.interleaved
    }

    /// Upper bound of the samples per channel that are left; zero at the end.
    pub(crate) fn remaining(&self) -> usize {
        match self.total {
            _ if self.is_at_end => 0,
            Some(total) => total - self.position,
            None => usize::MAX,
        }
    }

    /// Reads the next `len` samples per channel, fewer at the end; on an error, those before it.
    pub(crate) fn read(&mut self, len: usize) -> Result<(), NodeError> {
        self.interleaved.clear();
        let len = len.min(self.remaining());
        let result = self.reader.read(len.saturating_mul(self.channels), &mut self.interleaved);
        let bad = self.interleaved.iter().position(|sample| !sample.is_finite());
        let whole = bad.unwrap_or(self.interleaved.len()) / self.channels;
        self.interleaved.truncate(whole * self.channels);
        self.position += whole;
        self.is_at_end = whole < len;
        let reason = match (result, bad, self.total) {
            (_, Some(_), _) => "not a finite number".to_owned(),
            (Err(reason), None, _) => reason,
            (Ok(()), None, Some(_)) if whole < len => {
                "the file is truncated; its header states more samples".to_owned()
            }
            (Ok(()), None, _) => return Ok(()),
        };
        let seconds = self.rate.duration(self.position).as_secs_f64();
        let of = self.total.map(|total| format!(" of {total}")).unwrap_or_default();
        let reason = format!("sample {}{of} ({seconds:.3} s): {reason}", self.position);
        Err(file_error(&self.path, reason))
    }
}

fn open_file(file: File, raw: Option<RawFormat>) -> Result<Opened, String> {
    let message = |error: io::Error| error.to_string();
    let len = file.metadata().map_err(message)?.len();
    let mut input = BufReader::new(file);
    if let Some(raw) = raw {
        let sample = raw.channels * raw.encoding.size();
        let total = Some(len / sample as u64);
        return Ok(Opened { total, ..raw_samples(input, raw) });
    }
    let head = read_head(&mut input)?;
    input.rewind().map_err(message)?;
    if Kind::of(&head) == Kind::Wav {
        let header = WavHeader::read(&mut input, Some(len)).map_err(|reason| with_help(&reason))?;
        if let WavEncoding::Pcm(encoding) = header.format.encoding {
            return Ok(wav_samples(input, encoding, &header));
        }
        input.rewind().map_err(message)?;
    }
    check_kind(&head)?;
    coded(CodedReader::open(Box::new(input.into_inner())))
}

fn open_pipe(
    mut input: impl Read + Send + Sync + 'static,
    raw: Option<RawFormat>,
) -> Result<Opened, String> {
    if let Some(raw) = raw {
        return Ok(raw_samples(input, raw));
    }
    let head = read_head(&mut input)?;
    let mut input = Cursor::new(head.clone()).chain(input);
    if Kind::of(&head) == Kind::Wav {
        let header = WavHeader::read(&mut input, None).map_err(|reason| with_help(&reason))?;
        return match header.format.encoding {
            WavEncoding::Pcm(encoding) => Ok(wav_samples(input, encoding, &header)),
            WavEncoding::Adpcm => Err(with_help("a WAV file with ADPCM from a pipe")),
        };
    }
    check_kind(&head)?;
    coded(CodedReader::open(Box::new(ReadOnlySource::new(input))))
}

fn raw_samples(input: impl Read + Send + 'static, raw: RawFormat) -> Opened {
    let RawFormat { encoding, rate, channels } = raw;
    let reader = Box::new(PcmReader::new(input, encoding));
    Opened { reader, rate: rate.0, channels, total: None, is_streamed: false }
}

fn wav_samples(
    input: impl Read + Send + 'static,
    encoding: Encoding,
    header: &WavHeader,
) -> Opened {
    let (channels, rate) = (usize::from(header.format.channels), header.format.rate);
    let sample = (channels * encoding.size()) as u64;
    let total = header.data_bytes.map(|bytes| bytes / sample);
    let reader = Box::new(PcmReader::new(input, encoding));
    Opened { reader, rate, channels, total, is_streamed: header.is_streamed }
}

fn coded(reader: Result<CodedReader, String>) -> Result<Opened, String> {
    let reader = reader.map_err(|reason| with_help(&reason))?;
    let (rate, channels) = (reader.rate, reader.channels);
    Ok(Opened { reader: Box::new(reader), rate, channels, total: None, is_streamed: false })
}

/// First bytes of a file.
fn read_head(input: &mut impl Read) -> Result<Vec<u8>, String> {
    let mut head = Vec::new();
    let result = input.take(HEAD_BYTES).read_to_end(&mut head);
    result.map(|_| head).map_err(|error| error.to_string())
}

/// Checks that a file that begins with `head` may be supported.
fn check_kind(head: &[u8]) -> Result<(), String> {
    match Kind::of(head) {
        Kind::Wav | Kind::Coded => Ok(()),
        Kind::Unsupported(name) => Err(with_help(name)),
        Kind::Unknown if head.is_empty() => Err("the file is empty".to_owned()),
        Kind::Unknown => Err("not a sound file of a known format; for samples without a header, \
                              set `format`, `rate`, and `channels`"
            .to_owned()),
    }
}

/// Appends the command that converts a file.
fn with_help(reason: &str) -> String {
    format!("{reason}; convert it: ffmpeg -i INPUT -c:a pcm_s16le OUTPUT.wav")
}

#[cfg(test)]
mod tests;
