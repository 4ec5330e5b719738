//! Models in the local cache of the Hugging Face hub.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::bail;

/// Revision of a model for which none is given.
const DEFAULT_REVISION: &str = "main";

/// The folder of `name`, an existing path or `ORG/NAME[@REVISION]` of a model in the local cache.
///
/// # Errors
/// If it is neither, with the command that downloads it.
pub(super) fn resolve(name: &Path) -> anyhow::Result<PathBuf> {
    let Some((repository, revision)) = parse(name) else { return Ok(name.to_owned()) };
    if name.exists() {
        return Ok(name.to_owned());
    }
    let cache = cache_folder();
    let found = cache.as_ref().and_then(|cache| snapshot(cache, repository, revision));
    match (found, cache) {
        (Some(folder), _) => Ok(folder),
        (None, cache) => {
            let location = cache.map_or_else(
                || "the cache of the hub (HF_HUB_CACHE, HF_HOME and HOME are not set)".to_owned(),
                |cache| cache.display().to_string(),
            );
            let option = match revision {
                DEFAULT_REVISION => String::new(),
                other => format!(" --revision {other}"),
            };
            bail!(
                "{} is neither a file nor in {location}: download it with `hf download \
                 {repository}{option}`",
                name.display()
            )
        }
    }
}

/// Repository and revision, if `name` has the form `ORG/NAME[@REVISION]`.
fn parse(name: &Path) -> Option<(&str, &str)> {
    let text = name.to_str()?;
    let (repository, revision) = text.split_once('@').unwrap_or((text, DEFAULT_REVISION));
    let (owner, model) = repository.split_once('/')?;
    let is_name = |part: &str| {
        let is_valid = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        !part.is_empty() && !part.starts_with('.') && part.chars().all(is_valid)
    };
    let is_revision = !revision.is_empty() && !revision.contains("..");
    (is_name(owner) && is_name(model) && is_revision).then_some((repository, revision))
}

/// Folder of the cache, as the tools of the hub choose it.
fn cache_folder() -> Option<PathBuf> {
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("HF_HUB_CACHE")
        .or_else(|| variable("HF_HOME").map(|home| home.join("hub")))
        .or_else(|| variable("HOME").map(|home| home.join(".cache/huggingface/hub")))
}

/// Folder with the files of a revision: a commit, a branch or a tag.
fn snapshot(cache: &Path, repository: &str, revision: &str) -> Option<PathBuf> {
    let folder = cache.join(format!("models--{}", repository.replace('/', "--")));
    let commit = fs::read_to_string(folder.join("refs").join(revision));
    let commit = commit.map_or_else(|_| revision.to_owned(), |commit| commit.trim().to_owned());
    let files = folder.join("snapshots").join(commit);
    files.is_dir().then_some(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_hub_are_told_from_paths() {
        let check = |name: &str, expected: Option<(&str, &str)>| {
            assert_eq!(parse(Path::new(name)), expected, "{name}");
        };
        check("org/model", Some(("org/model", "main")));
        check("org/model-1.5_x@v0.8", Some(("org/model-1.5_x", "v0.8")));
        for path in ["model.pte", "./model", "../a/b", "a/b/c", "/a/b", "org/model@", "o/m@../x"] {
            check(path, None);
        }
    }

    #[test]
    fn snapshots_are_found_by_branch_tag_or_commit() {
        let cache = tempfile::tempdir().unwrap();
        let folder = cache.path().join("models--org--model");
        let files = folder.join("snapshots/abc123");
        fs::create_dir_all(&files).unwrap();
        fs::create_dir_all(folder.join("refs")).unwrap();
        fs::write(folder.join("refs/main"), "abc123\n").unwrap();
        fs::write(folder.join("refs/v0.8"), "missing").unwrap();
        let found = |revision| snapshot(cache.path(), "org/model", revision);
        assert_eq!(found("main"), Some(files.clone()));
        assert_eq!(found("abc123"), Some(files));
        assert_eq!((found("v0.8"), found("other")), (None, None));
    }
}
