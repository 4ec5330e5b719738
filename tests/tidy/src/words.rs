//! No unfinished work, no skipped tests, no machine-specific paths.

use crate::{
    code::{code, has_word},
    tree,
};

/// Macros in code that mark unfinished work.
const UNFINISHED: &[&str] = &["todo!", "unimplemented!", "dbg!"];

/// Notes in any text that mark unfinished work. Split, because this rule also checks this file.
const NOTES: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Root folders that are specific to a machine.
const MACHINE: &[&str] = &["home", "opt", "root", "work", "Users"];

#[test]
fn work_is_finished() {
    let code = tree::texts(".rs").flat_map(|(path, text)| unfinished(path, text));
    let notes = tree::texts("").flat_map(|(path, text)| notes(path, text));
    tree::expect_none(code.chain(notes));
}

#[test]
fn tests_are_not_skipped() {
    tree::expect_none(tree::texts(".rs").filter_map(|(path, text)| skipped(path, text)));
}

#[test]
fn paths_are_not_machine_specific() {
    tree::expect_none(tree::texts("").flat_map(|(path, text)| machine_paths(path, text)));
}

fn unfinished(path: &str, text: &str) -> Vec<String> {
    let code = code(text);
    let found = UNFINISHED.iter().filter(|word| has_word(&code, word));
    found.map(|word| format!("{path}: has `{word}`")).collect()
}

fn notes(path: &str, text: &str) -> Vec<String> {
    let found = NOTES.iter().filter(|word| has_word(text, word));
    found.map(|word| format!("{path}: has a note `{word}`")).collect()
}

fn skipped(path: &str, text: &str) -> Option<String> {
    let code = code(text);
    let attribute = ["#[ignore]", "#[ignore ", "#[ignore="].iter().any(|form| code.contains(form));
    attribute.then(|| format!("{path}: skips a test"))
}

/// Absolute paths to folders of [`MACHINE`]. Relative paths that contain such a folder are allowed.
fn machine_paths(path: &str, text: &str) -> Vec<String> {
    let is_path = |before: char| before.is_alphanumeric() || "._-})*/\\".contains(before);
    let mut faults = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for folder in MACHINE.iter().map(|name| format!("/{name}/")) {
            if line.match_indices(&folder).any(|(at, _)| !line[..at].ends_with(is_path)) {
                faults.push(format!("{path}:{}: machine-specific path {folder}", number + 1));
            }
        }
    }
    faults
}

#[test]
fn unfinished_work_is_found() {
    for word in UNFINISHED {
        assert_eq!(unfinished("a.rs", &format!("fn f() {{ {word}() }}")).len(), 1);
        assert!(unfinished("a.rs", &format!("// {word}()\n\"{word}\"")).is_empty());
    }
    for word in NOTES {
        assert_eq!(notes("a.py", &format!("# {word}: later")).len(), 1);
    }
}

#[test]
fn skipped_tests_are_found() {
    for text in ["#[test]\n#[ignore]\nfn f() {}", "#[ignore = \"slow\"]", "#[ignore=\"slow\"]"] {
        assert!(skipped("a.rs", text).is_some(), "{text}");
    }
    assert_eq!(skipped("a.rs", "// #[ignore]\n#[ignored_here]"), None);
}

#[test]
fn machine_specific_paths_are_found() {
    let folder = MACHINE[0];
    for text in
        [format!("open('/{folder}/me/a')"), format!("/{folder}/a"), format!("a: /{folder}/")]
    {
        assert_eq!(machine_paths("a.md", &text).len(), 1, "{text}");
    }
    for text in [format!("tools/{folder}/a"), format!("{{base}}/{folder}/a"), format!("/{folder}")]
    {
        assert!(machine_paths("a.md", &text).is_empty(), "{text}");
    }
}
