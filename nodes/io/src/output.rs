//! Files that a node writes.

use std::{
    fs::{self, File},
    path::Path,
};

use afferent_graph::NodeError;

/// Makes the error that names `path`.
pub(crate) fn file_error(path: &Path, reason: impl ToString) -> NodeError {
    NodeError::File { path: path.to_owned(), reason: reason.to_string() }
}

/// Whether the file at `path` could be created, as far as that shows without trying.
pub(crate) fn check(path: &Path) -> Result<(), NodeError> {
    if path.is_dir() {
        return Err(file_error(path, "it is a folder; name a file in it"));
    }
    path.parent().map_or(Ok(()), |folder| is_below_folders(path, folder))
}

/// Whether the folder at `path` is there or could be made, as far as that shows without trying.
pub(crate) fn check_folder(path: &Path) -> Result<(), NodeError> {
    is_below_folders(path, path)
}

/// Whether what exists of `folder` is a folder; errors name `path`. The folders that are missing
/// are made when the graph starts.
fn is_below_folders(path: &Path, folder: &Path) -> Result<(), NodeError> {
    match folder.ancestors().find(|folder| folder.exists()) {
        Some(file) if !file.is_dir() && file == path => {
            Err(file_error(path, "it is a file, not a folder"))
        }
        Some(folder) if !folder.is_dir() => {
            let reason = format!("{} is a file, not a folder", folder.display());
            Err(file_error(path, reason))
        }
        _ => Ok(()),
    }
}

/// Creates the file at `path` with the folders above it; a file that is there is overwritten.
pub(crate) fn create(path: &Path) -> Result<File, NodeError> {
    check(path)?;
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        let failed = |error| file_error(path, format!("its folder cannot be made: {error}"));
        fs::create_dir_all(folder).map_err(failed)?;
    }
    File::create(path).map_err(|error| file_error(path, format!("it cannot be made: {error}")))
}

/// Makes the folder at `path` with those above it, unless it is there.
pub(crate) fn create_folder(path: &Path) -> Result<(), NodeError> {
    check_folder(path)?;
    fs::create_dir_all(path)
        .map_err(|error| file_error(path, format!("it cannot be made: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Folder;

    #[test]
    fn folders_above_are_made() {
        let folder = Folder::new();
        let path = folder.path("a/b/c.txt");
        check(&path).unwrap();
        assert!(!path.parent().unwrap().exists(), "a check changes nothing");
        create(&path).unwrap();
        assert!(path.is_file());
    }

    #[test]
    fn what_cannot_be_a_file_is_refused() {
        let folder = Folder::new();
        let error = check(&folder.path("")).unwrap_err().to_string();
        assert!(error.ends_with("it is a folder; name a file in it"), "{error}");
        let file = folder.path("file");
        create(&file).unwrap();
        let error = check(&file.join("below/that")).unwrap_err().to_string();
        assert!(error.ends_with("is a file, not a folder"), "{error}");
    }
}
