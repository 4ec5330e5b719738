//! File identifier and extended header: splits a file into flatbuffer and segments.

use crate::error::{AtLocation, ErrorKind, FieldError, FileKind, Location, ProgramError};
use afferent_flatbuffer::{Field, array};

const HEADER_LENGTH: Field = Field(0, "header length");
const FLATBUFFER_SIZE: Field = Field(0, "flatbuffer size in the header");
const SEGMENT_BASE_OFFSET: Field = Field(0, "segment base offset in the header");
const SEGMENT_DATA_SIZE: Field = Field(0, "segment data size in the header");

/// Sections of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sections<'a> {
    /// Starts at the first byte of the file.
    pub(crate) flatbuffer: &'a [u8],
    /// Data of all segments; empty if there are none.
    pub(crate) segments: &'a [u8],
}

/// Splits a `.pte` program.
///
/// The extended header follows the file identifier: `eh00`, header length, flatbuffer size, segment
/// base offset, segment data size (only in headers of at least 32 bytes). A file without an extended
/// header consists of the flatbuffer only.
pub(crate) fn program_sections(bytes: &[u8]) -> Result<Sections<'_>, ProgramError> {
    check_identifier(bytes, FileKind::Program)?;
    if array(bytes, 8) != Some(*b"eh00") {
        return Ok(Sections { flatbuffer: bytes, segments: &[] });
    }
    let header = Header { bytes, file: FileKind::Program };
    let length = header.length(24)?;
    let flatbuffer_size = header.u64_at(16)?;
    let segment_base = header.u64_at(24)?;
    let segment_data_size = if length < 32 { 0 } else { header.u64_at(32)? };
    header.sections(Extents { flatbuffer_size, segment_base, segment_data_size })
}

/// Splits a `.ptd` file.
///
/// The header follows the file identifier: `FH01`, header length, flatbuffer offset, flatbuffer size
/// from that offset, segment base offset, segment data size.
pub(crate) fn external_data_sections(bytes: &[u8]) -> Result<Sections<'_>, ProgramError> {
    check_identifier(bytes, FileKind::ExternalData)?;
    let header = Header { bytes, file: FileKind::ExternalData };
    if array(bytes, 8) != Some(*b"FH01") {
        return Err(header.error(Field(0, "header").invalid("does not start with FH01")));
    }
    header.length(40)?;
    let flatbuffer_size = header.u64_at(16)?.checked_add(header.u64_at(24)?);
    let overflow = FLATBUFFER_SIZE.invalid("overflows");
    let flatbuffer_size = flatbuffer_size.ok_or_else(|| header.error(overflow))?;
    let (segment_base, segment_data_size) = (header.u64_at(32)?, header.u64_at(40)?);
    header.sections(Extents { flatbuffer_size, segment_base, segment_data_size })
}

/// True if `bytes` has the file identifier of `file`.
pub(crate) fn has_identifier(bytes: &[u8], file: FileKind) -> bool {
    array(bytes, 4) == file.identifier().as_bytes().first_chunk::<4>().copied()
}

/// Checks that `bytes` has the file identifier of `file`.
pub(crate) fn check_identifier(bytes: &[u8], file: FileKind) -> Result<(), ProgramError> {
    let found: [u8; 4] = array(bytes, 4).ok_or(ProgramError::Truncated {
        file,
        needed: 8,
        found: bytes.len() as u64,
    })?;
    if found == *file.identifier().as_bytes() {
        Ok(())
    } else if file == FileKind::Program && has_identifier(bytes, FileKind::Bundled) {
        Err(ProgramError::Bundled)
    } else if found.starts_with(&file.identifier().as_bytes()[..2]) {
        Err(ProgramError::WrongVersion { file, found })
    } else {
        Err(ProgramError::WrongIdentifier { file, found })
    }
}

struct Header<'a> {
    bytes: &'a [u8],
    file: FileKind,
}

/// Sizes and offsets of the sections, in bytes.
struct Extents {
    flatbuffer_size: u64,
    segment_base: u64,
    /// 0 in files without segments, and in files of older exporters.
    segment_data_size: u64,
}

impl<'a> Header<'a> {
    fn error(&self, error: FieldError) -> ProgramError {
        error.at(Location::File(self.file))
    }

    fn truncated(&self, needed: u64) -> ProgramError {
        ProgramError::Truncated { file: self.file, needed, found: self.bytes.len() as u64 }
    }

    fn u64_at(&self, at: usize) -> Result<u64, ProgramError> {
        let value = array(self.bytes, at).map(u64::from_le_bytes);
        value.ok_or_else(|| self.truncated(at as u64 + 8))
    }

    /// Header length, which must be at least `min` bytes.
    fn length(&self, min: u32) -> Result<u32, ProgramError> {
        let length = array(self.bytes, 12).map(u32::from_le_bytes);
        let length = length.ok_or_else(|| self.truncated(16))?;
        if length < min {
            return Err(self.error(HEADER_LENGTH.error(ErrorKind::RangeOutOfBounds {
                start: 0,
                len: min.into(),
                limit: length.into(),
            })));
        }
        Ok(length)
    }

    fn sections(&self, extents: Extents) -> Result<Sections<'a>, ProgramError> {
        let total = self.bytes.len() as u64;
        let Extents { flatbuffer_size, segment_base, segment_data_size } = extents;
        if flatbuffer_size > total {
            return Err(self.truncated(flatbuffer_size));
        }
        let flatbuffer = FLATBUFFER_SIZE.slice(self.bytes, 0, flatbuffer_size);
        let flatbuffer = flatbuffer.map_err(|error| self.error(error))?;
        if segment_base == 0 && segment_data_size == 0 {
            return Ok(Sections { flatbuffer, segments: &[] });
        }
        if segment_base < flatbuffer_size {
            let error = SEGMENT_BASE_OFFSET.invalid("points into the flatbuffer");
            return Err(self.error(error));
        }
        let end = segment_base.checked_add(segment_data_size);
        let end = end.ok_or_else(|| self.error(SEGMENT_DATA_SIZE.invalid("overflows")))?;
        if end > total {
            return Err(self.truncated(end));
        }
        // Older exporters do not write the size of the segments.
        let size = if segment_data_size == 0 { total - segment_base } else { segment_data_size };
        let segments = SEGMENT_DATA_SIZE.slice(self.bytes, segment_base, size);
        let segments = segments.map_err(|error| self.error(error))?;
        Ok(Sections { flatbuffer, segments })
    }
}
