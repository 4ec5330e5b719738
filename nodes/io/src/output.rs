//! Creation of output files and folders.

use std::{
    fs::{self, File},
    path::Path,
};

use afferent_graph::NodeError;

/// The error `reason` about the file at `path`.
pub(crate) fn file_error(path: &Path, reason: impl ToString) -> NodeError {
    NodeError::File { path: path.to_owned(), reason: reason.to_string() }
}

/// Checks that the file at `path` can be created, without changing anything.
pub(crate) fn check_file(path: &Path) -> Result<(), NodeError> {
    if path.as_os_str() == "-" {
        return Err(file_error(
            path,
            "standard output is not supported; expected the path of a file",
        ));
    }
    if path.is_dir() {
        return Err(file_error(path, "is a folder; expected the path of a file"));
    }
    path.parent().map_or(Ok(()), |folder| check_ancestors(path, folder))
}

/// Checks that the folder at `path` exists or can be created, without changing anything.
pub(crate) fn check_folder(path: &Path) -> Result<(), NodeError> {
    check_ancestors(path, path)
}

/// Checks that the deepest existing ancestor of `folder`, or `folder` itself, is a folder. Errors
/// name `path`.
fn check_ancestors(path: &Path, folder: &Path) -> Result<(), NodeError> {
    match folder.ancestors().find(|folder| folder.exists()) {
        Some(file) if !file.is_dir() && file == path => {
            Err(file_error(path, "is a file, not a folder"))
        }
        Some(folder) if !folder.is_dir() => {
            let reason = format!("{} is a file, not a folder", folder.display());
            Err(file_error(path, reason))
        }
        _ => Ok(()),
    }
}

/// Creates the file at `path` with its parent folders; an existing file is overwritten.
pub(crate) fn create_file(path: &Path) -> Result<File, NodeError> {
    check_file(path)?;
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        let failed = |error| file_error(path, format!("cannot create its folder: {error}"));
        fs::create_dir_all(folder).map_err(failed)?;
    }
    File::create(path).map_err(|error| file_error(path, format!("cannot create it: {error}")))
}

/// Creates the folder at `path` with its parents, unless it exists.
pub(crate) fn create_folder(path: &Path) -> Result<(), NodeError> {
    check_folder(path)?;
    fs::create_dir_all(path).map_err(|error| file_error(path, format!("cannot create it: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempFolder;

    #[test]
    fn parent_folders_are_created() {
        let folder = TempFolder::new();
        let path = folder.path("a/b/c.txt");
        check_file(&path).unwrap();
        assert!(!path.parent().unwrap().exists(), "the check must not change anything");
        create_file(&path).unwrap();
        assert!(path.is_file());
    }

    #[test]
    fn invalid_file_paths_are_rejected() {
        let folder = TempFolder::new();
        let error = check_file(&folder.path("")).unwrap_err().to_string();
        assert!(error.ends_with("is a folder; expected the path of a file"), "{error}");
        let error = check_file(Path::new("-")).unwrap_err().to_string();
        assert!(error.starts_with("-: standard output is not supported"), "{error}");
        let file = folder.path("file");
        create_file(&file).unwrap();
        let error = check_file(&file.join("below/that")).unwrap_err().to_string();
        assert!(error.ends_with("is a file, not a folder"), "{error}");
    }
}
