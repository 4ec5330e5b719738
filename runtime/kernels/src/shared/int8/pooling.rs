//! Pools of 8-bit images.

use super::{image::Image, window::Window};

/// Channels that are folded at once.
const BLOCK: usize = 8;

/// Pool of images.
pub(crate) struct Pool<'a> {
    pub(crate) input: &'a [i8],
    pub(crate) image: Image,
    /// Height and width of the output.
    pub(crate) output: [usize; 2],
    pub(crate) window: Window,
}

impl Pool<'_> {
    /// Folds the elements of each window: `fold` combines them, from `start`, and `finish` gets the
    /// result and the number of elements.
    pub(crate) fn run(
        &self,
        out: &mut [i8],
        start: i32,
        fold: impl Fn(i32, i32) -> i32,
        finish: impl Fn(i32, i32) -> i8,
    ) {
        let [height, width] = self.output;
        let channels = self.image.channels;
        let mut targets = out.chunks_exact_mut(channels.max(1));
        for batch in 0..self.image.batch {
            for y in 0..height {
                let rows = self.window.taps(0, y, self.image.size[0]);
                let top = y * self.window.stride[0] + rows[0] - self.window.padding[0];
                for x in 0..width {
                    let columns = self.window.taps(1, x, self.image.size[1]);
                    let left = x * self.window.stride[1] + columns[0] - self.window.padding[1];
                    let Some(target) = targets.next() else { return };
                    let size = [rows[1] - rows[0], columns[1] - columns[0]];
                    let count = (size[0] * size[1]) as i32;
                    for (block, outs) in target.chunks_mut(BLOCK).enumerate() {
                        let mut values = [start; BLOCK];
                        for tap in 0..size[0] {
                            let row = batch * self.image.size[0] + top + tap;
                            let at = (row * self.image.size[1] + left) * channels + block * BLOCK;
                            let pixels = self.input.get(at..).unwrap_or_default();
                            for pixel in pixels.chunks(channels).take(size[1]) {
                                if let Some(pixel) = pixel.first_chunk::<BLOCK>() {
                                    for at in 0..BLOCK {
                                        values[at] = fold(values[at], i32::from(pixel[at]));
                                    }
                                    continue;
                                }
                                for (value, &x) in values.iter_mut().zip(pixel) {
                                    *value = fold(*value, i32::from(x));
                                }
                            }
                        }
                        for (out, value) in outs.iter_mut().zip(values) {
                            *out = finish(value, count);
                        }
                    }
                }
            }
        }
    }
}
