//! Parses a `.ptd` file, reads all of its entries, and runs a program with it.

#![no_main]

mod mutator;

use afferent_tests_hostile::{execute, invariants, seeds};
use std::sync::LazyLock;

static PROGRAM: LazyLock<Vec<u8>> = LazyLock::new(|| seeds::seed("external_constants"));

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if data.get(4..6) == Some(b"FT") && invariants::check_file(data) {
        execute::program_with_data(&PROGRAM, data, data.len() as u64);
    }
});

libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutator::mutate(data, size, max_size, seed)
});
