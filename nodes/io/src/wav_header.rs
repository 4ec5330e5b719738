//! The header of a WAV file, without what `hound` does not read.

use std::io::{self, Read};

/// What stands before the samples.
pub(crate) struct WavHeader {
    /// The format, and how long the samples are. Where it is none, it ends there, so that `hound`
    /// finds what is wrong.
    pub(crate) bytes: Vec<u8>,
    /// Whether the file does not say how long the samples are.
    pub(crate) is_open: bool,
}

/// Programs that write to a pipe promise this or more, because they cannot tell the length later.
const ENDLESS: u64 = 0x7fff_0000;

/// Longest description of a format.
const MAX_FORMAT: u64 = 64;

/// Where the bytes of a sample of all channels stand in the header.
const ALIGNMENT: std::ops::Range<usize> = 32..34;

impl WavHeader {
    /// Reads up to the samples of a file of `len` bytes.
    pub(crate) fn read(file: &mut impl Read, len: u64) -> io::Result<Self> {
        let (mut bytes, mut at) = (Vec::new(), 12);
        file.by_ref().take(at).read_to_end(&mut bytes)?;
        while bytes.starts_with(b"RIFF") {
            let begin = bytes.len();
            file.by_ref().take(8).read_to_end(&mut bytes)?;
            let Some(&[name @ .., a, b, c, d]) = bytes[begin..].first_chunk::<8>() else { break };
            let size = u64::from(u32::from_le_bytes([a, b, c, d]));
            at += 8;
            match &name {
                b"data" => return Ok(Self::with_samples(bytes, size, len, at)),
                b"fmt " if size <= MAX_FORMAT => {
                    file.by_ref().take(size).read_to_end(&mut bytes)?;
                }
                b"fmt " => break,
                _ => {
                    bytes.truncate(begin);
                    io::copy(&mut file.by_ref().take(size), &mut io::sink())?;
                }
            }
            // Chunks begin at even places.
            io::copy(&mut file.by_ref().take(size % 2), &mut io::sink())?;
            at += size + size % 2;
        }
        Ok(Self { bytes, is_open: false })
    }

    /// The header in `bytes` of `size` bytes of samples that begin at `at` in a file of `len` bytes.
    fn with_samples(mut bytes: Vec<u8>, size: u64, len: u64, at: u64) -> Self {
        let rest = len.saturating_sub(at);
        // Nothing may be right, with other chunks behind it.
        let whole = bytes[4..].first_chunk().map_or(0, |size| u64::from(u32::from_le_bytes(*size)));
        let is_open = (size == 0 && whole + 8 < len) || (size >= ENDLESS && size > rest);
        let is_open = is_open && rest > 0;
        if is_open {
            let alignment = bytes.get(ALIGNMENT).and_then(|bytes| bytes.first_chunk());
            let alignment = alignment.map_or(1, |bytes| u32::from(u16::from_le_bytes(*bytes)));
            let rest = u32::try_from(rest).unwrap_or(u32::MAX);
            let size = rest - rest % alignment.max(1);
            bytes.truncate(bytes.len() - 4);
            bytes.extend(size.to_le_bytes());
        }
        Self { bytes, is_open }
    }
}
