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
//! Scratch: indices and weights of the columns, an input row and three output rows.
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

fn upsample_bilinear2d_out(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    check_dtype(args.out(4)?.dtype(), dtype, 4)?;
    with_float_accumulator!(dtype, 0, A => upsample_bilinear2d::<A>(cx, args))
}

fn upsample_bilinear2d<A: Float>(
    cx: &mut KernelContext<'_>,
    args: &mut Args<'_>,
) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let &[_, _, height, width] = x.sizes() else {
        return Err(Error::InvalidArgument { index: 0, expected: "a tensor [n, c, h, w]" });
    };
    let (target, align_corners) = (OutputSize::new(args, 3)?, args.bool(2)?);
    let [rows, columns] = target.sizes;
    let mut out = args.out(4)?;
    out.resize(&with_spatial_sizes(x.sizes(), [1, rows, columns], 2)?)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let (planes, strides) = plane_loops(&x, &out, 2)?;
    let overflow = Error::OutOfResources { bytes: usize::MAX };
    let len = columns.checked_mul(6).and_then(|len| len.checked_add(width)).ok_or(overflow)?;
    let (pixels, numbers) = cx.scratch::<u64>(len)?.split_at_mut(2 * columns);
    let horizontal = Interpolation::new(&target, 1, width, align_corners);
    let mut scratch =
        Scratch::<A>::new(pixels, bytemuck::cast_slice_mut(numbers), (columns, width));
    scratch.fill_pixels(&horizontal);
    let vertical = Interpolation::new(&target, 0, height, align_corners);
    let (x, mut out) = (Reader::<A>::new(x, 0)?, Writer::new(&mut out, 4)?);
    planes.for_each([0, 0], |[from, to]| {
        let mut cached = [None; 2];
        for row in 0..rows {
            let (top, bottom, weight) = vertical.source(row);
            if cached[0] != Some(top) && cached[1] == Some(top) {
                cached.swap(0, 1);
                scratch.rows.swap(0, 1);
            }
            for (at, needed) in [top, bottom].into_iter().enumerate() {
                if cached[at] != Some(needed) {
                    scratch.interpolate(at, &x, from + needed * strides.from[1], strides.from[2]);
                    cached[at] = Some(needed);
                }
            }
            let ([upper, lower], to) = (&scratch.rows, to + row * strides.to[1]);
            let blend = |result: &mut [A]| {
                for ((result, &upper), &lower) in result.iter_mut().zip(&**upper).zip(&**lower) {
                    *result = lerp(upper, lower, weight);
                }
            };
            match out.slice_mut(to, columns).filter(|_| strides.to[2] == 1) {
                Some(result) => blend(result),
                None => {
                    blend(scratch.result);
                    out.write(to, strides.to[2], scratch.result);
                }
            }
        }
    });
    Ok(())
}

/// Scratch memory: horizontal interpolation of output columns, and rows.
struct Scratch<'s, A> {
    /// The two input pixels around each output column.
    pixels: [&'s mut [u64]; 2],
    /// Weights of the second ones.
    weights: &'s mut [A],
    /// Two input rows, interpolated horizontally.
    rows: [&'s mut [A]; 2],
    /// Row of the output.
    result: &'s mut [A],
    /// Row of the input.
    source: &'s mut [A],
}

impl<'s, A: Float> Scratch<'s, A> {
    fn new(pixels: &'s mut [u64], numbers: &'s mut [A], (columns, width): (usize, usize)) -> Self {
        let (left, right) = pixels.split_at_mut(columns);
        let (weights, rest) = numbers.split_at_mut(columns);
        let (upper, rest) = rest.split_at_mut(columns);
        let (lower, rest) = rest.split_at_mut(columns);
        let (result, rest) = rest.split_at_mut(columns);
        let source = &mut rest[..width];
        Self { pixels: [left, right], weights, rows: [upper, lower], result, source }
    }

    fn fill_pixels(&mut self, horizontal: &Interpolation<A>) {
        let [left, right] = &mut self.pixels;
        let pixels = left.iter_mut().zip(&mut **right).zip(&mut *self.weights);
        for (column, ((left, right), weight)) in pixels.enumerate() {
            let (first, second, second_weight) = horizontal.source(column);
            (*left, *right, *weight) = (first as u64, second as u64, second_weight);
        }
    }

    /// Writes the row of `x` at offset `from` to row `at`, interpolated horizontally.
    fn interpolate(&mut self, at: usize, x: &Reader<'_, A>, from: usize, stride: usize) {
        let source = match x.slice(from, self.source.len()).filter(|_| stride == 1) {
            Some(source) => source,
            None => {
                x.read(from, stride, self.source);
                &*self.source
            }
        };
        let [left, right] = &self.pixels;
        let pixels = left.iter().zip(&**right).zip(&*self.weights);
        for (result, ((&left, &right), &weight)) in self.rows[at].iter_mut().zip(pixels) {
            *result = lerp(source[left as usize], source[right as usize], weight);
        }
    }
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
        // An empty output of any size takes no memory.
        let empty = Tensor::zeros(ScalarType::Float, &[0, 1, 1, 2]);
        check(&empty, size(1 << 40), false, &[]);
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
