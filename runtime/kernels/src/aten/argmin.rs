//! `aten::argmin.out`: index of the smallest element along a dimension.
//!
//! | argument  | type                 | shape                     |
//! |-----------|----------------------|---------------------------|
//! | `self`    | real tensor, not u64 | any                       |
//! | `dim`     | optional int         |                           |
//! | `keepdim` | bool                 |                           |
//! | `out`     | i64 tensor           | `self` reduced over `dim` |
//!
//! Without `dim`, the index is into the flattened tensor in row-major order. Returns the first
//! index among equal elements. NaN propagates: the index is that of the first NaN. Tolerance:
//! exact.
//! Errors: [`Error::InvalidArgument`] for a reduced dimension of size zero and for a `dim` out of
//! range.
//! Source: ATen `argmin`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::min_max::{MinMax, reduce_indices};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::argmin.out",
    &[Arg::Tensor, Arg::OptInt, Arg::Bool, Arg::Out],
    argmin_out,
)];

fn argmin_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (dim, keepdim) = (args.opt_int(1)?, args.bool(2)?);
    reduce_indices(args, MinMax::Min, dim, keepdim, [3])
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, Tensor};

    use super::*;

    #[track_caller]
    fn check(x: &[f32], sizes: &[usize], dim: Option<i64>, expected: &[i64]) {
        let x = Tensor::new(sizes, x).unwrap();
        let mut out = Tensor::new(&[1, 1][..usize::from(dim.is_some())], &[0_i64]).unwrap();
        let mut arguments = [
            Argument::Tensor(&x),
            dim.map_or(Argument::None, |dim| Argument::Scalar(Scalar::Int(dim))),
            Argument::Scalar(Scalar::Bool(false)),
            Argument::Out(&mut out),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(out.data(), Ok(expected));
    }

    #[test]
    fn first_of_equal_elements() {
        check(&[1.0, 3.0, 1.0, 2.0, 0.0, 2.0], &[2, 3], Some(1), &[0, 1]);
        check(&[1.0, 3.0, 1.0, 2.0, 0.0, 2.0], &[2, 3], Some(-2), &[0, 1, 0]);
        check(&[1.0, 3.0, 1.0, 2.0, 0.0, 2.0], &[2, 3], None, &[4]);
        check(&[1.0, f32::NAN, 9.0, f32::NAN], &[4], None, &[1]);
    }
}
