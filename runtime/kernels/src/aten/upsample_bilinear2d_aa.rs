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
    _cx: &mut KernelContext<'_>,
    args: &mut Args<'_>,
) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    check_dtype(args.out(5)?.dtype(), dtype, 5)?;
    with_float_accumulator!(dtype, 0, A => upsample::<A>(args))
}

fn upsample<A: Float>(args: &mut Args<'_>) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let invalid = |index, expected| Error::InvalidArgument { index, expected };
    let &[_, _, height, width] = x.sizes() else {
        return Err(invalid(0, "a batch of pictures"));
    };
    let sizes = args.int_list(1)?.to_dims().ok_or(invalid(1, "a height and a width"))?;
    let &[rows, columns] = &*sizes else { return Err(invalid(1, "a height and a width")) };
    if [height, width, rows, columns].contains(&0) {
        return Err(invalid(0, "sizes that give a non-empty output"));
    }
    let (aligned, scales) = (args.bool(2)?, [args.opt_double(3)?, args.opt_double(4)?]);
    let mut out = args.out(5)?;
    out.resize(&with_spatial_sizes(x.sizes(), [1, rows, columns], 2)?)?;
    let (pictures, steps) = plane_loops(&x, &out, 2)?;
    let (x, mut out) = (Reader::<A>::new(x, 0)?, Writer::new(&mut out, 5)?);
    let vertical = Filter::<A>::new(height, rows, aligned, scales[0]);
    let horizontal = Filter::<A>::new(width, columns, aligned, scales[1]);
    pictures.for_each([0, 0], |[from, to]| {
        for row in 0..rows {
            let (high, high_total) = vertical.range(row);
            for column in 0..columns {
                let (wide, wide_total) = horizontal.range(column);
                let mut sum = A::default();
                for y in high.clone() {
                    let mut line = A::default();
                    for column_at in wide.clone() {
                        let pixel = x.get(from + y * steps.from[1] + column_at * steps.from[2]);
                        line = line + pixel * horizontal.share(column, column_at);
                    }
                    sum = sum + line * vertical.share(row, y);
                }
                let to = to + row * steps.to[1] + column * steps.to[2];
                out.set(to, sum / (high_total * wide_total));
            }
        }
    });
    Ok(())
}

/// The triangle along one dimension.
struct Filter<A> {
    size: usize,
    step: A,
    /// Half the width of the triangle, in pixels.
    reach: A,
}

impl<A: Float> Filter<A> {
    fn new(size: usize, results: usize, aligned: bool, scale: Option<f64>) -> Self {
        let n = |value: usize| A::from_double(value as f64);
        let step = match scale.filter(|&scale| scale > 0.0) {
            // A size that stays is not filtered, whatever the scale.
            _ if size == results => A::ONE,
            _ if aligned && results > 1 => n(size - 1) / n(results - 1),
            _ if aligned => A::default(),
            Some(scale) => A::from_double(1.0 / scale),
            None => n(size) / n(results),
        };
        let reach = if size == results {
            // The triangle covers no pixel but its own.
            A::from_double(0.5)
        } else if step > A::ONE {
            step
        } else {
            A::ONE
        };
        Self { size, step, reach }
    }

    fn center(&self, at: usize) -> A {
        (A::from_double(at as f64) + A::from_double(0.5)) * self.step
    }

    /// The pixels under the triangle of result `at`, and the sum of their shares.
    fn range(&self, at: usize) -> (Range<usize>, A) {
        let (center, half) = (self.center(at), A::from_double(0.5));
        let pixel = |place: A| (place.to_double() as usize).min(self.size);
        let range = pixel(center - self.reach + half)..pixel(center + self.reach + half);
        let total = range.clone().fold(A::default(), |total, x| total + self.share(at, x));
        // Nothing lies under the triangle when the scale contradicts the sizes.
        (range, if total == A::default() { A::ONE } else { total })
    }

    /// The share of the pixel `x` in result `at`.
    fn share(&self, at: usize, x: usize) -> A {
        let distance = A::from_double(x as f64) - self.center(at) + A::from_double(0.5);
        let share = A::ONE - distance.abs() / self.reach;
        if share > A::default() { share } else { A::default() }
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
        // As text, in which every NaN is the same.
        assert_eq!(format!("{:?}", out.data::<f32>().unwrap()), format!("{expected:?}"));
    }

    #[test]
    fn downscale_by_two() {
        let x = Tensor::new(&[1, 1, 1, 4], &[0.0_f32, 7.0, 7.0, 14.0]).unwrap();
        // Shares ¾, ¾, ¼ of the first three pixels, and the mirror image.
        check(&x, [1, 2], &[4.0, 10.0]);
    }

    #[test]
    fn unchanged_size_is_copied() {
        let nan = f32::NAN;
        let special = [1.0_f32, nan, f32::INFINITY];
        check(&Tensor::new(&[1, 1, 1, 3], &special).unwrap(), [1, 3], &special);
        let x = Tensor::new(&[1, 1, 2, 2], &[1.0_f32, 1.0, nan, nan]).unwrap();
        check(&x, [2, 1], &[1.0, nan]);
    }
}
