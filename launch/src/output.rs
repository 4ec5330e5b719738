//! Files that are written when a command has done its work.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use afferent_record::NewFile;
use anyhow::Context;

/// A file whose place is known to be good, and which stays as it was until it is written.
pub(crate) struct Output {
    path: PathBuf,
    file: NewFile,
}

impl Output {
    /// Opens the file, or makes it, with the folders above it.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let file = NewFile::open(path).with_context(|| cannot_write(path))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Puts `bytes` in the place of what it holds.
    pub(crate) fn write(self, bytes: &[u8]) -> anyhow::Result<()> {
        let written = self.file.begin().and_then(|mut file| file.write_all(bytes));
        written.with_context(|| cannot_write(&self.path))
    }
}

pub(crate) fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}
