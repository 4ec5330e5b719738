//! Allowed dependencies between the crates of the workspace.

use std::path::Path;

use serde_json::Value;

use crate::tree;

/// Folder of a crate, and the folders of the workspace crates that it may depend on.
const ARROWS: &[(&str, &[&str])] = &[
    ("runtime/core", &[]),
    ("runtime/flatbuffer", &[]),
    ("runtime/program", &["runtime/core", "runtime/flatbuffer"]),
    ("runtime/executor", &["runtime/core", "runtime/program"]),
    ("runtime/inspect", &["runtime/core", "runtime/program", "runtime/executor"]),
    ("runtime/package", &["runtime/core", "runtime/executor"]),
    ("runtime/text", &["runtime/core", "runtime/executor"]),
    ("runtime/simd", &["runtime/core"]),
    ("runtime/kernels", &["runtime/core", "runtime/simd"]),
    ("runtime/gpu", &["runtime/core"]),
    ("backends/*", &["runtime/core", "runtime/flatbuffer", "runtime/gpu", "runtime/simd"]),
    ("graph/core", &["runtime/core"]),
    ("graph/messages", &["runtime/core", "graph/core"]),
    ("graph/spec", &["graph/core"]),
    ("graph/engine", &["graph/core", "graph/spec"]),
    ("graph/record", &["graph/core", "graph/spec", "graph/engine"]),
    ("graph/transport", &["runtime/core", "graph/core", "graph/spec", "graph/engine"]),
    ("graph/scenario", &["graph/core", "graph/messages", "graph/spec", "graph/engine"]),
    ("graph/web", &[]),
    ("nodes/python", &["runtime/core", "graph/core", "graph/messages", "graph/transport"]),
    (
        "mcu/device",
        &["runtime/core", "runtime/executor", "runtime/kernels", "mcu/link", "mcu/wake"],
    ),
    ("mcu/link", &[]),
    ("mcu/wake", &["runtime/core", "runtime/executor"]),
    (
        "nodes/*",
        &[
            "mcu/link",
            "mcu/wake",
            "runtime/core",
            "runtime/executor",
            "runtime/package",
            "runtime/text",
            "runtime/gpu",
            "runtime/simd",
            "graph/core",
            "graph/messages",
            "graph/web",
        ],
    ),
    ("launch", ANYTHING),
    ("python", ANYTHING),
    ("tools/*", ANYTHING),
    ("tests/*", ANYTHING),
];

/// Folders in the table.
pub(crate) fn folders() -> impl Iterator<Item = &'static str> {
    ARROWS.iter().map(|(folder, _)| *folder)
}

const ANYTHING: &[&str] = &[
    "runtime/*",
    "backends/*",
    "graph/*",
    "mcu/*",
    "nodes/*",
    "launch",
    "python",
    "tools/*",
    "tests/*",
];

/// Additional crates that every crate may use as dev-dependencies.
const IN_TESTS: &[&str] =
    &["runtime/kernels", "backends/vulkan", "backends/xnnpack", "graph/messages"];

#[test]
fn arrows_point_one_way() {
    let metadata = tree::metadata(&["--no-deps", "--offline"]);
    let mut faults = Vec::new();
    for package in tree::packages(&metadata) {
        let folder = folder(package["manifest_path"].as_str().expect("a path"), true);
        for dependency in package["dependencies"].as_array().expect("a list") {
            // Only crates of the workspace have a path.
            let Some(path) = dependency["path"].as_str() else { continue };
            faults.extend(fault(&folder, &self::folder(path, false), &dependency["kind"]));
        }
    }
    tree::expect_none(faults);
}

/// Error message if the crate in folder `from` must not depend on the crate in folder `to`.
fn fault(from: &str, to: &str, kind: &Value) -> Option<String> {
    let Some((_, allowed)) = ARROWS.iter().find(|(pattern, _)| matches(from, pattern)) else {
        return Some(format!("{from}: no row in the table of arrows (tests/tidy/src/arrows.rs)"));
    };
    let to_itself = from == to && kind == "dev";
    let in_tests = kind == "dev" && IN_TESTS.contains(&to);
    let is_allowed = to_itself || in_tests || allowed.iter().any(|pattern| matches(to, pattern));
    (!is_allowed).then(|| format!("{from}/Cargo.toml: must not depend on {to}"))
}

/// Folder of a crate, relative to the root.
fn folder(path: &str, manifest: bool) -> String {
    let path = Path::new(path);
    let folder = if manifest { path.parent().expect("a manifest is in a folder") } else { path };
    let folder = folder.canonicalize().expect("the crate exists");
    let local = folder.strip_prefix(tree::root()).expect("the crate is in the workspace");
    local.to_str().expect("names are UTF-8").replace('\\', "/")
}

fn matches(folder: &str, pattern: &str) -> bool {
    match pattern.strip_suffix("/*") {
        Some(parent) => folder.rsplit_once('/').is_some_and(|(above, _)| above == parent),
        None => folder == pattern,
    }
}

#[test]
fn wrong_dependencies_are_found() {
    let (normal, dev) = (Value::Null, Value::from("dev"));
    let wrong = [
        ("runtime/executor", "runtime/kernels"),
        ("runtime/core", "runtime/program"),
        ("runtime/text", "runtime/kernels"),
        ("backends/xnnpack", "backends/vulkan"),
        ("graph/engine", "runtime/executor"),
        ("nodes/speech", "graph/engine"),
        ("nodes/speech", "nodes/io"),
        ("elsewhere", "runtime/core"),
    ];
    for (from, to) in wrong {
        assert!(fault(from, to, &normal).is_some(), "{from} -> {to}");
    }
    assert_eq!(fault("nodes/speech", "runtime/kernels", &dev), None);
    assert!(fault("nodes/speech", "graph/engine", &dev).is_some());
    assert_eq!(fault("nodes/speech", "runtime/package", &normal), None);
    assert_eq!(fault("launch", "nodes/io", &normal), None);
}
