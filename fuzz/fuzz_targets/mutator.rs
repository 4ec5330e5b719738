//! Mutator of the targets that read files: half of the mutations are aware of the format.

use afferent_tests_hostile::{Random, mutate};
use libfuzzer_sys::fuzzer_mutate;

/// Mutates the first `size` bytes of `data` and returns their new number.
pub fn mutate(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let mut random = Random(seed.into());
    if random.once_in(2) {
        return fuzzer_mutate(data, size, max_size);
    }
    let mut bytes = data[..size].to_vec();
    mutate::mutate(&mut bytes, &mut random, max_size.min(data.len()));
    data[..bytes.len()].copy_from_slice(&bytes);
    bytes.len()
}
