//! Loads a `.pte` file with Vulkan delegates and runs its methods on the device.

#![no_main]

mod mutator;

use afferent_tests_hostile::execute;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    execute::program_with_vulkan(data, data.len() as u64);
});

libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutator::mutate(data, size, max_size, seed)
});
