//! A file that stays as it was until it is written.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::Path,
};

/// A file that can be written: what it held is there until [`NewFile::begin`], so that what fails
/// before takes nothing away.
#[derive(Debug)]
pub struct NewFile(File);

impl NewFile {
    /// Opens the file `path`, or makes it, with the folders above it.
    ///
    /// # Errors
    /// When it cannot be made or written.
    pub fn open(path: &Path) -> io::Result<Self> {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).open(path).map(Self)
    }

    /// The file, empty.
    ///
    /// # Errors
    /// When it cannot be emptied.
    pub fn begin(self) -> io::Result<File> {
        // What is no file, such as a pipe, holds nothing.
        if self.0.metadata()?.is_file() {
            self.0.set_len(0)?;
        }
        Ok(self.0)
    }
}
