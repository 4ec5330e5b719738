//! Means and places of the largest in windows of pictures, and resizing.

use afferent_core::{Element, Error};

use super::{Cx, Input, Op, elements, only, some, unary::bound};
use crate::shape::{MISFIT, Room, Shape, Window};

/// The means of what windows have inside the picture.
pub(crate) struct AveragePool {
    pub(crate) window: Window,
    pub(crate) clamp: (f32, f32),
}

impl Op for AveragePool {
    fn shape(&mut self, inputs: &[Shape], _: &mut Room) -> Result<Shape, Error> {
        self.window.pooled(*only(inputs)?)
    }

    fn run(&self, cx: &mut Cx<'_>, inputs: &[Input<'_>], out: &mut [u8]) -> Result<(), Error> {
        let out = elements::<f32>(out)?;
        out.fill(0.0);
        each(
            &self.window,
            cx,
            only(inputs)?,
            out,
            |to, from: &[f32], _, _| from.iter().zip(to).for_each(|(x, to)| *to += *x),
            |to, count| {
                let factor = 1.0 / count.max(1) as f32;
                to.iter_mut().for_each(|to| *to *= factor);
            },
        )?;
        bound(cx.isa, self.clamp, out);
        Ok(())
    }
}

/// The places of the largest in windows, counted column by column as XNNPACK does.
pub(crate) struct ArgMaxPool {
    pub(crate) window: Window,
}

impl Op for ArgMaxPool {
    fn shape(&mut self, inputs: &[Shape], _: &mut Room) -> Result<Shape, Error> {
        self.window.pooled(*only(inputs)?)
    }

    fn run(&self, cx: &mut Cx<'_>, inputs: &[Input<'_>], out: &mut [u8]) -> Result<(), Error> {
        let input = only(inputs)?;
        let mut best = std::mem::take(&mut cx.scratch.floats);
        let mine = some(&mut best, input.shape[3], &mut cx.scratch.room)?;
        let out = elements::<i32>(out)?;
        // Windows may lie beside the picture.
        out.fill(0);
        let result = each(
            &self.window,
            cx,
            input,
            out,
            |to: &mut [i32], from: &[f32], tap, is_first| {
                for ((x, best), to) in from.iter().zip(&mut *mine).zip(to) {
                    let is_larger = *x > *best || x.is_nan() && !best.is_nan();
                    if is_first || is_larger || *x == *best && tap < *to {
                        (*best, *to) = (*x, tap);
                    }
                }
            },
            |_, _| {},
        );
        cx.scratch.floats = best;
        result
    }
}

/// Calls `add` with the channels of each position and those of each input that its window
/// meets, with the number of the tap and whether it is the first; then `finish` with the
/// number of inputs.
fn each<T: Element, U>(
    window: &Window,
    cx: &Cx<'_>,
    input: &Input<'_>,
    out: &mut [U],
    mut add: impl FnMut(&mut [U], &[T], i32, bool),
    finish: impl Fn(&mut [U], usize),
) -> Result<(), Error> {
    let [_, height, width, channels] = input.shape.picture()?;
    let x = input.data::<T>()?;
    let [rows, cols] = window.output([height, width])?;
    if channels == 0 {
        return Ok(());
    }
    let [kernel_rows, kernel_cols] = window.kernel;
    for (pixel, to) in out.chunks_exact_mut(channels).enumerate() {
        let (item, row, col) = (pixel / (rows * cols), pixel / cols % rows, pixel % cols);
        let mut count = 0;
        for i in 0..kernel_rows {
            let Some(y) = window.source(0, row, i, height) else { continue };
            for j in 0..kernel_cols {
                let Some(at) = window.source(1, col, j, width) else { continue };
                let start = ((item * height + y) * width + at) * channels;
                let from = x.get(start..start + channels).ok_or(MISFIT)?;
                let tap = (j * kernel_rows + i) as i32;
                cx.isa.call(|| add(to, from, tap, count == 0));
                count += 1;
            }
        }
        finish(to, count);
    }
    Ok(())
}

/// The mean of each channel of a picture.
pub(crate) struct GlobalMean {
    pub(crate) keeps_dims: bool,
    pub(crate) clamp: (f32, f32),
}

impl Op for GlobalMean {
    fn shape(&mut self, inputs: &[Shape], _: &mut Room) -> Result<Shape, Error> {
        let [batch, _, _, channels] = only(inputs)?.picture()?;
        Ok(if self.keeps_dims {
            Shape::of([batch, 1, 1, channels])
        } else {
            Shape::of([batch, channels])
        })
    }

