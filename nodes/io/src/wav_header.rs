//! Reader of WAV headers, reduced to the chunks that `hound` reads.

use std::io::{self, Read};

/// Everything before the samples.
pub(crate) struct WavHeader {
    /// The `RIFF`, `fmt `, and `data` headers. They end at the first fault, so that `hound` reports
    /// it.
    pub(crate) bytes: Vec<u8>,
    /// True if the header does not state the length of the data, as in a file that was streamed.
    pub(crate) is_streamed: bool,
}

/// Data sizes from here on mean "unknown": programs that write to a pipe cannot state the length.
const MIN_STREAMED_SIZE: u64 = 0x7fff_0000;

/// Longest `fmt ` chunk that is read.
const MAX_FORMAT_BYTES: u64 = 64;

/// Position of the field `nBlockAlign` (bytes of one sample of all channels) in the header.
const BLOCK_ALIGN: std::ops::Range<usize> = 32..34;

impl WavHeader {
    /// Reads up to the first sample of a file of `len` bytes.
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
                b"data" => return Ok(Self::with_data(bytes, size, len, at)),
                b"fmt " if size <= MAX_FORMAT_BYTES => {
                    file.by_ref().take(size).read_to_end(&mut bytes)?;
                }
                b"fmt " => break,
                _ => {
                    bytes.truncate(begin);
                    io::copy(&mut file.by_ref().take(size), &mut io::sink())?;
                }
            }
            // Chunks begin at even offsets.
            io::copy(&mut file.by_ref().take(size % 2), &mut io::sink())?;
            at += size + size % 2;
        }
        Ok(Self { bytes, is_streamed: false })
    }

    /// The header `bytes` of `size` bytes of data that begin at offset `at` of a file of `len`
    /// bytes.
    fn with_data(mut bytes: Vec<u8>, size: u64, len: u64, at: u64) -> Self {
        let rest = len.saturating_sub(at);
        // A size of zero is valid if the RIFF size covers the whole file: other chunks follow.
        let whole = bytes[4..].first_chunk().map_or(0, |size| u64::from(u32::from_le_bytes(*size)));
        let is_streamed =
            (size == 0 && whole + 8 < len) || (size >= MIN_STREAMED_SIZE && size > rest);
        let is_streamed = is_streamed && rest > 0;
        if is_streamed {
            let alignment = bytes.get(BLOCK_ALIGN).and_then(|bytes| bytes.first_chunk());
            let alignment = alignment.map_or(1, |bytes| u32::from(u16::from_le_bytes(*bytes)));
            let rest = u32::try_from(rest).unwrap_or(u32::MAX);
            let size = rest - rest % alignment.max(1);
            bytes.truncate(bytes.len() - 4);
            bytes.extend(size.to_le_bytes());
        }
        Self { bytes, is_streamed }
    }
}
