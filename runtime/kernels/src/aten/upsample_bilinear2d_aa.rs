//! `aten::_upsample_bilinear2d_aa.out`: image resize with an antialiasing triangle filter.
//!
//! | argument               | type                  | shape            |
//! |------------------------|-----------------------|------------------|
//! | `self`                 | floating-point tensor | `[n, c, h, w]`   |
//! | `output_size`          | 2 ints                |                  |
//! | `align_corners`        | bool                  |                  |
//! | `scales_h`, `scales_w` | optional double       |                  |
//! | `out`                  | as `self`             | `[n, c, h', w']` |
//!
//! Each output is the mean of the pixels around `(i + ½) · scale`, weighted by a triangle of
//! half-width `max(scale, 1)` pixels. `scale` is `1 / scales_h` or `h / h'`; with `align_corners`
//! it is `(h - 1) / (h' - 1)`. In a dimension that keeps its size, pixels are copied. Half types
//! are computed in `f32`. Tolerance: 1e-4 relative.
//! Scratch: the weights of the columns, and as many filtered rows as the filter is high.
//! Errors: an empty image, other ranks or dtypes. Source: ATen `_upsample_bilinear2d_aa`.

use core::ops::Range;

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::{Float, check_dtype, with_float_accumulator},
    elements::{Reader, Writer},
    pooling::{plane_loops, with_spatial_sizes},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::_upsample_bilinear2d_aa.out",
    &[Arg::Tensor, Arg::IntList, Arg::Bool, Arg::OptDouble, Arg::OptDouble, Arg::Out],
    upsample_bilinear2d_aa_out,
)];

fn upsample_bilinear2d_aa_out(
    cx: &mut KernelContext<'_>,
    args: &mut Args<'_>,
) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    check_dtype(args.out(5)?.dtype(), dtype, 5)?;
    with_float_accumulator!(dtype, 0, A => upsample::<A>(cx, args))
}

fn upsample<A: Float>(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let invalid = |index, expected| Error::InvalidArgument { index, expected };
    let &[_, _, height, width] = x.sizes() else {
        return Err(invalid(0, "a tensor [n, c, h, w]"));
    };
    let sizes = args.int_list(1)?.to_dims().ok_or(invalid(1, "a height and a width"))?;
    let &[rows, columns] = &*sizes else { return Err(invalid(1, "a height and a width")) };
    if [height, width, rows, columns].contains(&0) {
        return Err(invalid(0, "sizes that give a non-empty output"));
    }
    let (align_corners, scales) = (args.bool(2)?, [args.opt_double(3)?, args.opt_double(4)?]);
    let mut out = args.out(5)?;
    out.resize(&with_spatial_sizes(x.sizes(), [1, rows, columns], 2)?)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let (planes, strides) = plane_loops(&x, &out, 2)?;
    let vertical = Filter::<A>::new(height, rows, align_corners, scales[0]);
    let horizontal = Filter::<A>::new(width, columns, align_corners, scales[1]);
    let mut taps = (0..columns).map(|column| horizontal.window(column).0.len());
    let taps = taps.try_fold(0_usize, usize::checked_add);
    let window = (0..rows).map(|row| vertical.window(row).0.len()).max().unwrap_or(0);
    let overflow = Error::OutOfResources { bytes: usize::MAX };
    let (taps, ring_len) = taps.zip(window.checked_mul(columns)).ok_or(overflow)?;
    let lens = [2 * columns, taps, width, columns, ring_len];
    let len = lens.into_iter().try_fold(0_usize, usize::checked_add).ok_or(overflow)?;
    let (windows, numbers) = cx.scratch::<u64>(len)?.split_at_mut(2 * columns);
    let numbers: &mut [A] = bytemuck::cast_slice_mut(numbers);
    let (weights, rest) = numbers.split_at_mut(taps);
    let (source, rest) = rest.split_at_mut(width);
    let (result, ring) = rest.split_at_mut(columns);
    horizontal.fill_windows(windows, weights);
    let (x, mut out) = (Reader::<A>::new(x, 0)?, Writer::new(&mut out, 5)?);
    planes.for_each([0, 0], |[from, to]| {
        // Rows of the input up to this one are filtered horizontally; the last ones are in `ring`.
        let mut done = 0;
        for row in 0..rows {
            let (in_rows, total) = vertical.window(row);
            result.fill(A::default());
            for (nth, in_row) in in_rows.enumerate() {
                let filtered = &mut ring[in_row % window * columns..][..columns];
                if in_row >= done {
                    x.read(from + in_row * strides.from[1], strides.from[2], source);
                    filter_row(source, windows, weights, filtered);
                    done = in_row + 1;
                }
                let weight = vertical.weight(row, in_row) / total;
                for (sum, &x) in result.iter_mut().zip(&*filtered) {
                    *sum = if nth == 0 { x * weight } else { *sum + x * weight };
                }
            }
            out.write(to + row * strides.to[1], strides.to[2], result);
        }
    });
    Ok(())
}

