//! `aten::sum.IntList_out`: sum over dimensions.
//!
//! | argument  | type                                       | shape                     |
//! |-----------|--------------------------------------------|---------------------------|
//! | `self`    | real or complex tensor                     | any                       |
//! | `dim`     | optional ints; absent or empty reduces all |                           |
//! | `keepdim` | bool                                       |                           |
//! | `dtype`   | optional; the dtype of `out`               |                           |
//! | `out`     | real or complex tensor, not `bool`         | `self` reduced over `dim` |
//!
//! For a complex `self`, `out` has its dtype. Accumulates in the dtype of `out`, half types in
//! `f32`; integers wrap. The sum of an empty tensor is 0. Tolerance: 1e-6 relative to the sum of
//! magnitudes.
//! Errors: a `dim` that is repeated or out of range, a `dtype` other than that of `out`.
//! Source: ATen `sum`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, ScalarType};

use crate::shared::{
    accumulator::{Accumulator, check_dtype, sum, with_accumulator},
    complex::{self, common_complex, with_complex},
    elements::{Reader, Writer},
    reduce::{ReducedDims, Reduction},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::sum.IntList_out",
    &[Arg::Tensor, Arg::OptIntList, Arg::Bool, Arg::OptDtype, Arg::Out],
    sum_out,
)];

fn sum_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let rank = args.tensor(0)?.rank();
    let reduced = ReducedDims::list_or_all(args.opt_int_list(1)?, rank, 1)?;
    let keepdim = args.bool(2)?;
    let dtype = args.opt_dtype(3)?;
    let out_dtype = args.out(4)?.dtype();
    check_dtype(dtype.unwrap_or(out_dtype), out_dtype, 4)?;
    if out_dtype == ScalarType::Bool {
        return Err(Error::InvalidType { index: 4, found: out_dtype });
    }
    if let Some(complex) = common_complex(&[args.tensor(0)?.dtype()]) {
        check_dtype(out_dtype, complex, 4)?;
        return with_complex!(complex, A => complex::sum::<A>(args, reduced, keepdim));
    }
    with_accumulator!(out_dtype, A => sum_into::<A>(args, reduced, keepdim))
}

fn sum_into<A: Accumulator>(
    args: &mut Args<'_>,
    reduced: ReducedDims,
    keepdim: bool,
) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let mut out = args.out(4)?;
    out.resize(&reduced.out_sizes(x.sizes(), keepdim)?)?;
    let reduction = Reduction::new(&x, reduced, keepdim, &out)?;
    let (x, mut out) = (Reader::<A>::new(x, 0)?, Writer::new(&mut out, 4)?);
    reduction.for_each(|from, to| out.set(to, reduction.sum(&x, from, sum)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, Tensor};

    use super::*;

    #[track_caller]
    fn check(sizes: &[usize], dims: &[i64], keepdim: bool, expected: (&[usize], &[f32])) {
        let data: Vec<f32> = (0..sizes.iter().product()).map(|x: usize| x as f32).collect();
        let x = Tensor::new(sizes, &data).unwrap();
        let mut out = Tensor::zeros(ScalarType::Float, &vec![0; expected.0.len()]);
        let mut arguments = [
            Argument::Tensor(&x),
            Argument::Ints(dims.to_vec()),
            Argument::Scalar(Scalar::Bool(keepdim)),
            Argument::None,
            Argument::Out(&mut out),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!((out.sizes(), out.data().unwrap()), expected);
    }

    #[test]
    fn values() {
        check(&[2, 3], &[1], false, (&[2], &[3.0, 12.0]));
        check(&[2, 3], &[-2], true, (&[1, 3], &[3.0, 5.0, 7.0]));
        check(&[2, 3], &[], false, (&[], &[15.0]));
        check(&[2, 0], &[1], false, (&[2], &[0.0, 0.0]));
        check(&[2, 2, 2], &[0, 2], false, (&[2], &[10.0, 18.0]));
    }
}
