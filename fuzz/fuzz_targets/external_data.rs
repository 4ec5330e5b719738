//! A `.ptd` file: everything in it is read, and a program runs with it.

#![no_main]

mod mutator;

use afferent_tests_hostile::{attempt, reading, seeds};
use std::sync::LazyLock;

static PROGRAM: LazyLock<Vec<u8>> = LazyLock::new(|| seeds::seed("external_constants"));

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if data.get(4..6) == Some(b"FT") && reading::read(data) {
        attempt::program_with_data(&PROGRAM, data, data.len() as u64);
    }
});

libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutator::mutate(data, size, max_size, seed)
});
