//! `aten::amax.out`: maximum over dimensions.
//!
//! | argument  | type                               | shape                     |
//! |-----------|------------------------------------|---------------------------|
//! | `self`    | real tensor, not u64               | any                       |
//! | `dim`     | ints; empty reduces all dimensions |                           |
//! | `keepdim` | bool                               |                           |
//! | `out`     | tensor of the same dtype           | `self` reduced over `dim` |
//!
//! NaN propagates. Tolerance: exact.
//! Errors: [`Error::InvalidArgument`] for a reduced dimension of size zero and for a `dim` that is
//! repeated or out of range.
//! Source: ATen `amax`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    min_max::{MinMax, reduce_values},
    reduce::ReducedDims,
};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::amax.out", &[Arg::Tensor, Arg::IntList, Arg::Bool, Arg::Out], amax_out)];

fn amax_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let reduced = ReducedDims::list_or_all(args.opt_int_list(1)?, args.tensor(0)?.rank(), 1)?;
    let keepdim = args.bool(2)?;
    reduce_values(args, MinMax::Max, reduced, keepdim, 3)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, Tensor};

    use super::*;

    #[track_caller]
    fn check(dims: &[i64], keepdim: bool, expected: (&[usize], &[f32])) {
        let x = Tensor::new(&[2, 3], &[1.0_f32, -2.0, 5.0, 4.0, f32::NAN, -7.0]).unwrap();
        let mut out = Tensor::new(
            &vec![0; expected.0.len()],
            &[0.0_f32; 1][..usize::from(expected.0.is_empty())],
        )
        .unwrap();
        let mut arguments = [
            Argument::Tensor(&x),
            Argument::Ints(dims.to_vec()),
            Argument::Scalar(Scalar::Bool(keepdim)),
            Argument::Out(&mut out),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(out.sizes(), expected.0);
        let is_same = |(a, b): (&f32, &f32)| a == b || (a.is_nan() && b.is_nan());
        assert!(out.data().unwrap().iter().zip(expected.1).all(is_same), "{:?}", out.data::<f32>());
    }

    #[test]
    fn nan_propagates() {
        check(&[0], true, (&[1, 3], &[4.0, f32::NAN, 5.0]));
        check(&[1], false, (&[2], &[5.0, f32::NAN]));
        check(&[], false, (&[], &[f32::NAN]));
    }
}
