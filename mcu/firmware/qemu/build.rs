//! Writes the memory map of the board to the linker search path.
//!
//! The boards have more memory. The map has what the firmware may take, so the linker refuses a
//! larger image, and a deeper stack spoils the decisions that `.ci/firmware` compares.

use std::{env, fs, path::PathBuf};

/// Flash without the model, and RAM with the stack, in bytes.
const FLASH: u64 = 48 << 10;
const RAM: u64 = 48 << 10;

const MODEL: &str = "../../../pipelines/models/wake_word_int8/wake_word_int8.pte";

fn main() {
    let is_m55 = env::var("TARGET").is_ok_and(|target| target.starts_with("thumbv8m"));
    // mps3-an547 has its secure memory there, mps2-an386 begins with zero.
    let [flash, ram] = if is_m55 { [0x1000_0000, 0x3000_0000] } else { [0, 0x2000_0000_u64] };
    let model = fs::metadata(MODEL).expect("the model exists").len();
    let map = format!(
        "MEMORY\n{{\n  FLASH : ORIGIN = {flash}, LENGTH = {}\n  RAM : ORIGIN = {ram}, LENGTH = {RAM}\n}}\n",
        FLASH + model.next_multiple_of(16)
    );
    let folder = PathBuf::from(env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(folder.join("memory.x"), map).expect("OUT_DIR is writable");
    println!("cargo:rustc-link-search={}", folder.display());
    println!("cargo:rustc-link-arg-bins=-Tlink.x");
    println!("cargo:rustc-check-cfg=cfg(cortex_m55)");
    if is_m55 {
        println!("cargo:rustc-cfg=cortex_m55");
    }
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={MODEL}");
}
