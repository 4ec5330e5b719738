//! Compressed lists of cases: JSON in gzip's format, a file for each operator or group of programs.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use flate2::read::GzDecoder;
use serde::de::DeserializeOwned;

/// The archives in a folder of the data, by name.
///
/// # Panics
/// When the folder cannot be read, or holds anything else.
pub(crate) fn archives(folder: &str) -> Vec<PathBuf> {
    let folder = crate::data().join(folder);
    let entries = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("the folder is readable").path());
    let mut files: Vec<_> = entries.collect();
    for file in &files {
        let name = file.to_string_lossy();
        assert!(name.ends_with(".json.gz"), "{name}: not an archive; make the data again");
    }
    files.sort();
    files
}

/// The entries of an archive.
///
/// # Panics
/// When the archive is broken.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Vec<T> {
    let broken = |error: &dyn std::fmt::Display| -> ! { panic!("{}: {error}", path.display()) };
    let file = File::open(path).unwrap_or_else(|error| broken(&error));
    let text = std::io::read_to_string(GzDecoder::new(file)).unwrap_or_else(|error| broken(&error));
    serde_json::from_str(&text).unwrap_or_else(|error| broken(&error))
}

/// The name of an archive without its folder and endings.
pub(crate) fn name(path: &Path) -> String {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    file.trim_end_matches(".json.gz").to_owned()
}
