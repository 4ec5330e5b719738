//! `aten::_log_softmax.out`: logarithm of the softmax along a dimension.
//!
//! | argument        | type                  | shape     |
//! |-----------------|-----------------------|-----------|
//! | `self`          | floating-point tensor | any       |
//! | `dim`           | int                   |           |
//! | `half_to_float` | bool: false           |           |
//! | `out`           | floating-point tensor | as `self` |
//!
//! Computes `x - max - ln Σ exp(x - max)`. Half types are computed in `f32`. Tolerance: 1e-5
//! absolute.
//! Scratch: one slice along `dim`.
//! Errors: other dtypes, a `dim` out of range. Source: ATen `_log_softmax`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::{Float, sum_of, with_float_accumulator},
    dim_apply::map_slices,
    dim_args::dim_arg,
    simd,
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::_log_softmax.out",
    &[Arg::Tensor, Arg::Int, Arg::Bool, Arg::Out],
    log_softmax_out,
)];

fn log_softmax_out(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let dim = dim_arg(args, 1, x.rank())?;
    if args.bool(2)? {
        return Err(Error::InvalidArgument { index: 2, expected: "false" });
    }
    let mut out = args.out(3)?;
    out.resize(x.sizes())?;
    if let Some((isa, sizes, from, to)) = simd::softmax_operands(&x, dim, &mut out) {
        afferent_simd::softmax::log_softmax(isa, sizes, from, to);
        return Ok(());
    }
    with_float_accumulator!(out.dtype(), 3, A => {
        with_float_accumulator!(x.dtype(), 0, _B => Ok(()))?;
        map_slices::<A>(cx, x, dim, &mut out, 3, log_softmax)
    })
}

fn log_softmax<A: Float>(slice: &mut [A]) {
    let max = slice.iter().fold(A::LOWEST, |max, &x| if x > max { x } else { max });
    let log = sum_of(slice, |x| (x - max).exp()).ln();
    slice.iter_mut().for_each(|x| *x = *x - max - log);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(slice: &[f32], expected: &[f32]) {
        let mut slice = slice.to_vec();
        log_softmax(&mut slice);
        let is_close = |(&a, &b): (&f32, &f32)| a == b || (a - b).abs() < 1e-6;
        assert!(slice.iter().zip(expected).all(is_close), "{slice:?}");
    }

    #[test]
    fn values() {
        check(&[0.0, 0.0], &[-core::f32::consts::LN_2; 2]);
        check(&[1000.0, 1001.0], &[-1.313_261_7, -0.313_261_7]);
        check(&[f32::NEG_INFINITY, 3.0], &[f32::NEG_INFINITY, 0.0]);
    }
}
