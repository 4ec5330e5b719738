//! Registry and licenses of the dependencies.

use crate::tree;

/// Registry of all dependencies.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Licenses that require at most a notice.
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
fn dependencies_have_permissive_licenses() {
    let metadata = tree::metadata(&["--all-features"]);
    let mut faults = Vec::new();
    for package in tree::packages(&metadata) {
        let (name, license) = (&package["name"], package["license"].as_str().unwrap_or("none"));
        if !is_permissive(license) {
            faults.push(format!(
                "Cargo.lock: {name} has the license {license}, not a permissive one"
            ));
        }
    }
    tree::expect_none(faults);
}

fn foreign_sources(lock: &str) -> Vec<String> {
    let sources = lock.lines().filter_map(|line| line.strip_prefix("source = "));
    let foreign = sources.filter(|source| source.trim_matches('"') != REGISTRY);
    foreign.map(|source| format!("Cargo.lock: a package comes from {source}")).collect()
}

/// True if an SPDX expression, or the older form `MIT/Apache-2.0`, allows a permissive choice.
fn is_permissive(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    any(&mut rest) && rest.is_empty()
}

fn any(words: &mut &[&str]) -> bool {
    let mut permissive = all(words);
    while let ["OR", rest @ ..] = words {
        *words = rest;
        permissive |= all(words);
    }
    permissive
}

fn all(words: &mut &[&str]) -> bool {
    let mut permissive = one(words);
    while let ["AND", rest @ ..] = words {
        *words = rest;
        permissive &= one(words);
    }
    permissive
}

fn one(words: &mut &[&str]) -> bool {
    match words {
        ["(", rest @ ..] => {
            *words = rest;
            let permissive = any(words);
            let [")", rest @ ..] = words else { return false };
            *words = rest;
            permissive
        }
        [name, "WITH", exception, rest @ ..] => {
            let license = format!("{name} WITH {exception}");
            *words = rest;
            PERMISSIVE.contains(&license.as_str())
        }
        [name, rest @ ..] => {
            let permissive = PERMISSIVE.contains(name);
            *words = rest;
            permissive
        }
        [] => false,
    }
}

#[test]
fn other_licenses_are_found() {
    let permissive = [
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
    assert_eq!(permissive.map(is_permissive), [true; 5]);
    assert_eq!(wrong.map(is_permissive), [false; 8]);
}

#[test]
fn other_sources_are_found() {
    let lock =
        format!("name = \"a\"\nsource = \"{REGISTRY}\"\nsource = \"git+https://a.example\"\n");
    assert_eq!(foreign_sources(&lock).len(), 1);
}