    fn run(&self, cx: &mut Cx<'_>, inputs: &[Input<'_>], out: &mut [u8]) -> Result<(), Error> {
        let input = only(inputs)?;
        let [_, height, width, channels] = input.shape.picture()?;
        let (x, out) = (input.data::<f32>()?, elements::<f32>(out)?);
        let len = height * width * channels;
        out.fill(if len == 0 { f32::NAN } else { 0.0 });
        if len == 0 {
            return Ok(());
        }
        let factor = 1.0 / (height * width) as f32;
        for (x, out) in x.chunks_exact(len).zip(out.chunks_exact_mut(channels)) {
            cx.isa.call(|| {
                for x in x.chunks_exact(channels) {
                    x.iter().zip(&mut *out).for_each(|(x, out)| *out += *x);
                }
                out.iter_mut().for_each(|out| *out *= factor);
            });
        }
        bound(cx.isa, self.clamp, out);
        Ok(())
    }
}

/// A picture with other numbers of rows and columns, interpolated between the four nearest.
pub(crate) struct Resize {
    pub(crate) size: [usize; 2],
    pub(crate) align_corners: bool,
    pub(crate) half_pixels: bool,
}

impl Resize {
    /// The two positions between which `at` lies, and how near it is to the second.
    fn between(&self, dim: usize, at: usize, from: usize) -> (usize, usize, f32) {
        let to = self.size[dim];
        let corners = self.align_corners && to > 1;
        let scale =
            if corners { (from - 1) as f32 / (to - 1) as f32 } else { from as f32 / to as f32 };
        let place =
            if self.half_pixels { (at as f32 + 0.5) * scale - 0.5 } else { at as f32 * scale };
        let place = place.clamp(0.0, (from - 1) as f32);
        let first = (place as usize).min(from - 1);
        (first, (first + 1).min(from - 1), place - first as f32)
    }
}

impl Op for Resize {
    fn shape(&mut self, inputs: &[Shape], _: &mut Room) -> Result<Shape, Error> {
        let [batch, height, width, channels] = only(inputs)?.picture()?;
        if height == 0 || width == 0 {
            return Err(MISFIT);
        }
        let out = Shape::of([batch, self.size[0], self.size[1], channels]);
        out.numel()?;
        Ok(out)
    }

    fn run(&self, cx: &mut Cx<'_>, inputs: &[Input<'_>], out: &mut [u8]) -> Result<(), Error> {
        let input = only(inputs)?;
        let [_, height, width, channels] = input.shape.picture()?;
        let (x, out) = (input.data::<f32>()?, elements::<f32>(out)?);
        if channels == 0 {
            return Ok(());
        }
        let [rows, cols] = self.size;
        for (pixel, to) in out.chunks_exact_mut(channels).enumerate() {
            let (item, row, col) = (pixel / (rows * cols), pixel / cols % rows, pixel % cols);
            let (top, bottom, down) = self.between(0, row, height);
            let (left, right, aside) = self.between(1, col, width);
            let at = |y: usize, at: usize| {
                &x[((item * height + y) * width + at) * channels..][..channels]
            };
            let corners = [at(top, left), at(top, right), at(bottom, left), at(bottom, right)];
            cx.isa.call(|| {
                for (channel, to) in to.iter_mut().enumerate() {
                    let [a, b, c, d] = corners.map(|corner| corner[channel]);
                    let (upper, lower) = (a + (b - a) * aside, c + (d - c) * aside);
                    *to = upper + (lower - upper) * down;
                }
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::trial;

    fn places() -> ArgMaxPool {
        ArgMaxPool { window: trial::window([2, 3]) }
    }

    #[test]
    fn the_place_of_the_largest_is_that_of_nan() {
        for at in 0..6 {
            let mut x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
            x[at] = f32::NAN;
            let shape = Shape::of([1, 2, 3, 1]);
            let (place, _) = trial::run(&mut places(), &x, shape, -1_i32, 1);
            assert_eq!(place, [[0, 2, 4, 1, 3, 5][at]]);
        }
    }

    #[test]
    fn places_are_counted_column_by_column() {
        // Of equal numbers it is the first one.
        for (x, expected) in [
            ([0.0_f32, 0.0, 7.0, 0.0, 0.0, 0.0], 4),
            ([0.0, 0.0, 7.0, 7.0, 0.0, 0.0], 1),
            ([-1.0, -1.0, -1.0, -1.0, -1.0, -1.0], 0),
        ] {
            let shape = Shape::of([1, 2, 3, 1]);
            let (place, _) = trial::run(&mut places(), &x, shape, -1_i32, 1);
            assert_eq!(place, [expected], "{x:?}");
        }
    }
}
