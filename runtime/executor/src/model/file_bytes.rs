//! Bytes of a file, mapped or read into memory.

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

/// Method of access to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileAccess {
    /// Maps the file: its pages are loaded on first use and shared by all processes that map it.
    ///
    /// The file must not change while a model uses it. Replace it by renaming a new file over it;
    /// the old one stays mapped. If it is written in place, models compute with the new contents.
    /// If it is truncated, the next access to a lost page ends the process (`SIGBUS`).
    #[default]
    Map,
    /// Reads the whole file at once. Later changes of the file have no effect.
    Read,
}

/// Identity and state of a mapped file. Files with equal identities have equal bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileIdentity {
    device: u64,
    inode: u64,
    len: u64,
    modified: (i64, i64),
}

impl FileIdentity {
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

    /// Not available on other systems.
    #[cfg(not(unix))]
    fn of(_: &Metadata) -> Option<Self> {
        None
    }
}

/// Bytes of a file, aligned to 64.
pub(super) enum FileBytes {
    Mapped(Mmap, Option<FileIdentity>),
    Owned(AlignedBytes),
}

impl FileBytes {
    /// Opens the file at `path`. A file that is not regular, such as a pipe, is always read.
    pub(super) fn open(path: &Path, access: FileAccess) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Ok(Self::Owned(fs::read(path)?.as_slice().into()));
        }
        if access == FileAccess::Map && metadata.len() > 0 {
            // SAFETY: the bytes are only read. `FileAccess::Map` requires that the file does not
            // change, as every loader that maps files does; `FileAccess::Read` serves files that
            // may change.
            let map = unsafe { Mmap::map(&file) }?;
            return Ok(Self::Mapped(map, FileIdentity::of(&metadata)));
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

    /// Releases the pages of a mapped file that are not expected to be read again. A later read
    /// loads them from the file.
    pub(super) fn release_pages(&self, range: Range<usize>) {
        #[cfg(unix)]
        if let Self::Mapped(map, _) = self {
            let (start, len) = (range.start, range.len());
            // SAFETY: the mapping is read-only, so released pages are restored from the file.
            let result =
                unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, start, len) };
            // On failure the pages stay in memory.
            let _ = result;
        }
        #[cfg(not(unix))]
        let _ = range;
    }

    /// Identity of the file, if it is mapped.
    pub(super) fn identity(&self) -> Option<FileIdentity> {
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
    fn both_access_methods_give_the_same_bytes() {
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
