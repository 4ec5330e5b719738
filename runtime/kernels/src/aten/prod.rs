//! `aten::prod.int_out`, `aten::prod.out`: product along a dimension, or of all elements.
//!
//! | argument  | type                         | shape                     |
//! |-----------|------------------------------|---------------------------|
//! | `self`    | real tensor                  | any                       |
//! | `dim`     | int                          |                           |
//! | `keepdim` | bool                         |                           |
//! | `dtype`   | optional; the dtype of `out` |                           |
//! | `out`     | real tensor, not `bool`      | `self` reduced over `dim` |
//!
//! `prod.out` has neither `dim` nor `keepdim`. Accumulates in the dtype of `out`, half types in
//! `f32`; integers wrap. The product of an empty tensor is 1. Tolerance: 1e-6 relative.
//! Errors: a `dim` out of range, a `dtype` other than that of `out`. Source: ATen `prod`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, ScalarType};

use crate::shared::{
    accumulator::{Accumulator, check_dtype, with_accumulator},
    elements::{Reader, Writer},
    reduce::{ReducedDims, Reduction},
};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new(
        "aten::prod.int_out",
        &[Arg::Tensor, Arg::Int, Arg::Bool, Arg::OptDtype, Arg::Out],
        prod_int_out,
    ),
    Kernel::new("aten::prod.out", &[Arg::Tensor, Arg::OptDtype, Arg::Out], prod_out),
];

fn prod_int_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let reduced = ReducedDims::one(args.int(1)?, args.tensor(0)?.rank(), 1)?;
    let keepdim = args.bool(2)?;
    prod(args, reduced, keepdim, 3, 4)
}

fn prod_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    prod(args, ReducedDims::ALL, false, 1, 2)
}

fn prod(
    args: &mut Args<'_>,
    reduced: ReducedDims,
    keepdim: bool,
    dtype: usize,
    out: u8,
) -> Result<(), Error> {
    let (x, dtype) = (args.tensor(0)?, args.opt_dtype(dtype)?);
    let mut to = args.out(usize::from(out))?;
    check_dtype(dtype.unwrap_or(to.dtype()), to.dtype(), out)?;
    if to.dtype() == ScalarType::Bool {
        return Err(Error::InvalidType { index: out, found: to.dtype() });
    }
    with_accumulator!(to.dtype(), A => {
        to.resize(&reduced.out_sizes(x.sizes(), keepdim)?)?;
        let reduction = Reduction::new(&x, reduced, keepdim, &to)?;
        let (x, mut to) = (Reader::<A>::new(x, 0)?, Writer::new(&mut to, out)?);
        reduction.for_each(|from, at| {
            let mut product = A::ONE;
            reduction.for_each_chunk(&x, from, |chunk| {
                product = chunk.iter().fold(product, |product, &x| product.mul(x));
            });
            to.set(at, product);
        });
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, Tensor};

    use super::*;

    #[test]
    fn values() {
        let x = Tensor::new(&[2, 2], &[1_i32, 2, 3, 6]).unwrap();
        let mut out = Tensor::from_slice::<i64>(&[]);
        let mut arguments = [
            Argument::Tensor(&x),
            Argument::Scalar(Scalar::Int(1)),
            Argument::Scalar(Scalar::Bool(false)),
            Argument::None,
            Argument::Out(&mut out),
        ];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(out.data::<i64>(), Ok(&[2, 18][..]));

        let mut out = Tensor::new(&[], &[0_i64]).unwrap();
        let mut arguments = [Argument::Tensor(&x), Argument::None, Argument::Out(&mut out)];
        Call::new(&KERNELS[1]).run(&mut arguments).unwrap();
        assert_eq!(out.data::<i64>(), Ok(&[36][..]));
    }
}
