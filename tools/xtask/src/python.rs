//! The Python package: its wheel, built, installed in a fresh environment and tested.

use std::{env, fs, path::PathBuf};

use anyhow::{Context, Result, ensure};

use crate::command::{self, program, root};

/// Largest size of the wheel, in bytes.
const MAX_WHEEL: u64 = 30_000_000;

/// Builds the wheel, installs it in a fresh environment, and runs the tests of the package and its
/// example programs.
pub(crate) fn check() -> Result<()> {
    let python = "python3";
    if !command::is_installed(python)
        || !program(python, "-m venv --help").output().is_ok_and(|output| output.status.success())
    {
        println!("skipped: python3 has no module venv (python3-venv)");
        return Ok(());
    }
    let target = env::var_os("CARGO_TARGET_DIR").map_or(root().join("target"), PathBuf::from);
    let (environment, wheels) = (target.join("python"), target.join("wheels"));
    for folder in [&environment, &wheels] {
        // They need not exist.
        drop(fs::remove_dir_all(folder));
    }
    command::run(program(python, "-m venv").arg(&environment))?;
    let own = |name: &str, args: &str| {
        program(&environment.join("bin").join(name).display().to_string(), args)
    };
    command::run(&mut own("pip", "install --quiet maturin numpy pytest"))?;
    command::run(
        own("maturin", "build --release --locked --quiet")
            .arg("--manifest-path")
            .arg(root().join("python/Cargo.toml"))
            .arg("--out")
            .arg(&wheels),
    )?;
    let wheel = fs::read_dir(&wheels)?.next().context("maturin wrote no wheel")??;
    let bytes = wheel.metadata()?.len();
    println!("{}: {:.1} MB", wheel.file_name().display(), bytes as f64 / 1e6);
    ensure!(bytes <= MAX_WHEEL, "the wheel has {bytes} bytes, more than {MAX_WHEEL}");
    command::run(own("pip", "install --quiet").arg(wheel.path()))?;
    // Not in the folder of the sources, where the package would be found without the library.
    let pytest = |args: &str| {
        let mut pytest = own("pytest", args);
        pytest.arg(root().join("python/tests")).current_dir(&target);
        pytest
    };
    command::run(&mut pytest("-q -p no:cacheprovider"))?;
    for example in ["brightness_graph.py", "benchmark.py"] {
        let mut run = own("python", "");
        run.arg(root().join("python/examples").join(example)).current_dir(&target);
        command::run(&mut run)?;
    }
    Ok(())
}
