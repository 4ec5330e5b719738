//! Tests the nodes `camera` and `imu` with virtual devices of the Linux kernel.
//!
//! `.ci/devices` boots a kernel in QEMU, loads the drivers and runs this program, which prints a line
//! for each check. The camera is that of the driver `vivid`; the motion sensors are HID devices that
//! this program makes up (`hid.rs`).

#![expect(clippy::print_stdout, reason = "prints the results")]

mod camera;
mod hid;
mod imu;
mod run;

use std::process::ExitCode;

use anyhow::Result;

fn main() -> ExitCode {
    let _ = tracing_subscriber::fmt().with_ansi(false).without_time().try_init();
    let mut failed = 0;
    let mut check = |name: &str, result: Result<String>| match result {
        Ok(found) => println!("ok: {name}: {found}"),
        Err(error) => {
            failed += 1;
            println!("FAILED: {name}: {error:#}");
        }
    };
    camera::check(&mut check);
    imu::check(&mut check);
    println!("{failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
