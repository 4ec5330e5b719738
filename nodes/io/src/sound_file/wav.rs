//! Headers of WAV, RF64 and BW64 files.

use std::io::{self, Read};

use super::pcm::Encoding;

/// Format and length of the samples of a WAV file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WavHeader {
    pub(crate) format: WavFormat,
    /// Bytes of the samples; `None` if they are not known before the end.
    pub(crate) data_bytes: Option<u64>,
    /// True if the header does not state the bytes, as in a file that was streamed.
    pub(crate) is_streamed: bool,
}

/// Contents of the `fmt ` chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WavFormat {
    pub(crate) encoding: WavEncoding,
    pub(crate) channels: u16,
    pub(crate) rate: u32,
}

/// Encoding of the samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WavEncoding {
    Pcm(Encoding),
    /// Microsoft or IMA ADPCM.
    Adpcm,
}

/// Data sizes from here on mean "unknown" if the file is shorter: programs that write to a pipe
/// cannot state the length.
const MIN_STREAMED_SIZE: u64 = 0x7fff_0000;

/// Longest `fmt ` chunk that is read.
const MAX_FORMAT_BYTES: u64 = 64;

/// Size in a chunk of an RF64 file that stands for a size in its `ds64` chunk.
const SIZE_IN_DS64: u64 = 0xffff_ffff;

const TRUNCATED: &str = "truncated within its WAV header";

impl WavHeader {
    /// Reads up to the first sample of a file of `len` bytes; `None` for a pipe.
    pub(crate) fn read(input: &mut impl Read, len: Option<u64>) -> Result<Self, String> {
        let [riff, sizes @ .., form] = read_words::<3>(input)?;
        if !is_wav(&riff, &form) {
            return Err("not a WAV file".to_owned());
        }
        let riff_size = u64::from(u32::from_le_bytes(sizes[0]));
        let (mut at, mut format, mut long_size) = (12, None, None);
        loop {
            let [name, size] = read_words::<2>(input)?;
            let size = u64::from(u32::from_le_bytes(size));
            at += 8;
            match &name {
                b"data" => {
                    let format =
                        format.ok_or("the `fmt ` chunk is missing ahead of the samples")?;
                    let size = long_size.filter(|_| size == SIZE_IN_DS64).unwrap_or(size);
                    let (data_bytes, is_streamed) = data_bytes(size, riff_size, len, at);
                    return Ok(Self { format, data_bytes, is_streamed });
                }
                b"fmt " if size <= MAX_FORMAT_BYTES => {
                    format = Some(WavFormat::parse(&read_chunk(input, size)?)?);
                }
                b"fmt " => return Err(format!("the `fmt ` chunk has {size} bytes")),
                b"ds64" if &riff != b"RIFF" && size <= MAX_FORMAT_BYTES => {
                    let chunk = read_chunk(input, size)?;
                    let size = chunk.get(8..16).and_then(|bytes| bytes.first_chunk());
                    long_size = Some(u64::from_le_bytes(*size.ok_or(TRUNCATED)?));
                }
                _ => skip(input, size)?,
            }
            // Chunks begin at even offsets.
            skip(input, size % 2)?;
            at += size + size % 2;
        }
    }
}

/// True if a file that begins with the words `riff`, its size, and `form` is a WAV file.
pub(crate) fn is_wav(riff: &[u8], form: &[u8]) -> bool {
    matches!(riff, b"RIFF" | b"RF64" | b"BW64") && form == b"WAVE"
}

/// Bytes of the data chunk of stated `size` at offset `at` of a file of `len` bytes, if known, and
/// true if that is not the stated size.
fn data_bytes(size: u64, riff_size: u64, len: Option<u64>, at: u64) -> (Option<u64>, bool) {
    let Some(len) = len else {
        let is_stated = size > 0 && size < MIN_STREAMED_SIZE;
        return (is_stated.then_some(size), !is_stated);
    };
    let rest = len.saturating_sub(at);
    // A size of zero is valid if the RIFF size covers the whole file: other chunks follow.
    let is_missing = size == 0 && riff_size + 8 < len;
    let is_streamed = rest > 0 && (is_missing || (size >= MIN_STREAMED_SIZE && size > rest));
    (Some(if is_streamed { rest } else { size }), is_streamed)
}

