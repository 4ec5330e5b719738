//! Sets the folder for the log index of copper.

use std::env;

fn main() {
    let folder = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    println!("cargo:rustc-env=LOG_INDEX_DIR={folder}");
}
