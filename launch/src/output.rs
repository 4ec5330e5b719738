//! Output files of commands.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use afferent_record::NewFile;
use anyhow::Context;

/// Output file that is opened before a command does its work. The old contents stay until
/// [`Output::write`].
pub(crate) struct Output {
    path: PathBuf,
    file: NewFile,
}

impl Output {
    /// Opens the file. Creates it and its parent folders if necessary.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let file = NewFile::open(path).with_context(|| cannot_write(path))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Replaces the contents with `bytes`.
    pub(crate) fn write(self, bytes: &[u8]) -> anyhow::Result<()> {
        let written = self.file.begin().and_then(|mut file| file.write_all(bytes));
        written.with_context(|| cannot_write(&self.path))
    }
}

pub(crate) fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}
