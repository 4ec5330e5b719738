//! `cargo xtask`: checks and measurements of this repository.
//!
//! | command | does |
//! |---|---|
//! | `ci [STEP...]` | runs every check, or the named ones |
//! | `ci fast` | runs format, lints, the rules of the repository and the tests of the core crates |
//! | `ci --list` | lists the checks |
//! | `dist [--target TRIPLE]` | builds a release archive |
//! | `size` | builds the release binary from scratch: CPU time, crates, size |

#![expect(clippy::print_stdout, reason = "a command line")]

mod ci;
mod command;
mod dist;
mod embedding;
mod python;
mod readme;
mod size;

use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo xtask COMMAND

  ci [STEP...]  run every check, or the named ones
  ci fast       run the short checks: format, lints, tidy, core
  ci --list     list the checks
  dist [--target TRIPLE] [--features LIST] [--profile NAME]
                build a release archive in target/dist, for this machine or another
  size          build `afferent` in release mode from scratch and print its cost and size";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["ci", "--list"] => ci::list(),
        ["ci", steps @ ..] => ci::run(steps),
        ["dist", args @ ..] => dist::make(args),
        ["size"] => size::print(),
        _ => {
            println!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("\nFAILED: {error:#}");
            ExitCode::FAILURE
        }
    }
}
