//! Files that a graph reads and writes, and conflicts between them.

use std::path::{Path, PathBuf};

use afferent_graph::{NodeSpec, ParamKind, ParamValue, ParamValues};

use crate::Origin;

/// Use of a file or folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileUse {
    /// Path of the file or folder.
    pub path: PathBuf,
    /// True if it is replaced or extended.
    pub is_written: bool,
    /// User, for messages, such as `"path" of node "speaker"`.
    pub user: String,
}

/// Files that a graph was read from.
pub(crate) fn graph_files(origin: &Origin) -> impl Iterator<Item = FileUse> {
    origin.files.iter().map(|(path, _)| FileUse {
        path: path.clone(),
        is_written: false,
        user: "the graph".to_owned(),
    })
}

/// Files of a node, with the names of their parameters.
pub(crate) fn files_of<'d>(
    node: &str,
    spec: &'d NodeSpec,
    values: &ParamValues,
) -> Vec<(&'d str, FileUse)> {
    let params = spec.params.iter().filter_map(|param| {
        let ParamValue::Path(path) = values.get(&*param.name)? else { return None };
        let user = format!("\"{}\" of node \"{node}\"", param.name);
        let is_written = param.kind == ParamKind::OutputPath;
        Some((&*param.name, FileUse { path: path.clone(), is_written, user }))
    });
    params.collect()
}

impl FileUse {
    /// True if one of the two is written and overwrites the other: the same file by another
    /// spelling or link, or an existing file in a folder that is read. Devices and pipes have no
    /// conflicts.
    pub fn conflicts_with(&self, other: &Self) -> bool {
        match (self.is_written, other.is_written) {
            (false, false) => false,
            (true, true) => is_same(&self.path, &other.path),
            (true, false) => overwrites(&self.path, &other.path),
            (false, true) => overwrites(&other.path, &self.path),
        }
    }
}

fn overwrites(written: &Path, read: &Path) -> bool {
    let is_within = || {
        let (Ok(written), Ok(read)) = (written.canonicalize(), read.canonicalize()) else {
            return false;
        };
        written.is_file() && read.is_dir() && written.starts_with(read)
    };
    is_same(written, read) || is_within()
}

fn is_same(first: &Path, second: &Path) -> bool {
    let is_special = |path: &Path| path.exists() && !path.is_file() && !path.is_dir();
    if is_special(first) || is_special(second) {
        return false;
    }
    // Links of both kinds.
    if let Ok(is_same) = same_file::is_same_file(first, second) {
        return is_same;
    }
    absolute(first) == absolute(second)
}

/// Path without links and `..`, also of a file that does not exist yet.
fn absolute(path: &Path) -> PathBuf {
    if let Ok(path) = path.canonicalize() {
        return path;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            absolute(parent).join(name)
        }
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_same_file_is_found_by_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("model")).unwrap();
        for file in ["in.wav", "model/model.yaml"] {
            fs::write(path(file), "").unwrap();
        }
        fs::hard_link(path("in.wav"), path("hard.wav")).unwrap();
        let conflict = |written: &Path, other: &Path, both: bool| {
            let file = |path: &Path, is_written| FileUse {
                path: path.to_owned(),
                is_written,
                user: String::new(),
            };
            let (written, other) = (file(written, true), file(other, both));
            assert_eq!(written.conflicts_with(&other), other.conflicts_with(&written));
            written.conflicts_with(&other)
        };
        let input = path("in.wav");
        for same in ["in.wav", "./in.wav", "model/../in.wav", "hard.wav"] {
            assert!(conflict(&path(same), &input, false), "{same}");
        }
        assert!(conflict(&path("model/model.yaml"), &path("model"), false));
        assert!(conflict(&path("new.wav"), &path("model/../new.wav"), true));
        assert!(!conflict(&path("new.wav"), &input, false));
        assert!(!conflict(&path("model/new.txt"), &path("model"), false));
        assert!(!conflict(&path("frames/1.png"), &path("frames"), true));
    }

    #[cfg(unix)]
    #[test]
    fn symbolic_links_are_followed_and_devices_are_shared() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(is_same(&file, &link));
        let null = Path::new("/dev/null");
        assert!(!is_same(null, null));
    }
}
