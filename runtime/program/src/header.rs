//! The header of a file: where the flatbuffer ends and the segments begin.

use crate::error::{At, Defect, Fault, FileKind, Place, ProgramError};
use afferent_flatbuffer::{Field, array};

const HEADER_LENGTH: Field = Field(0, "header length");
const FLATBUFFER_SIZE: Field = Field(0, "size of the flatbuffer in the header");
const SEGMENT_BASE_OFFSET: Field = Field(0, "segment base offset in the header");
const SEGMENT_DATA_SIZE: Field = Field(0, "segment data size in the header");

/// The two parts of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parts<'a> {
    /// From the first byte on.
    pub(crate) flatbuffer: &'a [u8],
    /// Empty where there are no segments.
    pub(crate) segments: &'a [u8],
}

/// The parts of a `.pte` program.
///
/// The extended header follows the magic: `eh00`, its length, size of the flatbuffer, segment base
/// offset, segment data size (only in headers of 32 bytes and more). A file without it is a
/// flatbuffer as a whole.
pub(crate) fn program(bytes: &[u8]) -> Result<Parts<'_>, ProgramError> {
    magic(bytes, FileKind::Program)?;
    if array(bytes, 8) != Some(*b"eh00") {
        return Ok(Parts { flatbuffer: bytes, segments: &[] });
    }
    let header = Header { bytes, file: FileKind::Program };
    let length = header.length(24)?;
    let size = header.number(16)?;
    let base = header.number(24)?;
    let data_size = if length < 32 { 0 } else { header.number(32)? };
    header.parts(Ranges { size, base, data_size })
}

/// The parts of a `.ptd` file.
///
/// The header follows the magic: `FH01`, its length, offset of the flatbuffer's first table, size
/// of the flatbuffer from there on, segment base offset, segment data size.
pub(crate) fn external_data(bytes: &[u8]) -> Result<Parts<'_>, ProgramError> {
    magic(bytes, FileKind::ExternalData)?;
    let header = Header { bytes, file: FileKind::ExternalData };
    if array(bytes, 8) != Some(*b"FH01") {
        return Err(header.refuse(Field(0, "header").invalid("does not start with FH01")));
    }
    header.length(40)?;
    let size = header.number(16)?.checked_add(header.number(24)?);
    let overflow = FLATBUFFER_SIZE.invalid("overflows");
    let size = size.ok_or_else(|| header.refuse(overflow))?;
    let (base, data_size) = (header.number(32)?, header.number(40)?);
    header.parts(Ranges { size, base, data_size })
}

/// Whether bytes 4..8 are those of such a file.
pub(crate) fn is(bytes: &[u8], file: FileKind) -> bool {
    array(bytes, 4) == file.magic().as_bytes().first_chunk::<4>().copied()
}

/// Checks bytes 4..8.
pub(crate) fn magic(bytes: &[u8], file: FileKind) -> Result<(), ProgramError> {
    let found: [u8; 4] = array(bytes, 4).ok_or(ProgramError::Truncated {
        file,
        needed: 8,
        found: bytes.len() as u64,
    })?;
    if found == *file.magic().as_bytes() {
        Ok(())
    } else if file == FileKind::Program && is(bytes, FileKind::Bundled) {
        Err(ProgramError::Bundled)
    } else if found.starts_with(&file.magic().as_bytes()[..2]) {
        Err(ProgramError::WrongVersion { file, found })
    } else {
        Err(ProgramError::WrongMagic { file, found })
    }
}

struct Header<'a> {
    bytes: &'a [u8],
    file: FileKind,
}

struct Ranges {
    size: u64,
    base: u64,
    data_size: u64,
}

impl<'a> Header<'a> {
    fn refuse(&self, defect: Defect) -> ProgramError {
        defect.at(Place::File(self.file))
    }

    fn truncated(&self, needed: u64) -> ProgramError {
        ProgramError::Truncated { file: self.file, needed, found: self.bytes.len() as u64 }
    }

    fn number(&self, at: usize) -> Result<u64, ProgramError> {
        let number = array(self.bytes, at).map(u64::from_le_bytes);
        number.ok_or_else(|| self.truncated(at as u64 + 8))
    }

    fn length(&self, least: u32) -> Result<u32, ProgramError> {
        let length = array(self.bytes, 12).map(u32::from_le_bytes);
        let length = length.ok_or_else(|| self.truncated(16))?;
        if length < least {
            return Err(self.refuse(HEADER_LENGTH.fault(Fault::Range {
                start: 0,
                len: least.into(),
                limit: length.into(),
            })));
        }
        Ok(length)
    }

    fn parts(&self, ranges: Ranges) -> Result<Parts<'a>, ProgramError> {
        let total = self.bytes.len() as u64;
        let Ranges { size, base, data_size } = ranges;
        if size > total {
            return Err(self.truncated(size));
        }
        let flatbuffer = FLATBUFFER_SIZE.slice(self.bytes, 0, size);
        let flatbuffer = flatbuffer.map_err(|defect| self.refuse(defect))?;
        if base == 0 && data_size == 0 {
            return Ok(Parts { flatbuffer, segments: &[] });
        }
        if base < size {
            let defect = SEGMENT_BASE_OFFSET.invalid("lies inside of the flatbuffer");
            return Err(self.refuse(defect));
        }
        let end = base.checked_add(data_size);
        let end = end.ok_or_else(|| self.refuse(SEGMENT_DATA_SIZE.invalid("overflows")))?;
        if end > total {
            return Err(self.truncated(end));
        }
        // Older exporters left the size of the segments out.
        let data_size = if data_size == 0 { total - base } else { data_size };
        let segments = SEGMENT_DATA_SIZE.slice(self.bytes, base, data_size);
        let segments = segments.map_err(|defect| self.refuse(defect))?;
        Ok(Parts { flatbuffer, segments })
    }
}
