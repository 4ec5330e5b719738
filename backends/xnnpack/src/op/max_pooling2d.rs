//! 2-D max pooling of NHWC images, f32 and int8.

use std::marker::PhantomData;

use afferent_core::{Element, Error};
use afferent_simd::{
    Float, Isa, Mask, Routine, Simd,
    parallel::{self, Grain},
};

use super::unary::clamp_slice;
use crate::{
    error::SHAPE_MISMATCH,
    memory::MemoryBudget,
    operator::{Input, Operator, RunContext, output_as, unary_input},
    shape::Shape,
    window::Window,
};

/// Minimum work of a task, in comparisons.
const GRAIN: Grain = Grain::from_macs(1 << 18);

/// Element type of max pooling.
pub(crate) trait MaxElement: Element {
    /// Pools all channels of one window. NaN is the maximum.
    fn pool<S: Simd>(simd: S, image: Image<'_, Self>, taps: Taps<'_>, out: &mut [Self]);

    fn clamp_all(isa: Isa, clamp: (f32, f32), data: &mut [Self]);
}

/// An image, and its rows, columns and channels.
#[derive(Clone, Copy)]
pub(crate) struct Image<'x, T> {
    x: &'x [T],
    sizes: [usize; 3],
}

/// The window of one output row and column.
#[derive(Clone, Copy)]
pub(crate) struct Taps<'w> {
    window: &'w Window,
    at: [usize; 2],
}

impl Taps<'_> {
    /// Calls `f` with the index of the first channel of each pixel of the window.
    #[inline(always)]
    fn for_each(self, [height, width, channels]: [usize; 3], mut f: impl FnMut(usize)) {
        let Self { window, at } = self;
        for i in 0..window.kernel[0] {
            let Some(row) = window.input_index(0, at[0], i, height) else { continue };
            for j in 0..window.kernel[1] {
                let Some(col) = window.input_index(1, at[1], j, width) else { continue };
                f((row * width + col) * channels);
            }
        }
    }
}

impl MaxElement for f32 {
    fn clamp_all(isa: Isa, clamp: (f32, f32), data: &mut [Self]) {
        clamp_slice(isa, clamp, data);
    }

    #[inline(always)]
    fn pool<S: Simd>(simd: S, image: Image<'_, Self>, taps: Taps<'_>, out: &mut [Self]) {
        let mut channel = 0;
        while channel + 4 * S::LANES <= out.len() {
            pool_vectors::<S, 4>(simd, image, taps, channel, &mut out[channel..][..4 * S::LANES]);
            channel += 4 * S::LANES;
        }
        while channel < out.len() {
            let end = out.len().min(channel + S::LANES);
            pool_vectors::<S, 1>(simd, image, taps, channel, &mut out[channel..end]);
            channel = end;
        }
    }
}

/// Pools `V` vectors of channels of one window, or a part of one vector, from `channel` on.
#[inline(always)]
fn pool_vectors<S: Simd, const V: usize>(
    simd: S,
    image: Image<'_, f32>,
    taps: Taps<'_>,
    channel: usize,
    out: &mut [f32],
) {
    let mut max = [simd.splat(f32::NEG_INFINITY); V];
    // False in the lanes that met NaN, which `max` ignores.
    let mut is_number = [simd.zero().eq(simd.zero()); V];
    let len = out.len();
    taps.for_each(image.sizes, |at| {
        let from = &image.x[at + channel..][..len];
        for v in 0..V {
            let from = &from[v * S::LANES..];
            let x = if V > 1 { simd.load(from) } else { simd.load_partial(from) };
            max[v] = x.max(max[v]);
            is_number[v] = is_number[v] & x.eq(x);
        }
    });
    for v in 0..V {
        let value = is_number[v].select(max[v], simd.splat(f32::NAN));
        let to = &mut out[v * S::LANES..];
        if V > 1 { simd.store(value, to) } else { simd.store_partial(value, to) }
    }
}

impl MaxElement for i8 {
    #[inline(always)]
    fn pool<S: Simd>(_: S, image: Image<'_, Self>, taps: Taps<'_>, out: &mut [Self]) {
        let done = pool_channels::<64>(image, taps, out, 0);
        let done = pool_channels::<8>(image, taps, out, done);
        pool_channels::<1>(image, taps, out, done);
    }

    fn clamp_all(isa: Isa, (low, high): (f32, f32), data: &mut [Self]) {
        let [low, high] = [low, high].map(|bound| bound.clamp(-128.0, 127.0) as Self);
        if (low, high) != (Self::MIN, Self::MAX) {
            isa.call(|| data.iter_mut().for_each(|x| *x = (*x).clamp(low, high.max(low))));
        }
    }
}

pub(crate) struct MaxPooling2d<T> {
    window: Window,
    /// In quantized units for int8.
    clamp: (f32, f32),
    element: PhantomData<T>,
}

impl<T> MaxPooling2d<T> {
    pub(crate) fn new(window: Window, clamp: (f32, f32)) -> Self {
        Self { window, clamp, element: PhantomData }
    }
}

impl<T: MaxElement> Operator for MaxPooling2d<T> {
    fn reshape(&mut self, inputs: &[Shape], _: &mut MemoryBudget) -> Result<Shape, Error> {
        self.window.pooled_shape(*unary_input(inputs)?)
    }

