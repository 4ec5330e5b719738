//! Instruction counts of a call, measured by Valgrind. They hardly vary from run to run.

use std::{env, path::PathBuf, process::Command};

use anyhow::{Context, Result, bail};

use crate::bench_target::BenchTarget;

/// Calls a method repeatedly and prints nothing; runs under Valgrind.
#[derive(Debug, clap::Args)]
pub(crate) struct LoopOptions {
    program: PathBuf,
    repeat: usize,
}

pub(crate) fn run_loop(options: &LoopOptions) -> Result<()> {
    Ok(BenchTarget::open(&options.program)?.call(options.repeat)?)
}

/// Command line that calls `target` `repeat` times with Afferent.
pub(crate) fn own_command(target: &BenchTarget, repeat: usize) -> Result<Vec<String>> {
    let program = env::current_exe()?.display().to_string();
    let path = target.path().display().to_string();
    Ok(vec![program, "loop".to_owned(), path, repeat.to_string()])
}

/// Instructions of one call: difference between runs of `command` with `few` and `many` calls.
pub(crate) fn per_call(
    (few, many): (usize, usize),
    command: impl Fn(usize) -> Result<Vec<String>>,
) -> Result<f64> {
    let difference = instructions(&command(many)?)? - instructions(&command(few)?)?;
    Ok(difference / (many - few) as f64)
}

/// Instructions of a run of `command`, under valgrind.
pub(crate) fn instructions(command: &[String]) -> Result<f64> {
    let options = ["--tool=callgrind", "--callgrind-out-file=/dev/null"];
    let output = Command::new("valgrind").args(options).args(command).output();
    let output = output.context("cannot start valgrind")?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("valgrind {}: {}", command.join(" "), text.trim());
    }
    collected(&text).context("valgrind printed no instruction count")
}

/// Parses the line `==1== Collected : 123`.
fn collected(text: &str) -> Option<f64> {
    let (_, after) = text.split_once("Collected :")?;
    after.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn instruction_count_is_parsed() {
        assert_eq!(super::collected("==1== x\n==1== Collected : 42\n==1==\n"), Some(42.0));
        assert_eq!(super::collected("==1== nothing"), None);
    }
}
