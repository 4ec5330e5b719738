//! The checks of continuous integration, in their order.

use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::{
    command::{self, cargo, is_installed, program, root},
    dist, embedding, python, readme,
};

/// One check.
struct Step {
    name: &'static str,
    /// Printed by `ci --list` and as the heading.
    what: &'static str,
    set: Set,
    run: fn() -> Result<()>,
}

/// Runs that a check is part of: `ci fast`, the full run `ci`, or both.
#[derive(Clone, Copy, PartialEq)]
enum Set {
    Both,
    Fast,
    Full,
}

/// Every check. A failure ends the run. The full run has `tidy` and `core` in `tests`.
const STEPS: &[Step] = &[
    Step { name: "format", what: "rustfmt", set: Set::Both, run: format },
    Step { name: "lints", what: "clippy, warnings are errors", set: Set::Both, run: lints },
    Step { name: "tidy", what: "rules of the repository", set: Set::Fast, run: tidy },
    Step { name: "core", what: "tests of graph/core and runtime/core", set: Set::Fast, run: core },
    Step { name: "tests", what: "all tests", set: Set::Full, run: tests },
    Step { name: "deny", what: "licenses, sources, duplicates", set: Set::Full, run: deny },
    Step { name: "model", what: "thread interleavings (shuttle)", set: Set::Full, run: model },
    Step { name: "sanitizer", what: "AddressSanitizer", set: Set::Full, run: sanitizer },
    Step { name: "docs", what: "documentation, warnings are errors", set: Set::Full, run: docs },
    Step {
        name: "readme",
        what: "commands of the README, a broken graph, record and replay",
        set: Set::Full,
        run: readme::check,
    },
    Step {
        name: "python",
        what: "wheel in a fresh environment",
        set: Set::Full,
        run: python::check,
    },
    Step { name: "scenarios", what: "pipelines/scenarios", set: Set::Full, run: scenarios },
    Step {
        name: "budgets",
        what: "latency budgets of the graphs in pipelines",
        set: Set::Full,
        run: budgets,
    },
    Step {
        name: "embedding",
        what: "programs outside of the workspace, `afferent new node`",
        set: Set::Full,
        run: embedding::check,
    },
    Step { name: "no_std", what: "runtime crates without std", set: Set::Full, run: no_std },
    Step { name: "bare-metal", what: "Cortex-M builds", set: Set::Full, run: bare_metal },
    Step { name: "arm", what: "64-bit ARM under QEMU", set: Set::Full, run: arm },
    Step {
        name: "dist",
        what: "release archive for 64-bit ARM, under QEMU",
        set: Set::Full,
        run: dist::check,
    },
    Step { name: "devices", what: "virtual devices in a QEMU guest", set: Set::Full, run: devices },
    Step { name: "firmware", what: "Cortex-M firmware under QEMU", set: Set::Full, run: firmware },
];

/// Prints the checks.
pub(crate) fn list() -> Result<()> {
    for Step { name, what, set, .. } in STEPS {
        println!("{name:<12} {what}{}", if *set == Set::Full { "" } else { " (fast)" });
    }
    Ok(())
}

/// Runs the full set of checks, the fast ones (`fast`), or those with these names; prints how long
/// each took.
pub(crate) fn run(names: &[&str]) -> Result<()> {
    let start = Instant::now();
    for step in chosen(names)? {
        println!("\n=== {}: {}", step.name, step.what);
        let begin = Instant::now();
        (step.run)().with_context(|| step.name.to_owned())?;
        println!("--- {}: {} s", step.name, begin.elapsed().as_secs());
    }
    println!("\nAll checks passed: {} s", start.elapsed().as_secs());
    Ok(())
}

fn chosen(names: &[&str]) -> Result<Vec<&'static Step>> {
    match names {
        [] => Ok(STEPS.iter().filter(|step| step.set != Set::Fast).collect()),
        ["fast"] => Ok(STEPS.iter().filter(|step| step.set != Set::Full).collect()),
        names => names.iter().map(|name| step(name)).collect(),
    }
}

