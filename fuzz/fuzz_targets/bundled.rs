//! Parses a `.bpte` file and reads all of its entries.

#![no_main]

mod mutator;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    afferent_tests_hostile::invariants::check_bundled(data);
});

libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutator::mutate(data, size, max_size, seed)
});
