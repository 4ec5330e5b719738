//! Files that a model writes for a later process: written at once or not at all, read number by number.

use std::{
    fs, io,
    path::Path,
    process,
    sync::atomic::{AtomicU64, Ordering},
};

/// Replaces the file at `path` by what `write` writes to another path in the same folder, which is created
/// if it does not exist.
pub(super) fn replace_file(
    path: &Path,
    write: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<()> {
    /// Makes the names of temporary files unique in this process.
    static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
    let new = path.with_extension(format!("{}-{number}.new", process::id()));
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let result = write(&new).and_then(|()| fs::rename(&new, path));
    if result.is_err() {
        // The file may not exist.
        let _ = fs::remove_file(&new);
    }
    result
}

/// Reader of little-endian numbers and bytes.
pub(super) struct WordReader<'b>(pub(super) &'b [u8]);

impl<'b> WordReader<'b> {
    pub(super) fn next(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*word))
    }

    pub(super) fn bytes(&mut self, len: u64) -> Option<&'b [u8]> {
        let (bytes, rest) = self.0.split_at_checked(usize::try_from(len).ok()?)?;
        self.0 = rest;
        Some(bytes)
    }
}
