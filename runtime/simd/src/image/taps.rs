//! Source columns of a row of output pixels.

use super::{MAX_LANES, format::Component, position::Tap};

/// Bytes of a window, which one instruction shuffles.
pub(super) const WINDOW: usize = 16;
/// Index of a byte that is zero.
pub(super) const ZERO: u8 = 0x80;
/// Output pixels that share windows.
const GROUP: usize = 4;

/// The bytes of a row that each output pixel is interpolated between, and their weights.
///
/// Each four pixels read the same number of windows of 16 bytes: one window for all of them if
/// their bytes are near each other, or one for each two, or one for each.
#[derive(Debug, Clone)]
pub(super) struct Taps {
    /// Bytes that a row has.
    pub row_bytes: usize,
    /// Number of pixels, a multiple of [`MAX_LANES`]. Those past the last pixel read nothing.
    pub len: usize,
    pub windows: Vec<Windows>,
    /// Weights of both bytes of a pixel: the first in the lower 16 bits.
    pub weights: Vec<i32>,
}

/// A window for each four pixels.
#[derive(Debug, Clone)]
pub(super) struct Windows {
    /// Offset of each window in the row; at most `row_bytes` - [`WINDOW`].
    pub offsets: Vec<u32>,
    /// Four indices for each pixel: of the first byte, of a zero, of the second byte, of a zero.
    pub indices: Vec<u8>,
}

impl Taps {
    /// Prepares the pixels between `taps`, or returns `None` if a row is shorter than a window.
    pub(super) fn new(part: &Component, taps: &[Tap], row_bytes: usize) -> Option<Self> {
        let last_offset = row_bytes.checked_sub(WINDOW)?;
        let bytes = |tap: &Tap| [part.byte(tap.first), part.byte(tap.second)];
        let fits = |taps: &[Tap]| {
            let all = || taps.iter().flat_map(bytes);
            let [low, high] = [all().min(), all().max()].map(Option::unwrap_or_default);
            high - low < WINDOW
        };
        let count = [1, 2]
            .into_iter()
            .find(|count| taps.chunks(GROUP).all(|group| group.chunks(GROUP / count).all(fits)));
        let count = count.unwrap_or(GROUP);
        let len = taps.len().next_multiple_of(MAX_LANES);
        let windows = (0..count).map(|number| {
            let mut windows =
                Windows { offsets: vec![0; len / GROUP], indices: vec![ZERO; GROUP * len] };
            for (group, taps) in taps.chunks(GROUP).enumerate() {
                let size = GROUP / count;
                let Some(taps) = taps.chunks(size).nth(number) else { continue };
                let offset = taps.iter().flat_map(bytes).min().unwrap_or(0).min(last_offset);
                windows.offsets[group] = offset as u32;
                for (at, tap) in taps.iter().enumerate() {
                    let lane = GROUP * group + size * number + at;
                    let [first, second] = bytes(tap).map(|byte| (byte - offset) as u8);
                    windows.indices[4 * lane..][..4].copy_from_slice(&[first, ZERO, second, ZERO]);
                }
            }
            windows
        });
        let windows = windows.collect();
        let mut weights: Vec<i32> =
            taps.iter().map(|tap| (super::position::ONE - tap.weight) | tap.weight << 16).collect();
        weights.resize(len, 0);
        Some(Self { row_bytes, len, windows, weights })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Format;

    #[test]
    fn windows_hold_the_bytes_of_their_pixels() {
        for (format, scale, windows) in [
            (Format::Mono8, 1, 1),
            (Format::Mono8, 3, 1),
            (Format::Yuyv, 2, 1),
            (Format::Rgb8, 1, 1),
            (Format::Rgb8, 2, 2),
            (Format::Rgba8, 3, 4),
            (Format::Mono8, 20, 4),
        ] {
            let taps: Vec<Tap> = (0..21)
                .map(|at| Tap { first: at * scale, second: at * scale + 1, weight: 5 })
                .collect();
            for part in format.components() {
                let row_bytes = part.step * 500;
                let table = Taps::new(part, &taps, row_bytes).unwrap();
                assert!((1..=windows).contains(&table.windows.len()), "{format:?} {scale}");
                for (lane, tap) in taps.iter().enumerate() {
                    let read = table.windows.iter().flat_map(|windows| {
                        let offset = windows.offsets[lane / GROUP] as usize;
                        assert!(offset + WINDOW <= row_bytes);
                        let indices = &windows.indices[4 * lane..][..4];
                        [indices[0], indices[2]].map(move |index| (offset, index))
                    });
                    let read: Vec<usize> = read
                        .filter(|(_, index)| *index != ZERO)
                        .map(|(offset, index)| offset + usize::from(index))
                        .collect();
                    assert_eq!(read, [part.byte(tap.first), part.byte(tap.second)]);
                }
                assert!(table.weights[21..].iter().all(|weight| *weight == 0));
            }
        }
    }

    #[test]
    fn short_rows_have_no_windows() {
        let tap = Tap { first: 0, second: 1, weight: 0 };
        assert!(Taps::new(&Format::Mono8.components()[0], &[tap], 15).is_none());
    }
}
