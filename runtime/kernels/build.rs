//! Sets the configuration of the instruction set that `shared/int8` uses.
//!
//! Stable compilers do not tell crates about the DSP extension and MVE, so it follows from the
//! target and from `-Ctarget-cpu`.

use std::env;

/// Processors of Armv8-M with the DSP extension. Cores of Armv7E-M always have it.
const WITH_DSP: [&str; 4] = ["cortex-m33", "cortex-m35p", "cortex-m55", "cortex-m85"];

/// Processors with MVE.
const WITH_MVE: [&str; 2] = ["cortex-m55", "cortex-m85"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(afferent_dsp)");
    println!("cargo:rustc-check-cfg=cfg(afferent_mve)");
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let cpu =
        flags.split('\x1f').find_map(|flag| flag.split_once("target-cpu=")).map(|(_, cpu)| cpu);
    let is_one_of = |names: &[&str]| cpu.is_some_and(|cpu| names.contains(&cpu));
    let target = env::var("TARGET").unwrap_or_default();
    if target.starts_with("thumbv7em") || is_one_of(&WITH_DSP) {
        println!("cargo:rustc-cfg=afferent_dsp");
    }
    if is_one_of(&WITH_MVE) {
        println!("cargo:rustc-cfg=afferent_mve");
    }
}