fn step(name: &str) -> Result<&'static Step> {
    let found = STEPS.iter().find(|step| step.name == name);
    found.with_context(|| format!("there is no step {name}; `cargo xtask ci --list` shows them"))
}

fn format() -> Result<()> {
    command::run(&mut cargo("fmt --all -- --check"))
}

/// Every crate with every feature: one set for lints, tests and documentation, so that each
/// dependency is compiled once for all of them. The release build has the default features.
const EVERYTHING: &str = "--workspace --locked --features \
    afferent/audio-device,afferent/camera-nokhwa,afferent/h264,afferent/net,afferent/ros2,\
    afferent/serial,afferent/tls,afferent/vulkan,afferent-tests-conformance/vulkan,\
    afferent-tests-hostile/vulkan,afferent-bench/gpu,afferent-bench/net";

fn lints() -> Result<()> {
    command::run(&mut cargo(&format!("clippy {EVERYTHING} --all-targets -- -D warnings")))
}

fn tidy() -> Result<()> {
    command::run(&mut cargo("test --locked -p afferent-tests-tidy"))
}

fn core() -> Result<()> {
    command::run(&mut cargo("test --locked -p afferent-core -p afferent-graph"))
}

fn tests() -> Result<()> {
    command::run(&mut cargo(&format!("test {EVERYTHING}")))
}

/// Advisories need a database from the network, so they are checked only where it is there.
fn deny() -> Result<()> {
    if !is_installed("cargo-deny") {
        println!("skipped: cargo-deny is not installed (`cargo install --locked cargo-deny`)");
        return Ok(());
    }
    command::run(&mut cargo("deny --offline check --hide-inclusion-graph licenses bans sources"))?;
    if command::run(&mut cargo("deny fetch db")).is_err() {
        println!("skipped: advisories, because their database cannot be fetched");
        return Ok(());
    }
    command::run(&mut cargo("deny check advisories"))
}

fn model() -> Result<()> {
    script("model", "")
}

/// The graph, where a toolchain with the sanitizer is installed; `.ci/sanitize` runs everything.
fn sanitizer() -> Result<()> {
    if command::run(&mut program("rustc", "+nightly --version")).is_err() {
        println!("skipped: no nightly toolchain");
        return Ok(());
    }
    script("sanitize", "--package=afferent-graph --package=afferent-engine")
}

fn devices() -> Result<()> {
    script("devices", "")
}

fn docs() -> Result<()> {
    let mut doc = cargo(&format!("doc {EVERYTHING} --no-deps"));
    command::run(doc.env("RUSTDOCFLAGS", "-Dwarnings"))
}

fn scenarios() -> Result<()> {
    command::run(&mut cargo("run --release --locked -- test pipelines/scenarios"))
}

/// The virtual clock runs the graphs as fast as they go; their budgets are in real time.
fn budgets() -> Result<()> {
    let mut graphs: Vec<_> = std::fs::read_dir(root().join("pipelines"))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    graphs.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    graphs.sort();
    ensure!(!graphs.is_empty(), "pipelines has no graph");
    for graph in graphs {
        if graph.file_stem().is_some_and(|name| name == "glasses_wake") {
            println!("skipped: glasses_wake, because it needs a device (.ci/firmware has one)");
            continue;
        }
        let mut run = cargo("run --release --locked -- run --virtual --enforce-budget");
        command::run(run.arg(graph))?;
    }
    Ok(())
}

fn no_std() -> Result<()> {
    command::run(&mut cargo(
        "check --locked --no-default-features -p afferent-core -p afferent-program \
         -p afferent-simd -p afferent-kernels -p afferent-runtime",
    ))
}

fn bare_metal() -> Result<()> {
    script("bare-metal", "")
}

fn arm() -> Result<()> {
    script("arm", "")
}

fn firmware() -> Result<()> {
    let mut firmware = program(".ci/firmware", "");
    command::run(firmware.env("AFFERENT_TEST_FEATURES", EVERYTHING))
}

/// A script of `.ci`.
fn script(name: &str, args: &str) -> Result<()> {
    command::run(&mut program(&format!(".ci/{name}"), args))
}
