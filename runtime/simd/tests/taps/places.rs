//! Places that rows of indirect products read from.

use afferent_simd::indirect::ZEROS;

/// Taps of each row, some of zeros, over `pixels` runs of `channels` numbers.
pub(crate) fn places(rows: usize, taps: usize, pixels: usize, channels: usize) -> Vec<u32> {
    let place = |at: usize| match at % 5 {
        4 => ZEROS,
        _ => (at * 13 % pixels * channels) as u32,
    };
    (0..rows * taps).map(place).collect()
}
