//! Writes the memory map of the board to the linker search path.

use std::{env, fs, path::PathBuf};

/// Boards mps2-an385 (Cortex-M3) and mps2-an386 (Cortex-M4F): 4 MiB of flash and of RAM. `MODEL` has
/// programs that are too large for the first memory of a board.
const MPS2: &str = "MEMORY
{
  FLASH : ORIGIN = 0x00000000, LENGTH = 2M
  MODEL : ORIGIN = 0x00200000, LENGTH = 2M
  RAM : ORIGIN = 0x20000000, LENGTH = 4M
}
";

/// Board mps3-an547 (Cortex-M55): 512 KiB of instruction memory and of data memory, and 2 MiB of
/// SRAM, all secure.
const MPS3: &str = "MEMORY
{
  FLASH : ORIGIN = 0x10000000, LENGTH = 512K
  MODEL : ORIGIN = 0x11000000, LENGTH = 2M
  RAM : ORIGIN = 0x30000000, LENGTH = 512K
}
";

const SECTIONS: &str = "SECTIONS
{
  .model : ALIGN(16) { *(.model) } > MODEL
} INSERT AFTER .rodata;
";

fn main() {
    let is_m55 = env::var("TARGET").is_ok_and(|target| target.starts_with("thumbv8m"));
    let folder = PathBuf::from(env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
    let map = if is_m55 { MPS3 } else { MPS2 };
    fs::write(folder.join("memory.x"), format!("{map}{SECTIONS}")).expect("OUT_DIR is writable");
    println!("cargo:rustc-link-search={}", folder.display());
    println!("cargo:rustc-link-arg-bins=-Tlink.x");
    println!("cargo:rustc-check-cfg=cfg(cortex_m55)");
    if is_m55 {
        println!("cargo:rustc-cfg=cortex_m55");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
