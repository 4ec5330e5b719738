//! A `.pte` file with delegates that really compute: it is loaded and its methods run.

#![no_main]

mod mutator;

use afferent_tests_hostile::attempt;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    attempt::delegated(data, data.len() as u64);
});

libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutator::mutate(data, size, max_size, seed)
});
