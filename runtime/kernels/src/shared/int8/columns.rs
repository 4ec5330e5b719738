//! Convolutions as products of columns and filters.
//!
//! A column holds the elements that one output position reads (im2col).

use super::{
    image::Image,
    product::{Filters, ROWS},
    window::Window,
};

/// Convolution, or transposed convolution, of images.
pub(crate) struct Columns<'a, const TRANSPOSED: bool> {
    pub(crate) input: &'a [i8],
    pub(crate) image: Image,
    /// Height and width of the output.
    pub(crate) output: [usize; 2],
    pub(crate) window: Window,
    /// Channels that a filter reads.
    pub(crate) channels: usize,
    /// Element in the padding: the zero point of the input.
    pub(crate) zero: i8,
}

impl<const TRANSPOSED: bool> Columns<'_, TRANSPOSED> {
    /// True if columns are slices of the input.
    fn are_slices(&self) -> bool {
        let Window { kernel, stride, padding, .. } = self.window;
        let is_point = kernel == [1, 1] && stride == [1, 1] && padding == [0, 0];
        is_point && self.channels == self.image.channels && self.output == self.image.size
    }

    /// Words of memory for the columns.
    pub(crate) fn words(&self, len: usize) -> usize {
        if self.are_slices() { 0 } else { (ROWS * len).div_ceil(4) }
    }

    /// Multiplies all columns with `filters`. `memory` has the words of the columns, and of the
    /// packed rows of the filters.
    pub(crate) fn multiply(&self, filters: &Filters<'_>, memory: &mut [u32], out: &mut [i8]) {
        let len = filters.len;
        let words = self.words(len).min(memory.len());
        let (columns, packed) = memory.split_at_mut(words);
        let columns: &mut [i8] = bytemuck::cast_slice_mut(columns);
        let groups = self.image.channels / self.channels.max(1);
        let per_group = filters.channels() / groups.max(1);
        let [height, width] = self.output;
        let positions = self.image.batch * height * width;
        for group in 0..groups {
            let part = filters.slice(group * per_group, (group + 1) * per_group);
            let first_target = group * per_group;
            let mut position = Position::default();
            if words == 0 {
                part.multiply(self.input, first_target, filters.channels(), out, packed);
                continue;
            }
            for start in (0..positions).step_by(ROWS) {
                let rows = columns.get_mut(..ROWS.min(positions - start) * len);
                let rows = rows.unwrap_or_default();
                for column in rows.chunks_exact_mut(len.max(1)) {
                    self.gather(position, group * self.channels, column);
                    position = position.next(self.output);
                }
                let target = first_target + start * filters.channels();
                part.multiply(rows, target, filters.channels(), out, packed);
            }
        }
    }

    /// Copies the elements that an output position reads to `column`.
    fn gather(&self, position: Position, first_channel: usize, column: &mut [i8]) {
        let [height, width] = self.image.size;
        let mut taps = column.chunks_exact_mut(self.channels.max(1));
        let source = |dim: usize, at: usize, tap: usize, size: usize| {
            if TRANSPOSED {
                self.window.transposed_source(dim, at, tap, size)
            } else {
                self.window.source(dim, at, tap, size)
            }
        };
        for tap_y in 0..self.window.kernel[0] {
            let y = source(0, position.y, tap_y, height);
            let row = y.map(|y| (position.batch * height + y) * width);
            for tap_x in 0..self.window.kernel[1] {
                let Some(column) = taps.next() else { return };
                let x = source(1, position.x, tap_x, width);
                let start =
                    row.zip(x).map(|(row, x)| (row + x) * self.image.channels + first_channel);
                match start.and_then(|at| self.input.get(at..at + column.len())) {
                    Some(elements) => column.copy_from_slice(elements),
                    None => column.fill(self.zero),
                }
            }
        }
    }
}

/// Output position.
#[derive(Clone, Copy, Default)]
struct Position {
    batch: usize,
    y: usize,
    x: usize,
}

impl Position {
    /// The next position of an output of height and width `size`.
    fn next(self, [height, width]: [usize; 2]) -> Self {
        let Self { batch, y, x } = self;
        if x + 1 < width {
            Self { x: x + 1, ..self }
        } else if y + 1 < height {
            Self { batch, y: y + 1, x: 0 }
        } else {
            Self { batch: batch + 1, y: 0, x: 0 }
        }
    }
}
