//! State of a model on disk: its mutable buffers, without their zeros.
//!
//! Layout: [`MAGIC`], the checksum of the rest, the hash of the program, the label with its length, the
//! number of buffers, and each buffer with its length and its blocks: offset, length, bytes. A block of
//! length zero ends the buffer. Numbers are little-endian `u64`.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use twox_hash::XxHash3_128;

use super::{
    FileAccess, Model,
    file_bytes::FileBytes,
    saved_file::{WordReader, replace_file},
};
/// First bytes of the file. The last one is the format version.
const MAGIC: [u8; 16] = *b"afferent  state1";
/// Offset of the first byte that the checksum covers.
const CHECKSUM_START: usize = 32;
/// Bytes that are left out if they are all zero.
const PAGE: usize = 4096;

/// Reason of [`StateFileError::Invalid`] for a file that this program has not written.
const FOREIGN: &str = "it is not a state file of this version";

/// Error of a state file. The state of the model is then that before the call.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StateFileError {
    /// The file cannot be read or written.
    #[error("state file {}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Error message of the system.
        reason: String,
    },
    /// The file is damaged, or belongs to another program or to other methods.
    #[error("state file {}: {reason}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Failed check.
        reason: &'static str,
    },
}

impl StateFileError {
    /// True if the file is something other than a state file, so that it should not be replaced.
    pub fn is_foreign(&self) -> bool {
        matches!(self, Self::Invalid { reason: FOREIGN, .. })
    }
}

impl Model {
    /// Writes the state of all loaded methods to `path`, with a `label` of the caller. The state of a
    /// delegate is not part of it; those for CPUs have none.
    ///
    /// # Errors
    /// [`StateFileError::File`].
    pub fn save_state(&self, path: &Path, label: &[u8]) -> Result<(), StateFileError> {
        let write = |new: &Path| {
            let to = BufWriter::new(File::create(new)?);
            let mut out = Summed { to, sum: XxHash3_128::new() };
            out.to.write_all(&[0; CHECKSUM_START])?;
            out.write_all(&self.file.content_hash().to_le_bytes())?;
            write_len(&mut out, label.len())?;
            out.write_all(label)?;
            write_len(&mut out, self.buffer_lens().len())?;
            let mut written = Ok(());
            self.for_each_buffer(|buffer| {
                if written.is_ok() {
                    written = write_buffer(&mut out, buffer.bytes());
                }
            });
            written?;
            let sum = out.sum.finish_128();
            let mut file = out.to.into_inner().map_err(io::IntoInnerError::into_error)?;
            io::Seek::rewind(&mut file)?;
            file.write_all(&MAGIC)?;
            file.write_all(&sum.to_le_bytes())
        };
        replace_file(path, write).map_err(|error| file_error(path, &error))
    }

    /// Reads the state from `path` into the loaded methods, which must be those of
    /// [`save_state`](Self::save_state). Returns the label, or `None` if there is no file.
    ///
    /// # Errors
    /// [`StateFileError`].
    pub fn load_state(&mut self, path: &Path) -> Result<Option<Vec<u8>>, StateFileError> {
        let file = match FileBytes::open(path, FileAccess::Map) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(file_error(path, &error)),
        };
        let invalid = |reason| StateFileError::Invalid { path: path.to_owned(), reason };
        let hash = self.file.content_hash();
        let state = State::parse(file.as_slice(), hash, &self.buffer_lens()).map_err(invalid)?;
        let mut blocks = state.blocks.iter();
        self.for_each_buffer_mut(|buffer| {
            buffer.zero();
            for (offset, bytes) in blocks.next().into_iter().flatten() {
                buffer.write(*offset, bytes);
            }
        });
        Ok(Some(state.label.to_vec()))
    }

    /// Lengths of all planned buffers.
    fn buffer_lens(&self) -> Vec<usize> {
        let mut lens = Vec::new();
        self.for_each_buffer(|buffer| lens.push(buffer.len()));
        lens
    }
}

/// Contents of a file.
struct State<'f> {
    label: &'f [u8],
    /// Offset and bytes of the blocks of each buffer.
    blocks: Vec<Vec<(usize, &'f [u8])>>,
}

impl<'f> State<'f> {
    fn parse(bytes: &'f [u8], hash: u128, buffers: &[usize]) -> Result<Self, &'static str> {
        let damaged = "it is damaged";
        let (head, rest) = bytes.split_at_checked(CHECKSUM_START).ok_or(damaged)?;
        if head[..MAGIC.len()] != MAGIC {
            return Err(FOREIGN);
        }
        if head[MAGIC.len()..] != XxHash3_128::oneshot(rest).to_le_bytes() {
            return Err(damaged);
        }
        let mut rest = WordReader(rest);
        if rest.bytes(size_of::<u128>() as u64) != Some(&hash.to_le_bytes()) {
            return Err("it belongs to another program");
        }
        let len = rest.next().ok_or(damaged)?;
        let label = rest.bytes(len).ok_or(damaged)?;
        if next(&mut rest) != Some(buffers.len()) {
            return Err("it has the state of other methods");
        }
        let mut blocks = Vec::with_capacity(buffers.len());
        for &size in buffers {
            if next(&mut rest) != Some(size) {
                return Err("it has the state of other methods");
            }
            let mut of_buffer = Vec::new();
            loop {
                let offset = next(&mut rest).ok_or(damaged)?;
                let bytes = rest.next().and_then(|len| rest.bytes(len)).ok_or(damaged)?;
                if bytes.is_empty() {
                    break;
                }
                let end = offset.checked_add(bytes.len()).filter(|&end| end <= size);
                end.ok_or(damaged)?;
                of_buffer.push((offset, bytes));
            }
            blocks.push(of_buffer);
        }
        Ok(Self { label, blocks })
    }
}

/// Writer that also hashes what it writes.
struct Summed<W> {
    to: W,
    sum: XxHash3_128,
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.sum.write(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

fn write_len(out: &mut impl Write, len: usize) -> io::Result<()> {
    out.write_all(&(len as u64).to_le_bytes())
}

/// Writes the length of a buffer and its blocks: runs of pages that are not zero.
fn write_buffer(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    write_len(out, bytes.len())?;
    let is_zero = |page: &[u8]| page.iter().all(|&byte| byte == 0);
    let mut offset = 0;
    for run in bytes.chunks(PAGE).collect::<Vec<_>>().chunk_by(|a, b| is_zero(a) == is_zero(b)) {
        let len = run.iter().map(|page| page.len()).sum();
        if !is_zero(run[0]) {
            write_len(out, offset)?;
            write_len(out, len)?;
            out.write_all(&bytes[offset..offset + len])?;
        }
        offset += len;
    }
    write_len(out, 0)?;
    write_len(out, 0)
}

/// The next number.
fn next(reader: &mut WordReader<'_>) -> Option<usize> {
    reader.next().and_then(|word| usize::try_from(word).ok())
}

fn file_error(path: &Path, error: &io::Error) -> StateFileError {
    StateFileError::File { path: path.to_owned(), reason: error.to_string() }
}
