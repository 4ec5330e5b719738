//! Archives of cases: gzipped JSON, one file for each operator or group of programs.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use flate2::read::GzDecoder;
use serde::de::DeserializeOwned;

/// Archives in a folder of the data, sorted by name.
///
/// # Panics
/// Panics if the folder cannot be read or has any other file.
pub(crate) fn archives(folder: &str) -> Vec<PathBuf> {
    let folder = crate::data().join(folder);
    let entries = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("the folder is readable").path());
    let mut files: Vec<_> = entries.collect();
    for file in &files {
        let name = file.to_string_lossy();
        assert!(name.ends_with(".json.gz"), "{name} is not an archive; export the data again");
    }
    files.sort();
    files
}

/// Reads the entries of an archive.
///
/// # Panics
/// Panics if the archive is malformed.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Vec<T> {
    let fail = |error: &dyn std::fmt::Display| -> ! { panic!("{}: {error}", path.display()) };
    let file = File::open(path).unwrap_or_else(|error| fail(&error));
    let text = std::io::read_to_string(GzDecoder::new(file)).unwrap_or_else(|error| fail(&error));
    serde_json::from_str(&text).unwrap_or_else(|error| fail(&error))
}

/// Name of an archive without its folder and file extension.
pub(crate) fn name(path: &Path) -> String {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    file.trim_end_matches(".json.gz").to_owned()
}
