//! No circular imports between the files of a crate.

use std::collections::{BTreeMap, BTreeSet};

use crate::{code::code, tree};

/// Folders of crates that are checked.
const CHECKED: &[&str] = &["graph/", "backends/"];

#[test]
fn files_of_a_crate_import_each_other_one_way() {
    let mut crates: BTreeMap<&str, BTreeMap<String, String>> = BTreeMap::new();
    for (path, text) in tree::texts(".rs") {
        if !CHECKED.iter().any(|folder| path.starts_with(folder)) {
            continue;
        }
        let Some((folder, file)) = path.split_once("/src/") else { continue };
        crates.entry(folder).or_default().insert(module(file), without_tests(&code(text)));
    }
    tree::expect_none(crates.iter().flat_map(|(folder, files)| {
        let cycles = cycles(files).into_iter();
        cycles.map(move |cycle| format!("{folder}: {}", cycle.join(" -> ")))
    }));
}

/// `a::b` of `a/b.rs`; empty for the root.
fn module(file: &str) -> String {
    let name = file.strip_suffix(".rs").expect("a file of Rust");
    if name == "lib" || name == "main" { String::new() } else { name.replace('/', "::") }
}

/// Code ahead of the test module.
fn without_tests(code: &str) -> String {
    code.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().to_owned()
}

/// Import cycles between modules. A re-export stands for the file that it names; the
/// declaration of a submodule is not an import.
fn cycles(files: &BTreeMap<String, String>) -> Vec<Vec<String>> {
    let exports = exports(files);
    let imports: BTreeMap<&str, BTreeSet<String>> = files
        .iter()
        .map(|(module, code)| {
            let found = paths(code, module)
                .into_iter()
                .filter_map(|path| resolve(&path, files, &exports).filter(|found| found != module));
            (module.as_str(), found.collect())
        })
        .collect();
    let mut done = BTreeSet::new();
    let mut found = Vec::new();
    for module in files.keys() {
        visit(module, &imports, &mut Vec::new(), &mut done, &mut found);
    }
    found
}

fn visit(
    module: &str,
    imports: &BTreeMap<&str, BTreeSet<String>>,
    way: &mut Vec<String>,
    done: &mut BTreeSet<String>,
    found: &mut Vec<Vec<String>>,
) {
    if let Some(start) = way.iter().position(|other| other == module) {
        let cycle = way[start..].iter().chain([&way[start]]);
        found.push(cycle.map(|name| format!("{name}.rs")).collect());
        return;
    }
    if done.contains(module) {
        return;
    }
    way.push(module.to_owned());
    for next in imports.get(module).into_iter().flatten() {
        visit(next, imports, way, done, found);
    }
    way.pop();
    done.insert(module.to_owned());
}

/// Target of each name that a module exports from another: `(module, name)` to a path.
type Exports = BTreeMap<(String, String), Vec<String>>;

fn exports(files: &BTreeMap<String, String>) -> Exports {
    let mut exports = Exports::new();
    for (module, code) in files {
        for (_, path) in uses(code).into_iter().filter(|(public, _)| *public) {
            let path = absolute(path, module, files);
            if let Some(name) = path.last() {
                exports.insert((module.clone(), name.clone()), path.clone());
            }
        }
    }
    exports
}

/// Paths that the `use` declarations in `code` of `module` import from the crate. Paths in
/// expressions and types, such as `crate::a::b()`, are not read.
fn paths(code: &str, module: &str) -> Vec<Vec<String>> {
    let imported = uses(code).into_iter().filter(|(public, _)| !public).map(|(_, path)| path);
    imported
        .filter(|path| path.first().is_some_and(|first| first == "crate" || first == "super"))
        .map(|path| absolute(path, module, &BTreeMap::new()))
        .collect()
}

/// Path from the root of the crate, without `crate`, `super` and `self`.
fn absolute(mut path: Vec<String>, module: &str, files: &BTreeMap<String, String>) -> Vec<String> {
    let mut base: Vec<String> =
        module.split("::").filter(|part| !part.is_empty()).map(Into::into).collect();
    match path.first().map(String::as_str) {
        Some("crate") => return path.split_off(1),
        Some("self") => path = path.split_off(1),
        Some("super") => {
            while path.first().is_some_and(|part| part == "super") {
                base.pop();
                path.remove(0);
            }
        }
        Some(first) => {
            let child =
                base.iter().map(String::as_str).chain([first]).collect::<Vec<_>>().join("::");
            if !files.contains_key(&child) {
                return Vec::new();
            }
        }
        None => return path,
    }
    base.extend(path);
    base
}

