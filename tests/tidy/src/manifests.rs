//! Settings that every crate inherits from the workspace: lints, edition, license, versions.

use crate::tree;

/// Required lines of a manifest, each with its table.
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
    tree::expect_none(crates().flat_map(|(path, text)| not_inherited(path, text)));
}

#[test]
fn versions_are_in_the_workspace_manifest() {
    tree::expect_none(crates().flat_map(|(path, text)| own_versions(path, text)));
}

/// Manifests of the workspace crates, without crates that form a separate workspace.
fn crates() -> impl Iterator<Item = (&'static str, &'static str)> {
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
    let fault = |(_, line)| format!("{path}: `{line}` belongs in the Cargo.toml of the workspace");
    lines(manifest).filter(own).map(fault).collect()
}

/// Lines of a manifest, each with its table.
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
fn wrong_manifests_are_found() {
    let manifest = "[package]\nedition = \"2021\"\nversion.workspace = true\n[dependencies]\n\
                    serde.workspace = true\nhalf = { workspace = true } # why\nlibm = \"0.2\"\n\
                    [lints]\n";
    let missing = not_inherited("a/Cargo.toml", manifest);
    assert_eq!(missing.len(), INHERITED.len() - 1, "{missing:?}");
    let own = own_versions("a/Cargo.toml", manifest);
    let expected = "a/Cargo.toml: `libm = \"0.2\"` belongs in the Cargo.toml of the workspace";
    assert_eq!(own, [expected]);
}
