//! `aten::max.dim_max`, `aten::max.unary_out`: maximum along a dimension, or of all elements.
//!
//! | argument       | type                     | shape                     |
//! |----------------|--------------------------|---------------------------|
//! | `self`         | real tensor, not u64     | any                       |
//! | `dim`          | int                      |                           |
//! | `keepdim`      | bool                     |                           |
//! | `max` or `out` | tensor of the same dtype | `self` reduced over `dim` |
//! | `max_values`   | i64 tensor of indices    | as `max`                  |
//!
//! `unary_out` takes only `self` and `out`. The index is the first among equal elements. NaN
//! propagates. Tolerance: exact.
//! Errors: [`Error::InvalidArgument`] for a reduced dimension of size zero and for a `dim` out of
//! range.
//! Source: ATen `max`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    min_max::{MinMax, reduce_indices, reduce_values},
    reduce::ReducedDims,
};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new(
        "aten::max.dim_max",
        &[Arg::Tensor, Arg::Int, Arg::Bool, Arg::Out, Arg::Out],
        max_dim,
    ),
    Kernel::new("aten::max.unary_out", &[Arg::Tensor, Arg::Out], max_unary_out),
];

fn max_dim(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (dim, keepdim) = (args.int(1)?, args.bool(2)?);
    reduce_indices(args, MinMax::Max, Some(dim), keepdim, [3, 4])
}

fn max_unary_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    reduce_values(args, MinMax::Max, ReducedDims::ALL, false, 1)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, Tensor};

    use super::*;

    #[test]
    fn values_and_indices() {
        let x = Tensor::new(&[2, 3], &[3_i32, 1, 3, -4, 7, -4]).unwrap();
        let (mut values, mut indices) =
            (Tensor::from_slice(&[0_i32]), Tensor::from_slice(&[0_i64]));
        let mut arguments = [
            Argument::Tensor(&x),
            Argument::Scalar(Scalar::Int(-1)),
            Argument::Scalar(Scalar::Bool(false)),
            Argument::Out(&mut values),
            Argument::Out(&mut indices),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(values.data::<i32>(), Ok(&[3, 7][..]));
        assert_eq!(indices.data::<i64>(), Ok(&[0, 1][..]));

        let mut values = Tensor::new(&[], &[0_i32]).unwrap();
        let mut arguments = [Argument::Tensor(&x), Argument::Out(&mut values)];
        Call::new(&KERNELS[1]).run(&mut arguments).unwrap();
        assert_eq!(values.data::<i32>(), Ok(&[7][..]));
    }

    #[test]
    fn empty_reduction_is_rejected() {
        let (x, mut values) =
            (Tensor::from_slice::<f32>(&[]), Tensor::new(&[], &[0.0_f32]).unwrap());
        let mut arguments = [Argument::Tensor(&x), Argument::Out(&mut values)];
        assert!(Call::new(&KERNELS[1]).run(&mut arguments).is_err());
    }
}
