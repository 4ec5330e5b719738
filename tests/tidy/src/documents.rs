//! Length of the documents, and that they agree with the workspace.

use crate::{arrows, tree};

/// Largest number of words of ARCHITECTURE.md.
const MAX_WORDS: usize = 2000;

/// Most lines of the introduction of a crate, its table of modules not counted.
const MAX_INTRODUCTION: usize = 12;

#[test]
fn architecture_is_short() {
    let words = tree::read("ARCHITECTURE.md").split_whitespace().count();
    assert!(words <= MAX_WORDS, "ARCHITECTURE.md has {words} words, more than {MAX_WORDS}");
}

#[test]
fn the_crate_map_agrees_with_the_arrows() {
    let text = tree::read("ARCHITECTURE.md");
    let listed = arrows::folders().filter(|folder| !folder.ends_with("/*"));
    tree::expect_none(listed.filter_map(|folder| missing_row(text, folder)));
    tree::expect_none(rows(text).filter_map(|folder| {
        let exists = tree::root().join(folder.trim_end_matches("/*")).is_dir();
        (!exists).then(|| format!("ARCHITECTURE.md: there is no folder {folder}"))
    }));
}

/// First cells of the rows of the crate map.
fn rows(text: &str) -> impl Iterator<Item = &str> {
    let cells = text.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    cells.filter(|cell| cell.contains('/') || ["launch", "python"].contains(cell))
}

fn missing_row(text: &str, folder: &str) -> Option<String> {
    let found = rows(text).any(|row| row == folder);
    (!found).then(|| format!("ARCHITECTURE.md: the crate map lacks `{folder}`"))
}

#[test]
fn crates_introduce_themselves() {
    let roots = tree::texts("/src/lib.rs").filter(|(path, _)| !path.starts_with("tests/"));
    tree::expect_none(roots.filter_map(|(path, text)| wrong_introduction(path, text)));
}

fn wrong_introduction(path: &str, text: &str) -> Option<String> {
    let lines: Vec<&str> =
        text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim).collect();
    let mut in_code = false;
    let prose = lines.iter().filter(|line| {
        in_code ^= line.starts_with("```");
        !in_code && !line.starts_with(['|', '`']) && !line.is_empty()
    });
    let prose = prose.count();
    let fault = match prose {
        0 | 1 => "says in one line what it holds; add where to begin reading",
        _ if prose > MAX_INTRODUCTION => "has a long introduction; move details to its modules",
        _ => return None,
    };
    Some(format!("{path}: {fault}"))
}

#[test]
fn wrong_documents_are_found() {
    assert!(missing_row("| `a/b` | c |", "a/c").is_some());
    assert_eq!(missing_row("| `a/b` | c |", "a/b"), None);
    assert!(wrong_introduction("a/src/lib.rs", "//! A.\n\nmod b;").is_some());
    assert_eq!(wrong_introduction("a/src/lib.rs", "//! A.\n//!\n//! Begin with `b.rs`.\n"), None);
}
