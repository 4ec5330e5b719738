//! Pools of 8-bit images.

use super::{image::Image, window::Window};

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
                    for (channel, out) in target.iter_mut().enumerate() {
                        let mut value = start;
                        for tap in 0..size[0] {
                            let row = batch * self.image.size[0] + top + tap;
                            let at = (row * self.image.size[1] + left) * channels + channel;
                            let elements = self.input.get(at..).unwrap_or_default();
                            let elements = elements.iter().step_by(channels).take(size[1]);
                            value = elements.fold(value, |value, &x| fold(value, i32::from(x)));
                        }
                        *out = finish(value, count);
                    }
                }
            }
        }
    }
}
