//! Registry and licenses of the dependencies.

use std::sync::LazyLock;

use crate::tree;

/// Registry of all dependencies.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Licenses in the list `allow` of `deny.toml`, which cargo-deny reads too.
static ALLOWED: LazyLock<Vec<&str>> = LazyLock::new(|| allowed(tree::read("deny.toml")));

#[test]
fn dependencies_come_from_one_registry() {
    tree::expect_none(foreign_sources(tree::read("Cargo.lock")));
}

#[test]
fn dependencies_have_allowed_licenses() {
    let metadata = tree::metadata(&["--all-features"]);
    let mut faults = Vec::new();
    for package in tree::packages(&metadata) {
        let (name, license) = (&package["name"], package["license"].as_str().unwrap_or("none"));
        let exception = format!("{{ allow = [\"{license}\"], crate = {name} }}");
        if !is_allowed(license) && !tree::read("deny.toml").contains(&exception) {
            faults.push(format!(
                "Cargo.lock: {name} has the license {license}, which deny.toml does not allow"
            ));
        }
    }
    tree::expect_none(faults);
}

/// Licenses in the list `allow` of a configuration of cargo-deny.
fn allowed(config: &str) -> Vec<&str> {
    let lines = config.lines().skip_while(|line| *line != "allow = [").skip(1);
    let names: Vec<&str> = lines
        .take_while(|line| *line != "]")
        .map(|line| line.split('#').next().unwrap_or(line).trim().trim_matches([',', '"']))
        .collect();
    assert!(!names.is_empty(), "deny.toml has no list `allow`, one license a line");
    names
}

fn foreign_sources(lock: &str) -> Vec<String> {
    let sources = lock.lines().filter_map(|line| line.strip_prefix("source = "));
    let foreign = sources.filter(|source| source.trim_matches('"') != REGISTRY);
    foreign.map(|source| format!("Cargo.lock: a package comes from {source}")).collect()
}

/// True if an SPDX expression, or the older form `MIT/Apache-2.0`, can be met with allowed licenses.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    any(&mut rest) && rest.is_empty()
}

fn any(words: &mut &[&str]) -> bool {
    let mut allowed = all(words);
    while let ["OR", rest @ ..] = words {
        *words = rest;
        allowed |= all(words);
    }
    allowed
}

fn all(words: &mut &[&str]) -> bool {
    let mut allowed = one(words);
    while let ["AND", rest @ ..] = words {
        *words = rest;
        allowed &= one(words);
    }
    allowed
}

fn one(words: &mut &[&str]) -> bool {
    match words {
        ["(", rest @ ..] => {
            *words = rest;
            let allowed = any(words);
            let [")", rest @ ..] = words else { return false };
            *words = rest;
            allowed
        }
        [name, "WITH", exception, rest @ ..] => {
            let license = format!("{name} WITH {exception}");
            *words = rest;
            ALLOWED.contains(&license.as_str())
        }
        [name, rest @ ..] => {
            let allowed = ALLOWED.contains(name);
            *words = rest;
            allowed
        }
        [] => false,
    }
}

#[test]
fn other_licenses_are_found() {
    let allowed = [
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
    assert_eq!(allowed.map(is_allowed), [true; 5]);
    assert_eq!(wrong.map(is_allowed), [false; 8]);
}

#[test]
fn the_list_of_licenses_is_read() {
    assert_eq!(
        allowed("[licenses]\nallow = [\n    \"MIT\",\n    \"Zlib\",\n]\nb = []"),
        ["MIT", "Zlib"]
    );
}

#[test]
fn other_sources_are_found() {
    let lock =
        format!("name = \"a\"\nsource = \"{REGISTRY}\"\nsource = \"git+https://a.example\"\n");
    assert_eq!(foreign_sources(&lock).len(), 1);
}
