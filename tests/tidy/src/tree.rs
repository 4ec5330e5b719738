//! Files of the repository, without those that `.gitignore` excludes.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
};

use serde_json::Value;

/// Sorted paths relative to the root, with `/` as separator.
static PATHS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let ignored = read(".gitignore");
    let ignored: Vec<&str> = ignored.lines().filter(|line| !line.is_empty()).collect();
    assert!(
        !ignored.iter().any(|line| line.starts_with(['!', '#'])),
        ".gitignore: plain lines only"
    );
    let mut found = Vec::new();
    walk(&root(), &ignored, &mut found);
    found.sort_unstable();
    assert!(found.iter().any(|path| path == "tests/tidy/src/tree.rs"));
    found
});

/// Root folder of the workspace.
pub(crate) fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the crate is in the workspace")
}

/// Paths of all files.
pub(crate) fn paths() -> impl Iterator<Item = &'static str> {
    PATHS.iter().map(String::as_str)
}

/// Path and text of all files with this ending.
pub(crate) fn texts(ending: &str) -> impl Iterator<Item = (&'static str, String)> {
    paths().filter(move |path| path.ends_with(ending)).map(|path| (path, read(path)))
}

/// Text of a file.
pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Panics with the list of `faults` if there are any.
#[track_caller]
pub(crate) fn expect_none(faults: impl IntoIterator<Item = String>) {
    let faults: Vec<String> = faults.into_iter().collect();
    assert!(faults.is_empty(), "{} faults\n{}\n", faults.len(), faults.join("\n"));
}

/// Output of `cargo metadata`.
pub(crate) fn metadata(args: &[&str]) -> Value {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version=1", "--locked"]).args(args).current_dir(root());
    let output = cargo.output().expect("cargo runs");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo metadata (`cargo fetch` may help): {message}");
    serde_json::from_slice(&output.stdout).expect("cargo writes JSON")
}

/// Packages in the output of [`metadata`].
pub(crate) fn packages(metadata: &Value) -> &[Value] {
    metadata["packages"].as_array().expect("a list")
}

fn walk(folder: &Path, ignored: &[&str], found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("the folder is readable") {
        let path = entry.expect("the folder is readable").path();
        let local = path.strip_prefix(root()).expect("below the root");
        let local = local.to_str().expect("names are UTF-8").replace('\\', "/");
        if local == ".git" || ignored.iter().any(|rule| is_ignored(&local, rule)) {
            continue;
        }
        if path.is_dir() {
            walk(&path, ignored, found);
        } else {
            found.push(local);
        }
    }
}

/// Supports the rules that `.gitignore` uses: `/path`, `*ending`, `name/`.
fn is_ignored(path: &str, rule: &str) -> bool {
    if let Some(anchored) = rule.strip_prefix('/') {
        path == anchored
    } else if let Some(ending) = rule.strip_prefix('*') {
        path.ends_with(ending)
    } else {
        path.rsplit('/').next() == Some(rule.trim_end_matches('/'))
    }
}

#[test]
fn ignored_files_are_excluded() {
    assert!(is_ignored("target", "/target") && !is_ignored("tools/target", "/target"));
    assert!(is_ignored("tools/zoo/a.pyc", "*.pyc") && !is_ignored("tools/zoo/a.py", "*.pyc"));
    assert!(is_ignored("tools/zoo/__pycache__", "__pycache__/"));
}
