//! Writes the memory map of the chip to the linker search path.

use std::{env, fs, path::PathBuf};

/// nRF52840 without a soft device: 1 MiB of flash, 256 KiB of RAM.
const MAP: &str = "MEMORY
{
  FLASH : ORIGIN = 0x00000000, LENGTH = 1M
  RAM : ORIGIN = 0x20000000, LENGTH = 256K
}
";

fn main() {
    let folder = PathBuf::from(env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(folder.join("memory.x"), MAP).expect("OUT_DIR is writable");
    println!("cargo:rustc-link-search={}", folder.display());
    println!("cargo:rustc-link-arg-bins=-Tlink.x");
    println!("cargo:rerun-if-changed=build.rs");
}
