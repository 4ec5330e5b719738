//! English of comments, documents and names: standard terms, US spelling, first sentences.

use std::sync::LazyLock;

use regex::Regex;

use crate::tree;

/// Words that the project does not use; the file explains its columns.
const WORDS: &str = "tests/tidy/data/words.tsv";

/// Files that may quote such words.
const QUOTES: &[&str] = &[WORDS, "docs/glossary.md", "tests/tidy/src/language.rs"];

/// Largest share of doc comments that may start with a free relative clause.
const MAX_CLAUSES: f64 = 0.01;

/// Endings of the files that are read.
const READ: &[&str] = &[".rs", ".py", ".md", ".toml"];

struct Rule {
    word: Regex,
    instead: String,
    /// Phrases in which the word is fine.
    except: Option<Regex>,
}

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let text = tree::read(WORDS);
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(rule).collect()
});

fn rule(line: &str) -> Rule {
    let regex = |pattern: &str| {
        Regex::new(&format!(r"(?i)\b(?:{pattern})\b")).unwrap_or_else(|error| panic!("{error}"))
    };
    let columns: Vec<&str> = line.split('\t').collect();
    let [word, instead, rest @ ..] = columns.as_slice() else { panic!("{WORDS}: {line}") };
    let except = rest.first().filter(|pattern| !pattern.is_empty()).map(|pattern| regex(pattern));
    Rule { word: regex(word), instead: (*instead).to_owned(), except }
}

#[test]
fn terms_are_those_of_the_field() {
    let read =
        |path: &str| READ.iter().any(|ending| path.ends_with(ending)) && !QUOTES.contains(&path);
    let files = tree::paths().filter(|path| read(path));
    tree::expect_none(files.flat_map(|path| wrong_words(path, tree::read(path))));
}

fn wrong_words(path: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let words = split_names(line);
        for rule in RULES.iter() {
            let rest = match &rule.except {
                Some(except) => except.replace_all(&words, " "),
                None => words.as_str().into(),
            };
            let found = rule.word.find_iter(&rest);
            faults.extend(found.map(|word| {
                format!("{path}:{}: `{}`; instead: {}", number + 1, word.as_str(), rule.instead)
            }));
        }
    }
    faults
}

/// A line with its identifiers split into words.
fn split_names(line: &str) -> String {
    let mut words = String::with_capacity(line.len() + 8);
    let mut after_lower = false;
    for character in line.chars() {
        if character.is_ascii_uppercase() && after_lower {
            words.push(' ');
        }
        words.push(if character == '_' { ' ' } else { character });
        after_lower = character.is_ascii_lowercase() || character.is_ascii_digit();
    }
    words
}

#[test]
fn doc_comments_start_with_a_noun_or_a_verb() {
    let (mut comments, mut clauses) = (0, Vec::new());
    for (path, text) in tree::texts(".rs") {
        let (count, found) = free_clauses(path, text);
        comments += count;
        clauses.extend(found);
    }
    let share = clauses.len() as f64 / comments as f64;
    println!("{} of {comments} doc comments start with a free clause", clauses.len());
    assert!(share <= MAX_CLAUSES, "{:.1} %:\n{}", 100.0 * share, clauses.join("\n"));
}

/// Number of doc comments, and those that start with a free relative clause.
fn free_clauses(path: &str, text: &str) -> (usize, Vec<String>) {
    const STARTS: &[&str] = &["What", "Whether", "Who", "How", "Where", "Of"];
    let (mut comments, mut found, mut before) = (0, Vec::new(), None);
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let doc = ["///", "//!"].into_iter().find(|mark| line.starts_with(mark));
        if let Some(mark) = doc
            && before != doc
        {
            comments += 1;
            let first = line[mark.len()..].split_whitespace().next().unwrap_or_default();
            if STARTS.contains(&first) {
                found.push(format!("{path}:{}: {line}", number + 1));
            }
        }
        before = doc;
    }
    (comments, found)
}

#[test]
fn coined_words_and_free_clauses_are_found() {
    let wrong = |line: &str| wrong_words("a.rs", line).len();
    assert_eq!(wrong("/// Colour of the behaviour, normalised by nobody"), 4);
    assert_eq!(wrong("let first_place = FirstPlace::new();"), 2);
    assert_eq!(wrong("sorted in place, behind the feature `std`, otherwise precise"), 0);
    let (comments, found) =
        free_clauses("a.rs", "/// What is sure.\n/// Who.\nfn a() {}\n/// Rate, in Hz.\nfn b() {}");
    assert_eq!((comments, found.len()), (2, 1));
}
