//! `aten::cumprod.out`: cumulative product along a dimension.
//!
//! | argument | type                         | shape     |
//! |----------|------------------------------|-----------|
//! | `self`   | real tensor                  | any       |
//! | `dim`    | int                          |           |
//! | `dtype`  | optional; the dtype of `out` |           |
//! | `out`    | real tensor, not `bool`      | as `self` |
//!
//! Computes in `f64` if `out` is floating point, otherwise in `i64` with wrap-around. Tolerance:
//! 1e-6 relative.
//! Errors: a `dim` out of range, a `dtype` other than that of `out`.
//! Source: ATen `cumprod`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{accumulator::Accumulator, dim_apply::accumulate};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::cumprod.out",
    &[Arg::Tensor, Arg::Int, Arg::OptDtype, Arg::Out],
    cumprod_out,
)];

fn cumprod_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    accumulate(args, 1.0, Accumulator::mul, Accumulator::mul)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor};

    use super::*;

    #[test]
    fn values() {
        let x = Tensor::new(&[2, 3], &[1_i32, 2, 3, 4, 5, 6]).unwrap();
        for (dim, expected) in [(0, [1_i64, 2, 3, 4, 10, 18]), (-1, [1, 2, 6, 4, 20, 120])] {
            let mut out = Tensor::zeros(ScalarType::Long, &[2, 3]);
            let mut arguments = [
                Argument::Tensor(&x),
                Argument::Scalar(Scalar::Int(dim)),
                Argument::None,
                Argument::Out(&mut out),
            ];
            Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
            assert_eq!(out.data::<i64>(), Ok(&expected[..]));
        }
    }
}
