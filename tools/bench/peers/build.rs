//! Says where copper keeps the index of its log texts.

use std::env;

fn main() {
    let folder = env::var("OUT_DIR").expect("cargo sets it");
    println!("cargo:rustc-env=LOG_INDEX_DIR={folder}");
}
