//! `aten::upsample_bilinear2d.vec_out`: image resize with bilinear interpolation.
//!
//! | argument        | type                  | shape            |
//! |-----------------|-----------------------|------------------|
//! | `input`         | floating-point tensor | `[n, c, h, w]`   |
//! | `output_size`   | optional 2 ints       |                  |
//! | `align_corners` | bool                  |                  |
//! | `scale_factors` | optional 2 doubles    |                  |
//! | `out`           | as `input`            | `[n, c, h', w']` |
//!
//! Exactly one of `output_size` and `scale_factors` is given. The source coordinate of output `i`
//! is `(i + ½) · scale - ½`, at least 0, where `scale` is `1 / scale_factor` or `h / h'`; with
//! `align_corners` it is `i · (h - 1) / (h' - 1)`. In a dimension that keeps its size it is `i`. As
//! in ATen on the CPU, pixel `i` then has weight 1 and again weight 0: infinity becomes NaN. Half
//! types are computed in `f32`. Tolerance: 1e-5 relative.
//! Errors: an empty image, other ranks or dtypes. Source: ATen `upsample_bilinear2d`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::{Float, check_dtype, with_float_accumulator},
    elements::{Reader, Writer},
    pooling::{plane_loops, with_spatial_sizes},
    upsample::OutputSize,
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::upsample_bilinear2d.vec_out",
    &[Arg::Tensor, Arg::OptIntList, Arg::Bool, Arg::OptDoubleList, Arg::Out],
    upsample_bilinear2d_out,
)];

fn upsample_bilinear2d_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    check_dtype(args.out(4)?.dtype(), dtype, 4)?;
    with_float_accumulator!(dtype, 0, A => upsample_bilinear2d::<A>(args))
}

fn upsample_bilinear2d<A: Float>(args: &mut Args<'_>) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let &[_, _, height, width] = x.sizes() else {
        return Err(Error::InvalidArgument { index: 0, expected: "a tensor [n, c, h, w]" });
    };
    let (target, align_corners) = (OutputSize::new(args, 3)?, args.bool(2)?);
    let mut out = args.out(4)?;
    out.resize(&with_spatial_sizes(x.sizes(), [1, target.sizes[0], target.sizes[1]], 2)?)?;
    let (planes, strides) = plane_loops(&x, &out, 2)?;
    let (x, mut out) = (Reader::<A>::new(x, 0)?, Writer::new(&mut out, 4)?);
    let vertical = Interpolation::new(&target, 0, height, align_corners);
    let horizontal = Interpolation::new(&target, 1, width, align_corners);
    planes.for_each([0, 0], |[from, to]| {
        for row in 0..target.sizes[0] {
            let (top, bottom, bottom_weight) = vertical.source(row);
            let (top, bottom) = (from + top * strides.from[1], from + bottom * strides.from[1]);
            for column in 0..target.sizes[1] {
                let (left, right, right_weight) = horizontal.source(column);
                let (left, right) = (left * strides.from[2], right * strides.from[2]);
                let upper = lerp(x.get(top + left), x.get(top + right), right_weight);
                let lower = lerp(x.get(bottom + left), x.get(bottom + right), right_weight);
                let to = to + row * strides.to[1] + column * strides.to[2];
                out.set(to, lerp(upper, lower, bottom_weight));
            }
        }
    });
    Ok(())
}

/// Linear interpolation from `a` to `b`.
fn lerp<A: Float>(a: A, b: A, weight: A) -> A {
    (A::ONE - weight) * a + weight * b
}

/// Mapping of output pixels to input pixels in one dimension.
struct Interpolation<A> {
    size: usize,
    out_size: usize,
    /// Input pixels per output pixel.
    scale: A,
    /// Offset of a pixel center: ½, or 0 with aligned corners.
    half: A,
}

impl<A: Float> Interpolation<A> {
    fn new(target: &OutputSize, dim: usize, size: usize, align_corners: bool) -> Self {
        let (scale, half) = if !align_corners {
            (target.scale(dim, size), A::from_double(0.5))
        } else if target.sizes[dim] > 1 {
            let intervals = A::from_double((target.sizes[dim] - 1) as f64);
            (A::from_double((size - 1) as f64) / intervals, A::default())
        } else {
            (A::default(), A::default())
        };
        Self { size, out_size: target.sizes[dim], scale, half }
    }

    /// The two input pixels around output pixel `at`, and the weight of the second one.
    fn source(&self, at: usize) -> (usize, usize, A) {
        if self.out_size == self.size {
            return (at, at, A::default());
        }
        let position = (A::from_double(at as f64) + self.half) * self.scale - self.half;
        let position = if position > A::default() { position } else { A::default() };
        let first = (position.to_double() as usize).min(self.size - 1);
        let weight = position - A::from_double(first as f64);
        let weight = if weight < A::ONE { weight } else { A::ONE };
        (first, (first + 1).min(self.size - 1), weight)
    }
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor};

    use super::*;

    #[track_caller]
    fn check(
        x: &Tensor,
        [sizes, factors]: [Argument<'_>; 2],
        align_corners: bool,
        expected: &[f32],
    ) {
        let mut out = Tensor::zeros(ScalarType::Float, &[0, 0, 0, 0]);
        let mut arguments = [
            Argument::Tensor(x),
            sizes,
            Argument::Scalar(Scalar::Bool(align_corners)),
            factors,
            Argument::Out(&mut out),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        // Compared as text, where NaN equals NaN.
        assert_eq!(format!("{:?}", out.data::<f32>().unwrap()), format!("{expected:?}"));
    }

    #[test]
    fn values() {
        let x = Tensor::new(&[1, 1, 1, 2], &[0.0_f32, 4.0]).unwrap();
        let size = |width| [Argument::Ints(vec![1, width]), Argument::None];
        check(&x, size(4), false, &[0.0, 1.0, 3.0, 4.0]);
        check(&x, size(5), true, &[0.0, 1.0, 2.0, 3.0, 4.0]);
        check(&x, size(1), true, &[0.0]);
    }

    #[test]
    fn unchanged_size_is_not_interpolated() {
        let nan = f32::NAN;
        let x = Tensor::new(&[1, 1, 1, 3], &[0.0_f32, 1.0, 2.0]).unwrap();
        let factors = Argument::Doubles(vec![1.0, 1.3]);
        check(&x, [Argument::None, factors], false, &[0.0, 1.0, 2.0]);
        for align_corners in [false, true] {
            let x = Tensor::new(&[1, 1, 1, 3], &[1.0_f32, nan, f32::INFINITY]).unwrap();
            let same = Argument::Ints(vec![1, 3]);
            check(&x, [same, Argument::None], align_corners, &[1.0, nan, nan]);
            let x = Tensor::new(&[1, 1, 2, 1], &[1.0_f32, nan]).unwrap();
            let wider = Argument::Ints(vec![2, 2]);
            check(&x, [wider, Argument::None], align_corners, &[1.0, 1.0, nan, nan]);
        }
    }
}