impl WavFormat {
    fn parse(chunk: &[u8]) -> Result<Self, String> {
        let short = |at: usize| {
            let bytes = chunk.get(at..at + 2).and_then(|bytes| bytes.first_chunk());
            bytes.map(|bytes| u16::from_le_bytes(*bytes)).ok_or("the `fmt ` chunk is too short")
        };
        let (tag, channels, align, bits) = (short(0)?, short(2)?, short(12)?, short(14)?);
        let rate = u32::from(short(4)?) | u32::from(short(6)?) << 16;
        if channels == 0 {
            return Err("the header states no channel".to_owned());
        }
        let is_extensible = tag == EXTENSIBLE;
        let tag = if is_extensible { short(24)? } else { tag };
        let bytes = usize::from(bits.div_ceil(8));
        let encoding = match tag {
            PCM => Encoding::integer(bytes),
            FLOAT => Encoding::float(bytes),
            ALAW => Some(Encoding::ALaw).filter(|_| bits == 8),
            MULAW => Some(Encoding::MuLaw).filter(|_| bits == 8),
            ADPCM | IMA_ADPCM => {
                return Ok(Self { encoding: WavEncoding::Adpcm, channels, rate });
            }
            _ => return Err(unsupported(tag)),
        };
        let encoding =
            encoding.ok_or_else(|| format!("{bits} bits per sample are not supported"))?;
        // Samples are left-justified in their bytes, so that the number of valid bits, which is
        // less than that of the bits if the format is extensible, does not change their scale.
        let expected = encoding.size() * usize::from(channels);
        if usize::from(align) != expected {
            return Err(format!(
                "the header states {align} bytes for a sample of {channels} channels, but {bits} \
                 bits per sample make {expected} bytes"
            ));
        }
        Ok(Self { encoding: WavEncoding::Pcm(encoding), channels, rate })
    }
}

const PCM: u16 = 0x0001;
const ADPCM: u16 = 0x0002;
const FLOAT: u16 = 0x0003;
const ALAW: u16 = 0x0006;
const MULAW: u16 = 0x0007;
const IMA_ADPCM: u16 = 0x0011;
const EXTENSIBLE: u16 = 0xfffe;

/// Message for a codec that is not supported (RFC 2361).
fn unsupported(tag: u16) -> String {
    let name = match tag {
        0x0010 => "OKI ADPCM",
        0x0022 => "TrueSpeech",
        0x0031 => "GSM 6.10",
        0x0040 | 0x0045 | 0x0064 => "G.721 or G.726 ADPCM",
        0x0050 => "MPEG audio",
        0x0055 => "MP3",
        0x00ff | 0x1610 => "AAC",
        0x0160..=0x0163 => "Windows Media Audio",
        0x2000 => "AC-3",
        _ => "an unknown codec",
    };
    format!("a WAV file with {name} (format tag {tag:#06x})")
}

/// Reads words of four bytes.
fn read_words<const N: usize>(input: &mut impl Read) -> Result<[[u8; 4]; N], String> {
    let mut words = [[0; 4]; N];
    let result = input.read_exact(words.as_flattened_mut());
    result.map(|()| words).map_err(message)
}

fn read_chunk(input: &mut impl Read, size: u64) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
    input.read_exact(&mut bytes).map(|()| bytes).map_err(message)
}

fn skip(input: &mut impl Read, size: u64) -> Result<(), String> {
    io::copy(&mut input.take(size), &mut io::sink()).map(drop).map_err(message)
}

fn message(error: io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => TRUNCATED.to_owned(),
        _ => error.to_string(),
    }
}
