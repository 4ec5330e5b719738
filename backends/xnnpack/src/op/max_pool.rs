//! The largest element in each window of a picture.

use std::marker::PhantomData;

use afferent_core::{Element, Error, Workers};
use afferent_simd::{Isa, Routine, Simd, parallel};

use super::{Cx, Input, Op, elements, only, unary::bound};
use crate::shape::{MISFIT, Room, Shape, Window};

/// The least comparisons that are worth another thread.
const WORTH: usize = 1 << 18;

/// What can be compared.
pub(crate) trait Number: Element {
    /// What a window has that lies beside the picture.
    const LEAST: Self;

    /// The larger of two; NaN if one of them is.
    fn larger(self, other: Self) -> Self;

    /// Keeps numbers within bounds.
    fn bound(isa: Isa, clamp: (f32, f32), numbers: &mut [Self]);
}

impl Number for f32 {
    const LEAST: Self = Self::NEG_INFINITY;

    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        if self > other || self.is_nan() { self } else { other }
    }

    fn bound(isa: Isa, clamp: (f32, f32), numbers: &mut [Self]) {
        bound(isa, clamp, numbers);
    }
}

impl Number for i8 {
    const LEAST: Self = Self::MIN;

    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        self.max(other)
    }

    fn bound(isa: Isa, (low, high): (f32, f32), numbers: &mut [Self]) {
        let [low, high] = [low, high].map(|bound| bound.clamp(-128.0, 127.0) as Self);
        if (low, high) != (Self::MIN, Self::MAX) {
            isa.call(|| numbers.iter_mut().for_each(|x| *x = (*x).clamp(low, high.max(low))));
        }
    }
}

/// A pool of numbers of one type.
pub(crate) struct MaxPool<T> {
    window: Window,
    clamp: (f32, f32),
    of: PhantomData<T>,
}

impl<T> MaxPool<T> {
    pub(crate) fn new(window: Window, clamp: (f32, f32)) -> Self {
        Self { window, clamp, of: PhantomData }
    }
}

impl<T: Number> Op for MaxPool<T> {
    fn shape(&mut self, inputs: &[Shape], _: &mut Room) -> Result<Shape, Error> {
        self.window.pooled(*only(inputs)?)
    }

    fn run(&self, cx: &mut Cx<'_>, inputs: &[Input<'_>], out: &mut [u8]) -> Result<(), Error> {
        let input = only(inputs)?;
        let (x, out) = (input.data::<T>()?, elements::<T>(out)?);
        let to = self.window.pooled(*input.shape)?;
        if x.len() != input.shape.numel()? || out.len() != to.numel()? {
            return Err(MISFIT);
        }
        if out.is_empty() {
            return Ok(());
        }
        let ([_, height, width, channels], [_, rows, cols, _]) =
            (input.shape.picture()?, to.picture()?);
        let line = cols * channels;
        let work = out.len().saturating_mul(self.window.taps());
        let pieces = cx.workers.map_or(1, Workers::threads).min(work / WORTH).max(1);
        let share = (out.len() / line).div_ceil(pieces);
        parallel::for_each_chunk(cx.workers, out, share * line, |piece, out| {
            let picture = [height, width, channels];
            let (window, first) = (&self.window, piece * share);
            cx.isa.run(Lines { window, x, picture, size: [rows, cols], first, out });
            T::bound(cx.isa, self.clamp, out);
        });
        Ok(())
    }
}

/// Rows of the results of pictures that follow each other, from row `first` on.
struct Lines<'r, T> {
    window: &'r Window,
    x: &'r [T],
    /// Rows, columns and channels.
    picture: [usize; 3],
    /// Rows and columns of a result.
    size: [usize; 2],
    first: usize,
    out: &'r mut [T],
}

impl<T: Number> Routine for Lines<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { window, x, picture, size: [rows, cols], first, out } = self;
        let channels = picture[2];
        for (line, out) in (first..).zip(out.chunks_exact_mut(cols * channels)) {
            let x = &x[line / rows * picture.iter().product::<usize>()..];
            for (col, out) in out.chunks_exact_mut(channels).enumerate() {
                let at = [line % rows, col];
                let done = blocks::<T, 64>(window, (x, picture), at, out, 0);
                let done = blocks::<T, 8>(window, (x, picture), at, out, done);
                blocks::<T, 1>(window, (x, picture), at, out, done);
            }
        }
    }
}

/// The largest in one window, of `B` channels at a time, from channel `start` on; the first channel
/// that is left.
#[inline(always)]
fn blocks<T: Number, const B: usize>(
    window: &Window,
    (x, [height, width, channels]): (&[T], [usize; 3]),
    at: [usize; 2],
    out: &mut [T],
    start: usize,
) -> usize {
    let mut channel = start;
    while let Some(out) = out[channel..].first_chunk_mut::<B>() {
        let mut best = [T::LEAST; B];
        for i in 0..window.kernel[0] {
            let Some(row) = window.source(0, at[0], i, height) else { continue };
            for j in 0..window.kernel[1] {
                let Some(col) = window.source(1, at[1], j, width) else { continue };
                let from = &x[(row * width + col) * channels + channel..][..B];
                best.iter_mut().zip(from).for_each(|(best, x)| *best = x.larger(*best));
            }
        }
        *out = best;
        channel += B;
    }
    channel
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{graph::OPEN, op::trial};

    #[test]
    fn the_largest_is_nan_where_a_number_is() {
        for at in 0..6 {
            let mut x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
            x[at] = f32::NAN;
            let mut pool = MaxPool::<f32>::new(trial::window([2, 3]), OPEN);
            let shape = Shape::of([1, 2, 3, 1]);
            assert!(trial::run(&mut pool, &x, shape, 0.0_f32, 1).0[0].is_nan());
        }
    }

    #[test]
    fn every_channel_has_the_largest_of_its_window() {
        let window = Window {
            kernel: [3, 2],
            stride: [2, 1],
            dilation: [1, 2],
            before: [1, 1],
            after: [1, 0],
        };
        let [batch, height, width] = [3, 37, 29];
        for channels in [1, 9, 64, 77, 130] {
            let shape = Shape::of([batch, height, width, channels]);
            let x: Vec<i8> = (0..shape.numel().unwrap()).map(|at| (at * 7919 / 8) as i8).collect();
            let expected = |clamp: (i8, i8)| {
                let [rows, cols] = window.output([height, width]).unwrap();
                let mut all = Vec::new();
                for at in 0..batch * rows * cols * channels {
                    let (pixel, channel) = (at / channels, at % channels);
                    let (item, row, col) = (pixel / cols / rows, pixel / cols % rows, pixel % cols);
                    let taps = (0..3).flat_map(|i| (0..2).map(move |j| (i, j)));
                    let largest = taps.filter_map(|(i, j)| {
                        let y = window.source(0, row, i, height)?;
                        let at = window.source(1, col, j, width)?;
                        Some(x[((item * height + y) * width + at) * channels + channel])
                    });
                    all.push(largest.max().unwrap_or(i8::MIN).clamp(clamp.0, clamp.1));
                }
                all
            };
            for clamp in [(i8::MIN, i8::MAX), (-90, 100)] {
                for threads in [1, 2] {
                    let bounds = (f32::from(clamp.0), f32::from(clamp.1));
                    let mut pool = MaxPool::<i8>::new(window, bounds);
                    let found = trial::run(&mut pool, &x, shape, 0_i8, threads).0;
                    assert!(found == expected(clamp), "{channels} channels, {threads} threads");
                }
            }
        }
    }
}
