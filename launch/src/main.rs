//! The program `afferent`.

use std::process::ExitCode;

fn main() -> ExitCode {
    afferent::App::new().main()
}