    fn run(
        &self,
        cx: &mut RunContext<'_>,
        inputs: &[Input<'_>],
        out: &mut [u8],
    ) -> Result<(), Error> {
        let input = unary_input(inputs)?;
        let (x, out) = (input.data::<T>()?, output_as::<T>(out)?);
        let to = self.window.pooled_shape(*input.shape)?;
        if x.len() != input.shape.numel()? || out.len() != to.numel()? {
            return Err(SHAPE_MISMATCH);
        }
        if out.is_empty() {
            return Ok(());
        }
        let ([_, height, width, channels], [_, rows, cols, _]) = (input.shape.nhwc()?, to.nhwc()?);
        let row_len = cols * channels;
        let comparisons = out.len().saturating_mul(self.window.taps());
        let parts = GRAIN.tasks(comparisons, parallel::threads(cx.workers));
        let part_rows = (out.len() / row_len).div_ceil(parts);
        parallel::for_each_chunk(cx.workers, out, part_rows * row_len, |part, out| {
            let image = [height, width, channels];
            let (window, first) = (&self.window, part * part_rows);
            cx.isa.run(PoolRows { window, x, image, size: [rows, cols], first, out });
            T::clamp_all(cx.isa, self.clamp, out);
        });
        Ok(())
    }
}

/// Pools consecutive output rows of a batch, from row `first` on.
struct PoolRows<'r, T> {
    window: &'r Window,
    x: &'r [T],
    /// Input rows, columns and channels.
    image: [usize; 3],
    /// Output rows and columns.
    size: [usize; 2],
    first: usize,
    out: &'r mut [T],
}

impl<T: MaxElement> Routine for PoolRows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { window, x, image, size: [rows, cols], first, out } = self;
        let channels = image[2];
        for (row, out) in (first..).zip(out.chunks_exact_mut(cols * channels)) {
            let x = &x[row / rows * image.iter().product::<usize>()..];
            for (col, out) in out.chunks_exact_mut(channels).enumerate() {
                let taps = Taps { window, at: [row % rows, col] };
                T::pool(simd, Image { x, sizes: image }, taps, out);
            }
        }
    }
}

/// Pools one window, `N` channels at a time from channel `start` on. Returns the first channel that
/// remains.
#[inline(always)]
fn pool_channels<const N: usize>(
    image: Image<'_, i8>,
    taps: Taps<'_>,
    out: &mut [i8],
    start: usize,
) -> usize {
    let mut channel = start;
    while let Some(out) = out[channel..].first_chunk_mut::<N>() {
        let mut max = [i8::MIN; N];
        taps.for_each(image.sizes, |at| {
            let from = &image.x[at + channel..][..N];
            max.iter_mut().zip(from).for_each(|(max, x)| *max = (*x).max(*max));
        });
        *out = max;
        channel += N;
    }
    channel
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        subgraph::UNCLAMPED,
        testing::{run, valid_window},
    };

    #[test]
    fn nan_is_the_maximum() {
        for at in 0..6 {
            let mut x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
            x[at] = f32::NAN;
            let mut op = MaxPooling2d::<f32>::new(valid_window([2, 3]), UNCLAMPED);
            assert!(run(&mut op, &x, Shape::of([1, 2, 3, 1]), 0.0_f32, 1).0[0].is_nan());
        }
    }

    #[test]
    fn floats_match_integers() {
        for channels in [1, 3, 8, 16, 17, 64, 77, 130] {
            let shape = Shape::of([2, 9, 7, channels]);
            let x: Vec<i8> = (0..shape.numel().unwrap()).map(|at| (at * 7919 / 8) as i8).collect();
            let floats: Vec<f32> = x.iter().map(|x| f32::from(*x)).collect();
            let window = Window { padding_before: [1, 2], ..valid_window([3, 4]) };
            let mut op = MaxPooling2d::<i8>::new(window, UNCLAMPED);
            let expected = run(&mut op, &x, shape, 0_i8, 1).0;
            let expected: Vec<f32> = expected.into_iter().map(f32::from).collect();
            let mut op = MaxPooling2d::<f32>::new(window, UNCLAMPED);
            assert_eq!(run(&mut op, &floats, shape, f32::NAN, 1).0, expected, "{channels}");
        }
    }

    #[test]
    fn each_channel_has_the_maximum_of_its_window() {
        let window = Window {
            kernel: [3, 2],
            stride: [2, 1],
            dilation: [1, 2],
            padding_before: [1, 1],
            padding_after: [1, 0],
        };
        let [batch, height, width] = [3, 37, 29];
        for channels in [1, 9, 64, 77, 130] {
            let shape = Shape::of([batch, height, width, channels]);
            let x: Vec<i8> = (0..shape.numel().unwrap()).map(|at| (at * 7919 / 8) as i8).collect();
            let expected = |clamp: (i8, i8)| {
                let [rows, cols] = window.output_size([height, width]).unwrap();
                let mut all = Vec::new();
                for at in 0..batch * rows * cols * channels {
                    let (pixel, channel) = (at / channels, at % channels);
                    let image = pixel / cols / rows;
                    let (row, col) = (pixel / cols % rows, pixel % cols);
                    let taps = (0..3).flat_map(|i| (0..2).map(move |j| (i, j)));
                    let max = taps.filter_map(|(i, j)| {
                        let y = window.input_index(0, row, i, height)?;
                        let at = window.input_index(1, col, j, width)?;
                        Some(x[((image * height + y) * width + at) * channels + channel])
                    });
                    all.push(max.max().unwrap_or(i8::MIN).clamp(clamp.0, clamp.1));
                }
                all
            };
            for clamp in [(i8::MIN, i8::MAX), (-90, 100)] {
                for threads in [1, 2] {
                    let range = (f32::from(clamp.0), f32::from(clamp.1));
                    let mut op = MaxPooling2d::<i8>::new(window, range);
                    let found = run(&mut op, &x, shape, 0_i8, threads).0;
                    assert!(found == expected(clamp), "{channels} channels, {threads} threads");
                }
            }
        }
    }
}
