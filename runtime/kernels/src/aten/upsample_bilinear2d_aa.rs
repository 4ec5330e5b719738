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
    let (planes, strides) = plane_loops(&x, &out, 2)?;
    let (x, mut out) = (Reader::<A>::new(x, 0)?, Writer::new(&mut out, 5)?);
    let vertical = Filter::<A>::new(height, rows, align_corners, scales[0]);
    let horizontal = Filter::<A>::new(width, columns, align_corners, scales[1]);
    planes.for_each([0, 0], |[from, to]| {
        for row in 0..rows {
            let (in_rows, row_weights) = vertical.window(row);
            for column in 0..columns {
                let (in_columns, column_weights) = horizontal.window(column);
                let mut sum = A::default();
                for in_row in in_rows.clone() {
                    let mut row_sum = A::default();
                    for in_column in in_columns.clone() {
                        let offset = in_row * strides.from[1] + in_column * strides.from[2];
                        let weight = horizontal.weight(column, in_column);
                        row_sum = row_sum + x.get(from + offset) * weight;
                    }
                    sum = sum + row_sum * vertical.weight(row, in_row);
                }
                let to = to + row * strides.to[1] + column * strides.to[2];
                out.set(to, sum / (row_weights * column_weights));
            }
        }
    });
    Ok(())
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
    fn unchanged_size_is_copied() {
        let nan = f32::NAN;
        let data = [1.0_f32, nan, f32::INFINITY];
        check(&Tensor::new(&[1, 1, 1, 3], &data).unwrap(), [1, 3], &data);
        let x = Tensor::new(&[1, 1, 2, 2], &[1.0_f32, 1.0, nan, nan]).unwrap();
        check(&x, [2, 1], &[1.0, nan]);
    }
}
