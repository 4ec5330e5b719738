//! A `.pte` file: every method is loaded and runs, within limits.

#![no_main]

mod mutator;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    afferent_tests_hostile::attempt::program(data, data.len() as u64);
});

libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutator::mutate(data, size, max_size, seed)
});
