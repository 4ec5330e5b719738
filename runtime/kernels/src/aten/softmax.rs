//! `aten::_softmax.out`: softmax along a dimension.
//!
//! | argument        | type                  | shape     |
//! |-----------------|-----------------------|-----------|
//! | `self`          | floating-point tensor | any       |
//! | `dim`           | int                   |           |
//! | `half_to_float` | bool: false           |           |
//! | `out`           | floating-point tensor | as `self` |
//!
//! Computes `exp(x - max) / Σ exp(x - max)`. Half types are computed in `f32`. Tolerance: 1e-6
//! absolute.
//! Scratch: one slice along `dim`.
//! Errors: other dtypes, a `dim` out of range. Source: ATen `_softmax`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::{Float, sum, with_float_accumulator},
    dim_apply::map_slices,
    dim_args::dim_arg,
    simd,
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::_softmax.out",
    &[Arg::Tensor, Arg::Int, Arg::Bool, Arg::Out],
    softmax_out,
)];

fn softmax_out(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let dim = dim_arg(args, 1, x.rank())?;
    if args.bool(2)? {
        return Err(Error::InvalidArgument { index: 2, expected: "false" });
    }
    let mut out = args.out(3)?;
    out.resize(x.sizes())?;
    if let Some((isa, sizes, from, to)) = simd::softmax_operands(&x, dim, &mut out) {
        afferent_simd::softmax::softmax(isa, sizes, from, to);
        return Ok(());
    }
    with_float_accumulator!(out.dtype(), 3, A => {
        with_float_accumulator!(x.dtype(), 0, _B => Ok(()))?;
        map_slices::<A>(cx, x, dim, &mut out, 3, softmax)
    })
}

fn softmax<A: Float>(slice: &mut [A]) {
    let max = slice.iter().fold(A::LOWEST, |max, &x| if x > max { x } else { max });
    slice.iter_mut().for_each(|x| *x = (*x - max).exp());
    let scale = A::ONE / sum(slice);
    slice.iter_mut().for_each(|x| *x = *x * scale);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(slice: &[f32], expected: &[f32]) {
        let mut slice = slice.to_vec();
        softmax(&mut slice);
        let is_close = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-6 || (a.is_nan() && b.is_nan());
        assert!(slice.iter().zip(expected).all(is_close), "{slice:?}");
    }

    #[test]
    fn values() {
        check(&[0.0, 0.0], &[0.5, 0.5]);
        check(&[1000.0, 1001.0], &[0.268_941_4, 0.731_058_6]);
        check(&[f32::NEG_INFINITY, 3.0], &[0.0, 1.0]);
        check(&[f32::NEG_INFINITY, f32::NEG_INFINITY], &[f32::NAN, f32::NAN]);
    }
}
