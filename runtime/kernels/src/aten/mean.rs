//! `aten::mean.out`, `aten::mean.dtype_out`: mean over dimensions, or of all elements.
//!
//! | argument  | type                                       | shape                     |
//! |-----------|--------------------------------------------|---------------------------|
//! | `self`    | real tensor                                | any                       |
//! | `dim`     | optional ints; absent or empty reduces all |                           |
//! | `keepdim` | bool                                       |                           |
//! | `dtype`   | optional; the dtype of `out`               |                           |
//! | `out`     | floating-point tensor                      | `self` reduced over `dim` |
//!
//! `dtype_out` has neither `dim` nor `keepdim`. Accumulates in `f64` if `out` is `f64`, otherwise
//! in `f32`. The mean of an empty tensor is NaN. Tolerance: 1e-6 relative to the mean magnitude.
//! Errors: a `dim` that is repeated or out of range, a `dtype` other than that of `out`.
//! Source: ATen `mean`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, OpPattern};

use crate::shared::{
    accumulator::{Accumulator, check_dtype, sum, with_float_accumulator},
    elements::{Reader, Writer},
    reduce::{ReducedDims, Reduction},
};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new(
        "aten::mean.out",
        &[Arg::Tensor, Arg::OptIntList, Arg::Bool, Arg::OptDtype, Arg::Out],
        mean_out,
    )
    .with_pattern(OpPattern::Reduction { dims: 1, keepdim: 2 }),
    Kernel::new("aten::mean.dtype_out", &[Arg::Tensor, Arg::OptDtype, Arg::Out], mean_dtype_out),
];

fn mean_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let reduced = ReducedDims::list_or_all(args.opt_int_list(1)?, args.tensor(0)?.rank(), 1)?;
    let keepdim = args.bool(2)?;
    mean(args, reduced, keepdim, 3, 4)
}

fn mean_dtype_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    mean(args, ReducedDims::ALL, false, 1, 2)
}

fn mean(
    args: &mut Args<'_>,
    reduced: ReducedDims,
    keepdim: bool,
    dtype: usize,
    out: u8,
) -> Result<(), Error> {
    let (x, dtype) = (args.tensor(0)?, args.opt_dtype(dtype)?);
    let mut to = args.out(usize::from(out))?;
    check_dtype(dtype.unwrap_or(to.dtype()), to.dtype(), out)?;
    with_float_accumulator!(to.dtype(), out, A => {
        to.resize(&reduced.out_sizes(x.sizes(), keepdim)?)?;
        let reduction = Reduction::new(&x, reduced, keepdim, &to)?;
        let count = A::from_double(reduced.count(x.sizes()) as f64);
        let (x, mut to) = (Reader::<A>::new(x, 0)?, Writer::new(&mut to, out)?);
        reduction.for_each(|from, at| to.set(at, reduction.sum(&x, from, sum).div(count)));
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, Tensor};

    use super::*;

    #[test]
    fn values() {
        let x = Tensor::new(&[2, 2], &[1.0_f32, 2.0, 3.0, 6.0]).unwrap();
        let mut out = Tensor::from_slice::<f32>(&[]);
        let mut arguments = [
            Argument::Tensor(&x),
            Argument::Ints(vec![0]),
            Argument::Scalar(Scalar::Bool(false)),
            Argument::None,
            Argument::Out(&mut out),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(out.data::<f32>(), Ok(&[2.0, 4.0][..]));

        let mut out = Tensor::new(&[], &[0.0_f32]).unwrap();
        let mut arguments = [Argument::Tensor(&x), Argument::None, Argument::Out(&mut out)];
        Call::new(&KERNELS[1]).run(&mut arguments).unwrap();
        assert_eq!(out.data::<f32>(), Ok(&[3.0][..]));
    }
}
