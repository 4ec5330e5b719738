//! Output files that are truncated only when writing starts.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::Path,
};

/// A writable file that keeps its content until [`NewFile::begin`]. An earlier failure therefore
/// destroys nothing.
#[derive(Debug)]
pub struct NewFile(File);

impl NewFile {
    /// Opens the file `path`, and creates it and its parent folders if necessary.
    ///
    /// # Errors
    /// If it cannot be created or written.
    pub fn open(path: &Path) -> io::Result<Self> {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).open(path).map(Self)
    }

    /// Truncates the file and returns it.
    ///
    /// # Errors
    /// If it cannot be truncated.
    pub fn begin(self) -> io::Result<File> {
        // Only regular files, and not pipes for example, have content to truncate.
        if self.0.metadata()?.is_file() {
            self.0.set_len(0)?;
        }
        Ok(self.0)
    }
}
