//! Files of the repository, without those that `.gitignore` excludes.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
};

use serde_json::Value;

/// All files by their path relative to the root, with `/` as separator; no text if not UTF-8.
static FILES: LazyLock<BTreeMap<String, Option<String>>> = LazyLock::new(|| {
    let ignored = fs::read_to_string(root().join(".gitignore")).expect("the file is readable");
    let ignored: Vec<&str> = ignored.lines().filter(|line| !line.is_empty()).collect();
    assert!(
        !ignored.iter().any(|line| line.starts_with(['!', '#'])),
        ".gitignore: plain lines only"
    );
    let mut found = Vec::new();
    walk(&root(), &ignored, &mut found);
    assert!(found.iter().any(|path| path == "tests/tidy/src/tree.rs"));
    let read = |path: &str| {
        let bytes = fs::read(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        String::from_utf8(bytes).ok()
    };
    found.into_iter().map(|path| (path.clone(), read(&path))).collect()
});

/// Root folder of the workspace.
pub(crate) fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the crate is in the workspace")
}

/// Paths of all files.
pub(crate) fn paths() -> impl Iterator<Item = &'static str> {
    FILES.keys().map(String::as_str)
}

/// Path and text of all text files with this ending.
pub(crate) fn texts(ending: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let texts = FILES.iter().filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)));
    texts.filter(move |(path, _)| path.ends_with(ending))
}

/// Text of a file.
pub(crate) fn read(path: &str) -> &'static str {
    let text = FILES.get(path).unwrap_or_else(|| panic!("{path}: there is no such file"));
    text.as_deref().unwrap_or_else(|| panic!("{path}: not UTF-8"))
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
