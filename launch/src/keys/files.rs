//! Folder of certificates and keys.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};

use crate::{log, output::cannot_write};

/// Certificate and private key of one name, both as PEM.
pub(super) struct Pair {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

impl Pair {
    pub(super) fn new(folder: &Path, name: &str) -> Self {
        let file = |extension: &str| folder.join(format!("{name}.{extension}"));
        Self { certificate: file("pem"), key: file("key") }
    }

    /// True if both files exist, false if none does.
    pub(super) fn exists(&self, remedy: &str) -> anyhow::Result<bool> {
        let (certificate, key) = (self.certificate.exists(), self.key.exists());
        let (there, missing) = match certificate {
            true => (&self.certificate, &self.key),
            false => (&self.key, &self.certificate),
        };
        let (there, missing) = (there.display(), missing.display());
        ensure!(certificate == key, "{there} exists, but {missing} does not: {remedy}");
        Ok(certificate)
    }

    /// Writes both files. Each of them is complete or has its old contents.
    pub(super) fn write(&self, certificate: &str, key: &str) -> anyhow::Result<()> {
        write(&self.key, key, 0o600)?;
        write(&self.certificate, certificate, 0o644)
    }
}

fn write(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = Path::new(&part);
    let written = || {
        // A rest of an ended program may have other permissions.
        if part.exists() {
            fs::remove_file(part)?;
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
        #[cfg(not(unix))]
        let _ = mode;
        let mut file = options.open(part)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(part, path)
    };
    written().with_context(|| cannot_write(path))
}

/// Creates the folder, for its owner only and with a `.gitignore` that excludes everything.
pub(super) fn create(folder: &Path) -> anyhow::Result<()> {
    if folder.is_dir() {
        warn_of_writers(folder);
        return Ok(());
    }
    let created = || {
        if let Some(parent) = folder.parent() {
            fs::create_dir_all(parent)?;
        }
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder)?;
        fs::write(folder.join(".gitignore"), "*\n")
    };
    created().with_context(|| format!("cannot create the folder {}", folder.display()))
}

#[cfg(unix)]
fn warn_of_writers(folder: &Path) {
    let mode = folder
        .metadata()
        .map(|found| std::os::unix::fs::PermissionsExt::mode(&found.permissions()));
    if mode.is_ok_and(|mode| mode & 0o022 != 0) {
        let path = folder.display();
        log::warning(format_args!("other users can write to {path}: run `chmod 700 {path}`"));
    }
}

#[cfg(not(unix))]
fn warn_of_writers(_: &Path) {}
