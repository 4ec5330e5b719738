//! Programs outside of the workspace that use the library.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use crate::command::{capture, cargo, root, run};

/// Builds and runs `tests/embedding` in another folder, and a crate of generated nodes.
pub(crate) fn check() -> Result<()> {
    embedding()?;
    generated_nodes()?;
    generated_project()?;
    run(&mut cargo(
        "run --release --locked --example custom_node -- run launch/examples/custom_node.yaml",
    ))
}

/// A node, a payload type and a backend of a program; the graph runs, is watched and stopped.
fn embedding() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let from = root().join("tests/embedding");
    fs::create_dir(folder.path().join("src"))?;
    for file in ["src/main.rs", "meter.yaml"] {
        let text = fs::read_to_string(from.join(file)).context(file)?;
        let text = text.replace("../../pipelines", &root().join("pipelines").display().to_string());
        fs::write(folder.path().join(file), text)?;
    }
    let manifest = fs::read_to_string(from.join("Cargo.toml"))?;
    let launch = root().join("launch").display().to_string();
    fs::write(folder.path().join("Cargo.toml"), manifest.replace("../../launch", &launch))?;
    fs::copy(root().join("Cargo.lock"), folder.path().join("Cargo.lock"))?;
    let mut command = outside(folder.path(), "run");
    let (is_success, output) = capture(command.args(["--", "meter.yaml"]))?;
    ensure!(is_success, "the program failed");
    let calls = output.split_once("metered ").and_then(|(_, rest)| rest.split(' ').next());
    let calls: u64 = calls.and_then(|calls| calls.parse().ok()).context("no line `metered N`")?;
    ensure!(calls > 0 && output.contains("Stopped"), "the graph did not run and stop: {output}");
    Ok(())
}

/// The output of `afferent new node` compiles and passes its tests.
fn generated_nodes() -> Result<()> {
    let folder = tempfile::tempdir()?;
    fs::create_dir(folder.path().join("src"))?;
    fs::write(folder.path().join("src/lib.rs"), "//! Nodes.\n")?;
    let root = root();
    let root = root.display();
    let manifest = format!(
        "[package]\nname = \"own-nodes\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[dependencies]\n\
         afferent-core = {{ path = \"{root}/runtime/core\" }}\n\
         afferent-graph = {{ path = \"{root}/graph/core\" }}\n\
         afferent-messages = {{ path = \"{root}/graph/messages\" }}\n[workspace]\n\
         [lints.rust]\nwarnings = \"deny\"\n"
    );
    fs::write(folder.path().join("Cargo.toml"), manifest)?;
    fs::copy(crate::command::root().join("Cargo.lock"), folder.path().join("Cargo.lock"))?;
    for shape in ["source", "step", "sink"] {
        let new = format!("run --release --locked -- new node my_{shape} --shape {shape} --crate");
        run(cargo(&new).arg(folder.path()))?;
    }
    run(&mut outside(folder.path(), "test"))
}

/// The output of `afferent new project` compiles, passes its tests and runs its graph.
fn generated_project() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let project = folder.path().join("my-robot");
    let mut new = cargo("run --release --locked -- new project --checkout");
    run(new.arg(root()).arg(&project))?;
    fs::copy(root().join("Cargo.lock"), project.join("Cargo.lock"))?;
    run(&mut outside(&project, "test"))?;
    run(outside(&project, "run").args(["--", "run", "graph.yaml", "--virtual"]))
}

/// `cargo` in a folder outside, without the network. It uses what the release build of the program has
/// compiled.
fn outside(folder: &Path, command: &str) -> Command {
    let mut cargo = cargo("");
    cargo.args([command, "--offline", "--release"]).current_dir(folder);
    let target = env::var_os("CARGO_TARGET_DIR").map_or(root().join("target"), PathBuf::from);
    cargo.env("CARGO_TARGET_DIR", target).env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo");
    cargo
}
