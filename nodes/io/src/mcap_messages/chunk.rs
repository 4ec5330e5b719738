//! Decompression of the chunks of an MCAP file.

use std::io::{Cursor, Read};

use lz4_flex::frame::FrameDecoder;
use mcap::{
    McapError, McapResult,
    sans_io::decompressor::{DecompressResult, Decompressor},
};
use ruzstd::decoding::StreamingDecoder;

/// Decoded bytes of a chunk.
type Decoded = Box<dyn Read + Send>;

/// Decoder of one kind of compression. It gets a chunk as a whole, and decodes as much of it at a
/// time as is asked for.
pub(super) struct ChunkDecoder {
    name: &'static str,
    start: fn(Cursor<Vec<u8>>) -> Result<Decoded, String>,
    /// Decoder of the present chunk.
    chunk: Option<Decoded>,
}

impl ChunkDecoder {
    pub(super) fn zstd() -> Self {
        Self {
            name: "zstd",
            start: |chunk| match StreamingDecoder::new(chunk) {
                Ok(decoder) => Ok(Box::new(decoder)),
                Err(error) => Err(error.to_string()),
            },
            chunk: None,
        }
    }

    pub(super) fn lz4() -> Self {
        Self { name: "lz4", start: |chunk| Ok(Box::new(FrameDecoder::new(chunk))), chunk: None }
    }

    fn fault(&self, reason: impl ToString) -> McapError {
        McapError::DecompressionError(format!("{}: {}", self.name, reason.to_string()))
    }
}

impl Decompressor for ChunkDecoder {
    fn next_read_size(&self) -> usize {
        // The reader limits it to the length of the chunk.
        if self.chunk.is_none() { usize::MAX } else { 0 }
    }

    fn decompress(&mut self, src: &[u8], dst: &mut [u8]) -> McapResult<DecompressResult> {
        let mut consumed = 0;
        if self.chunk.is_none() {
            let chunk = (self.start)(Cursor::new(src.to_vec()));
            self.chunk = Some(chunk.map_err(|reason| self.fault(reason))?);
            consumed = src.len();
        }
        let read = self.chunk.as_mut().map_or(Ok(0), |chunk| chunk.read(dst));
        let wrote = read.map_err(|error| self.fault(error))?;
        Ok(DecompressResult { consumed, wrote })
    }

    fn reset(&mut self) -> McapResult<()> {
        self.chunk = None;
        Ok(())
    }

    fn name(&self) -> &'static str {
        self.name
    }
}
