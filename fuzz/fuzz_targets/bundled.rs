//! A `.bpte` file: everything that it gives is read.

#![no_main]

mod mutator;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    afferent_tests_hostile::reading::read_bundled(data);
});

libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutator::mutate(data, size, max_size, seed)
});
