//! The mutator of the targets that read files: half of the changes know the format.

use afferent_tests_hostile::{Random, mutate};
use libfuzzer_sys::fuzzer_mutate;

/// Changes the first `size` of `data`'s bytes and says how many there are afterwards.
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
