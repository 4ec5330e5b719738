//! Loads each method of a `.pte` file and runs it, within limits.

#![no_main]

mod mutator;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    afferent_tests_hostile::execute::program(data, data.len() as u64);
});

libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutator::mutate(data, size, max_size, seed)
});