/// Writes the weighted sums of `source` in the windows, each an index and a length, to `filtered`.
fn filter_row<A: Float>(source: &[A], windows: &[u64], mut weights: &[A], filtered: &mut [A]) {
    for (sum, &[start, len]) in filtered.iter_mut().zip(windows.as_chunks::<2>().0) {
        let (window, rest) = weights.split_at(len as usize);
        let products = source[start as usize..].iter().zip(window).map(|(&x, &weight)| x * weight);
        *sum = products.reduce(|a, b| a + b).unwrap_or_default();
        weights = rest;
    }
}

/// Triangle filter in one dimension.
struct Filter<A> {
    /// Input size.
    size: usize,
    /// Input pixels per output pixel.
    scale: A,
    /// Half the width of the triangle, in input pixels.
    half_width: A,
}

impl<A: Float> Filter<A> {
    fn new(size: usize, out_size: usize, align_corners: bool, factor: Option<f64>) -> Self {
        let n = |value: usize| A::from_double(value as f64);
        let scale = match factor.filter(|&factor| factor > 0.0) {
            // An unchanged size is copied for any factor.
            _ if size == out_size => A::ONE,
            _ if align_corners && out_size > 1 => n(size - 1) / n(out_size - 1),
            _ if align_corners => A::default(),
            Some(factor) => A::from_double(1.0 / factor),
            None => n(size) / n(out_size),
        };
        let half_width = if size == out_size {
            // The triangle covers only the pixel at its center.
            A::from_double(0.5)
        } else if scale > A::ONE {
            scale
        } else {
            A::ONE
        };
        Self { size, scale, half_width }
    }

    /// Center of output pixel `at` in input coordinates.
    fn center(&self, at: usize) -> A {
        (A::from_double(at as f64) + A::from_double(0.5)) * self.scale
    }

    /// Input pixels in the window of output pixel `at`, and the sum of their weights.
    fn window(&self, at: usize) -> (Range<usize>, A) {
        let (center, half) = (self.center(at), A::from_double(0.5));
        let pixel = |position: A| (position.to_double() as usize).min(self.size);
        let start = pixel(center - self.half_width + half);
        let range = start..pixel(center + self.half_width + half);
        let total = range.clone().fold(A::default(), |total, x| total + self.weight(at, x));
        // The window is empty if the factor does not match the sizes.
        (range, if total == A::default() { A::ONE } else { total })
    }

    /// Writes the start and the length of the window of each output pixel, and the normalized
    /// weights of its input pixels.
    fn fill_windows(&self, windows: &mut [u64], weights: &mut [A]) {
        let mut weights = weights.iter_mut();
        for (at, window) in windows.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            let (range, total) = self.window(at);
            *window = [range.start as u64, range.len() as u64];
            for (x, weight) in range.zip(&mut weights) {
                *weight = self.weight(at, x) / total;
            }
        }
    }

    /// Weight of input pixel `x` in output pixel `at`.
    fn weight(&self, at: usize, x: usize) -> A {
        let distance = A::from_double(x as f64) - self.center(at) + A::from_double(0.5);
        let weight = A::ONE - distance.abs() / self.half_width;
        if weight > A::default() { weight } else { A::default() }
    }
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor};

    use super::*;

    #[track_caller]
    fn check(x: &Tensor, sizes: [i64; 2], expected: &[f32]) {
        let mut out = Tensor::zeros(ScalarType::Float, &[0, 0, 0, 0]);
        let mut arguments = [
            Argument::Tensor(x),
            Argument::Ints(sizes.to_vec()),
            Argument::Scalar(Scalar::Bool(false)),
            Argument::None,
            Argument::None,
            Argument::Out(&mut out),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        // Compared as text, where NaN equals NaN.
        assert_eq!(format!("{:?}", out.data::<f32>().unwrap()), format!("{expected:?}"));
    }

    #[test]
    fn downscale_by_two() {
        let x = Tensor::new(&[1, 1, 1, 4], &[0.0_f32, 7.0, 7.0, 14.0]).unwrap();
        // Weights ¾, ¾, ¼ for the first three pixels, and mirrored for the last three.
        check(&x, [1, 2], &[4.0, 10.0]);
    }

    #[test]
    fn empty_output_of_any_size_takes_no_time() {
        let x = Tensor::zeros(ScalarType::Float, &[0, 1, 1, 2]);
        check(&x, [1 << 60, 1], &[]);
        check(&x, [1, 1 << 60], &[]);
    }

    #[test]
    fn unchanged_size_is_copied() {
        let nan = f32::NAN;
        let data = [1.0_f32, nan, f32::INFINITY];
        check(&Tensor::new(&[1, 1, 1, 3], &data).unwrap(), [1, 3], &data);
        let x = Tensor::new(&[1, 1, 2, 2], &[1.0_f32, 1.0, nan, nan]).unwrap();
        check(&x, [2, 1], &[1.0, nan]);
    }
}
