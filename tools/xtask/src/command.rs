//! Commands that a step runs.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

/// Root of the repository.
pub(crate) fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the crate lies in the repository")
}

/// `cargo` with these arguments, separated by spaces, in the root of the repository.
pub(crate) fn cargo(args: &str) -> Command {
    program("cargo", args)
}

/// A program with these arguments, separated by spaces, in the root of the repository.
pub(crate) fn program(name: &str, args: &str) -> Command {
    let mut command = Command::new(name);
    command.args(args.split_whitespace()).current_dir(root()).stdin(Stdio::null());
    command
}

/// Runs a command and fails unless it succeeds.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}

/// Runs a command; returns the exit status and the output, which it prints too.
pub(crate) fn capture(command: &mut Command) -> Result<(bool, String)> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    println!("{text}");
    Ok((output.status.success(), text))
}

/// True if a program of this name is in the search path.
pub(crate) fn is_installed(name: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| folder.join(name).is_file())
}
