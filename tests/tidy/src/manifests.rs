//! What a crate inherits from the workspace: lints, edition, licence, versions.

use crate::tree;

/// Lines that every crate has, each in its table.
const INHERITED: &[(&str, &str)] = &[
    ("[lints]", "workspace = true"),
    ("[package]", "version.workspace = true"),
    ("[package]", "edition.workspace = true"),
    ("[package]", "rust-version.workspace = true"),
    ("[package]", "license.workspace = true"),
    ("[package]", "publish.workspace = true"),
];

#[test]
fn crates_inherit_from_the_workspace() {
    tree::expect_none(crates().flat_map(|(path, text)| not_inherited(path, &text)));
}

#[test]
fn versions_stand_in_the_workspace() {
    tree::expect_none(crates().flat_map(|(path, text)| own_versions(path, &text)));
}

/// The crates of our workspace; one that is a workspace of its own has nothing to inherit.
fn crates() -> impl Iterator<Item = (&'static str, String)> {
    tree::texts("/Cargo.toml").filter(|(_, text)| !text.lines().any(|line| line == "[workspace]"))
}

fn not_inherited(path: &str, manifest: &str) -> Vec<String> {
    let missing = |&&(table, line): &&(&str, &str)| !lines(manifest).any(|at| at == (table, line));
    let fault = |(table, line): &(&str, &str)| format!("{path}: lacks `{line}` in {table}");
    INHERITED.iter().filter(missing).map(fault).collect()
}

fn own_versions(path: &str, manifest: &str) -> Vec<String> {
    let own = |(table, line): &(&str, &str)| {
        table.ends_with("dependencies]") && !line.contains("workspace = true")
    };
    let fault = |(_, line)| format!("{path}: `{line}` belongs into the workspace's Cargo.toml");
    lines(manifest).filter(own).map(fault).collect()
}

/// The lines of a manifest, each with the table that it is in.
fn lines(manifest: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut table = "";
    manifest.lines().filter_map(move |line| {
        let line = line.split(" #").next().unwrap_or_default().trim();
        if line.starts_with('[') {
            table = line;
        }
        (!line.is_empty() && !line.starts_with(['[', '#'])).then_some((table, line))
    })
}

#[test]
fn crates_that_go_their_own_way_are_found() {
    let manifest = "[package]\nedition = \"2021\"\nversion.workspace = true\n[dependencies]\n\
                    serde.workspace = true\nhalf = { workspace = true } # why\nlibm = \"0.2\"\n\
                    [lints]\n";
    let missing = not_inherited("a/Cargo.toml", manifest);
    assert_eq!(missing.len(), INHERITED.len() - 1, "{missing:?}");
    let own = own_versions("a/Cargo.toml", manifest);
    assert_eq!(own, ["a/Cargo.toml: `libm = \"0.2\"` belongs into the workspace's Cargo.toml"]);
}
