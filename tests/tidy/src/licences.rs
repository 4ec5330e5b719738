//! Where dependencies come from, and under which terms.

use crate::tree;

/// The one registry that dependencies come from.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Terms that ask for no more than a notice.
const PERMISSIVE: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

#[test]
fn dependencies_come_from_one_registry() {
    tree::expect_none(foreign_sources(&tree::read("Cargo.lock")));
}

#[test]
fn dependencies_have_permissive_licences() {
    let metadata = tree::metadata(&["--all-features"]);
    let mut faults = Vec::new();
    for package in tree::packages(&metadata) {
        let (name, licence) = (&package["name"], package["license"].as_str().unwrap_or("none"));
        if !is_permissive(licence) {
            faults.push(format!("Cargo.lock: {name} has the licence {licence}"));
        }
    }
    tree::expect_none(faults);
}

fn foreign_sources(lock: &str) -> Vec<String> {
    let sources = lock.lines().filter_map(|line| line.strip_prefix("source = "));
    let foreign = sources.filter(|source| source.trim_matches('"') != REGISTRY);
    foreign.map(|source| format!("Cargo.lock: a package comes from {source}")).collect()
}

/// Whether an SPDX expression, or the older form `MIT/Apache-2.0`, lets us choose permissive terms.
fn is_permissive(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    any(&mut rest) && rest.is_empty()
}

fn any(words: &mut &[&str]) -> bool {
    let mut fine = all(words);
    while let ["OR", rest @ ..] = words {
        *words = rest;
        fine |= all(words);
    }
    fine
}

fn all(words: &mut &[&str]) -> bool {
    let mut fine = one(words);
    while let ["AND", rest @ ..] = words {
        *words = rest;
        fine &= one(words);
    }
    fine
}

fn one(words: &mut &[&str]) -> bool {
    match words {
        ["(", rest @ ..] => {
            *words = rest;
            let fine = any(words);
            let [")", rest @ ..] = words else { return false };
            *words = rest;
            fine
        }
        [name, "WITH", exception, rest @ ..] => {
            let terms = format!("{name} WITH {exception}");
            *words = rest;
            PERMISSIVE.contains(&terms.as_str())
        }
        [name, rest @ ..] => {
            let fine = PERMISSIVE.contains(name);
            *words = rest;
            fine
        }
        [] => false,
    }
}

#[test]
fn other_terms_are_found() {
    let fine = [
        "MIT",
        "MIT/Apache-2.0",
        "Apache-2.0 OR GPL-2.0-only",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
        "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
    ];
    let wrong = [
        "GPL-3.0",
        "none",
        "",
        "MIT AND GPL-2.0",
        "(MIT OR GPL-2.0) AND LGPL-3.0",
        "(MIT",
        "MIT MIT",
        "GPL-3.0 WITH Classpath-exception-2.0",
    ];
    assert_eq!(fine.map(is_permissive), [true; 5]);
    assert_eq!(wrong.map(is_permissive), [false; 8]);
}

#[test]
fn other_sources_are_found() {
    let lock =
        format!("name = \"a\"\nsource = \"{REGISTRY}\"\nsource = \"git+https://a.example\"\n");
    assert_eq!(foreign_sources(&lock).len(), 1);
}