/// File that declares the item at `path`.
fn resolve(path: &[String], files: &BTreeMap<String, String>, exports: &Exports) -> Option<String> {
    let mut path = path.to_vec();
    for _ in 0..8 {
        if path.is_empty() {
            return None;
        }
        let len =
            (0..=path.len()).rev().find(|&len| files.contains_key(&path[..len].join("::")))?;
        let module = path[..len].join("::");
        let Some(name) = path.get(len) else { return Some(module) };
        match exports.get(&(module.clone(), name.clone())) {
            Some(target) if !target.is_empty() => {
                path = target.iter().chain(&path[len + 1..]).cloned().collect();
            }
            _ => return (!module.is_empty()).then_some(module),
        }
    }
    None
}

/// Leaves of the `use` declarations of `code`, and whether each is public.
fn uses(code: &str) -> Vec<(bool, Vec<String>)> {
    let mut found = Vec::new();
    for (at, word) in code.match_indices("use ") {
        let before = code[..at].rsplit(['\n', '{', ';', '}']).next().unwrap_or_default().trim();
        let public = before.starts_with("pub");
        if !before.is_empty() && !public {
            continue;
        }
        let tree = code[at + word.len()..].split(';').next().unwrap_or_default();
        let mut leaves = Vec::new();
        tree_leaves(tree, &mut Vec::new(), &mut leaves);
        found.extend(leaves.into_iter().map(|leaf| (public, leaf)));
    }
    found
}

/// Splits `a::{b, c::d}` into `a::b` and `a::c::d`.
fn tree_leaves(text: &str, prefix: &mut Vec<String>, leaves: &mut Vec<Vec<String>>) {
    let text = text.trim();
    let depth = prefix.len();
    if let Some(open) = text.find('{') {
        let (head, inner) = (&text[..open], text[open + 1..].trim_end().trim_end_matches('}'));
        prefix.extend(
            head.split("::").map(str::trim).filter(|part| !part.is_empty()).map(Into::into),
        );
        let (mut level, mut start) = (0, 0);
        for (at, character) in inner.char_indices() {
            match character {
                '{' => level += 1,
                '}' => level -= 1,
                ',' if level == 0 => {
                    tree_leaves(&inner[start..at], prefix, leaves);
                    start = at + 1;
                }
                _ => {}
            }
        }
        tree_leaves(&inner[start..], prefix, leaves);
    } else if !text.is_empty() {
        let name = text.split(" as ").next().unwrap_or(text);
        prefix.extend(name.split("::").map(|part| part.trim().to_owned()));
        leaves.push(prefix.clone());
    }
    prefix.truncate(depth);
}

#[test]
fn cycles_are_found() {
    let files = |list: &[(&str, &str)]| {
        list.iter().map(|(module, code)| ((*module).into(), (*code).into())).collect()
    };
    let direct = files(&[("", ""), ("a", "use crate::b::B;"), ("b", "use crate::a::A;")]);
    assert_eq!(cycles(&direct), [["a.rs", "b.rs", "a.rs"]]);
    let exported = files(&[
        ("", "mod a;\nmod b;\npub use a::A;\npub use b::{B, C};"),
        ("a", "use crate::{B, x::Y};"),
        ("b", "use std::fmt;\nuse crate::A;"),
    ]);
    assert_eq!(cycles(&exported), [["a.rs", "b.rs", "a.rs"]]);
    let prefixed = files(&[
        ("", "mod a;\nmod b;\nmod c;\npub use a::A;\npub use c::Ab;"),
        ("a", "use crate::b::B;"),
        ("b", "use crate::Ab;\nuse crate::A;"),
        ("c", ""),
    ]);
    assert_eq!(cycles(&prefixed), [["a.rs", "b.rs", "a.rs"]]);
    let one_way = files(&[
        ("", "pub use a::A;"),
        ("a", "mod c;\nuse c::C;\nuse super::b::B;"),
        ("a::c", "use crate::b::B;"),
        ("b", ""),
    ]);
    assert_eq!(cycles(&one_way), Vec::<Vec<String>>::new());
}
