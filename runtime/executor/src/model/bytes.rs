//! The bytes of a file: mapped, or read into memory.

#![expect(unsafe_code, reason = "maps files")]

use std::{
    fs::{self, File, Metadata},
    io::{self, Read as _},
    ops::Range,
    path::Path,
};

use afferent_core::AlignedBytes;
use memmap2::Mmap;
#[cfg(unix)]
use memmap2::UncheckedAdvice;

/// How the bytes of a file come into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileAccess {
    /// The file is mapped: its pages are loaded when they are first used, and every process that
    /// maps it shares them.
    ///
    /// The file must stay as it is while a model uses it. Replace it by renaming a new one over
    /// it, which leaves the old one mapped: if it is written in place, models compute with what it
    /// then holds, and if it is cut short, the next use of a lost page ends the process (`SIGBUS`).
    #[default]
    Map,
    /// The file is read at once. What happens to it afterwards does not matter.
    Read,
}

/// Which file was mapped, and in which state: equal ones have equal bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
    len: u64,
    modified: (i64, i64),
}

impl Identity {
    #[cfg(unix)]
    fn of(metadata: &Metadata) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        Some(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            len: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }

    /// Other systems do not tell.
    #[cfg(not(unix))]
    fn of(_: &Metadata) -> Option<Self> {
        None
    }
}

/// The bytes of a file, aligned to 64.
pub(super) enum FileBytes {
    Mapped(Mmap, Option<Identity>),
    Owned(AlignedBytes),
}

impl FileBytes {
    /// The bytes of the file at `path`. What is no regular file, such as a pipe, is always read.
    pub(super) fn open(path: &Path, access: FileAccess) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Ok(Self::Owned(fs::read(path)?.as_slice().into()));
        }
        if access == FileAccess::Map && metadata.len() > 0 {
            // SAFETY: the bytes are only read. That nobody changes the file meanwhile is demanded
            // of the user (`FileAccess::Map`), as by every loader that maps; a file that may
            // change is read instead (`FileAccess::Read`).
            let map = unsafe { Mmap::map(&file) }?;
            return Ok(Self::Mapped(map, Identity::of(&metadata)));
        }
        let missing = || io::Error::from(io::ErrorKind::OutOfMemory);
        let bytes = usize::try_from(metadata.len()).ok().and_then(AlignedBytes::try_zeroed);
        let mut bytes = bytes.ok_or_else(missing)?;
        file.read_exact(bytes.as_mut_slice())?;
        Ok(Self::Owned(bytes))
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Mapped(map, _) => map,
            Self::Owned(bytes) => bytes.as_slice(),
        }
    }

    /// Says that these bytes are hardly read again: where the file is mapped, they take no memory
    /// of the process until then.
    pub(super) fn release(&self, range: Range<usize>) {
        #[cfg(unix)]
        if let Self::Mapped(map, _) = self {
            let (start, len) = (range.start, range.len());
            // SAFETY: the mapping is read-only, so that pages that are left come back from the file
            // as they were.
            let left = unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, start, len) };
            // Where that cannot be, the pages stay.
            let _ = left;
        }
        #[cfg(not(unix))]
        let _ = range;
    }

    /// Which file this is, if it is mapped.
    pub(super) fn identity(&self) -> Option<Identity> {
        match self {
            Self::Mapped(_, identity) => *identity,
            Self::Owned(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_give_the_same_bytes() {
        let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        let expected = fs::read(path).unwrap();
        for access in [FileAccess::Map, FileAccess::Read] {
            let bytes = FileBytes::open(path, access).unwrap();
            assert_eq!(bytes.as_slice(), expected);
            assert!(bytes.as_slice().as_ptr().addr().is_multiple_of(64));
            assert!(FileBytes::open(Path::new("no/such/file"), access).is_err());
        }
        assert!(matches!(FileBytes::open(path, FileAccess::Map), Ok(FileBytes::Mapped(..))));
    }

    #[test]
    fn empty_and_irregular_files_are_read() {
        for access in [FileAccess::Map, FileAccess::Read] {
            let bytes = FileBytes::open(Path::new("/dev/null"), access).unwrap();
            assert!(bytes.as_slice().is_empty());
        }
    }
}
