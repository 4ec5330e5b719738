//! Indirection buffers for tests.

use afferent_simd::igemm::PADDING_OFFSET;

/// Indirection buffer of `rows` × `taps` entries, some of them padding, into `pixels` runs of
/// `channels` elements.
pub(crate) fn offsets(rows: usize, taps: usize, pixels: usize, channels: usize) -> Vec<u32> {
    let offset = |index: usize| match index % 5 {
        4 => PADDING_OFFSET,
        _ => (index * 13 % pixels * channels) as u32,
    };
    (0..rows * taps).map(offset).collect()
}
