//! `aten::any.all_out`, `aten::any.dims_out`, `aten::any.out`: test for a nonzero element.
//!
//! | argument  | type                                    | shape                     |
//! |-----------|-----------------------------------------|---------------------------|
//! | `self`    | real tensor                             | any                       |
//! | `dim`     | int (`out`), optional ints (`dims_out`) |                           |
//! | `keepdim` | bool                                    |                           |
//! | `out`     | `bool` or u8 tensor                     | `self` reduced over `dim` |
//!
//! `all_out` has neither `dim` nor `keepdim`. In `dims_out`, an absent `dim` reduces all dimensions
//! and an empty one none. NaN is nonzero. Tolerance: exact.
//! Errors: a `dim` that is repeated or out of range. Source: ATen `any`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, ScalarType};

use crate::shared::{
    accumulator::with_accumulator,
    elements::{Reader, Writer},
    reduce::{ReducedDims, Reduction},
};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::any.all_out", &[Arg::Tensor, Arg::Out], any_all_out),
    Kernel::new(
        "aten::any.dims_out",
        &[Arg::Tensor, Arg::OptIntList, Arg::Bool, Arg::Out],
        any_dims_out,
    ),
    Kernel::new("aten::any.out", &[Arg::Tensor, Arg::Int, Arg::Bool, Arg::Out], any_out),
];

fn any_all_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    any(args, ReducedDims::ALL, false, 1)
}

fn any_dims_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let rank = args.tensor(0)?.rank();
    let reduced = match args.opt_int_list(1)? {
        Some(dims) => ReducedDims::list(dims, rank, 1)?,
        None => ReducedDims::ALL,
    };
    let keepdim = args.bool(2)?;
    any(args, reduced, keepdim, 3)
}

fn any_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let reduced = ReducedDims::one(args.int(1)?, args.tensor(0)?.rank(), 1)?;
    let keepdim = args.bool(2)?;
    any(args, reduced, keepdim, 3)
}

fn any(args: &mut Args<'_>, reduced: ReducedDims, keepdim: bool, out: u8) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let mut to = args.out(usize::from(out))?;
    if !matches!(to.dtype(), ScalarType::Bool | ScalarType::Byte) {
        return Err(Error::InvalidType { index: out, found: to.dtype() });
    }
    to.resize(&reduced.out_sizes(x.sizes(), keepdim)?)?;
    let reduction = Reduction::new(&x, reduced, keepdim, &to)?;
    let mut to = Writer::<i64>::new(&mut to, out)?;
    with_accumulator!(x.dtype(), A => {
        let (x, zero) = (Reader::<A>::new(x, 0)?, A::default());
        reduction.for_each(|from, at| {
            let mut found = false;
            reduction.for_each_chunk(&x, from, |chunk| found |= chunk.iter().any(|&x| x != zero));
            to.set(at, i64::from(found));
        });
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Bool, Call, Scalar, Tensor};

    use super::*;

    #[test]
    fn values() {
        let x = Tensor::new(&[2, 2], &[0.0_f32, -0.0, 0.0, f32::NAN]).unwrap();
        let check = |kernel: usize, dim: Option<Argument<'_>>, rank: usize, expected: &[bool]| {
            let mut out = Tensor::zeros(ScalarType::Bool, &vec![0; rank]);
            let mut arguments = vec![Argument::Tensor(&x)];
            if let Some(dim) = dim {
                arguments.extend([dim, Argument::Scalar(Scalar::Bool(false))]);
            }
            arguments.push(Argument::Out(&mut out));
            Call::new(&KERNELS[kernel]).run(&mut arguments).unwrap();
            let expected: Vec<Bool> = expected.iter().map(|&x| x.into()).collect();
            assert_eq!(out.data::<Bool>().unwrap(), expected);
        };
        check(0, None, 0, &[true]);
        check(1, Some(Argument::Ints(vec![0])), 1, &[false, true]);
        check(1, Some(Argument::Ints(vec![])), 2, &[false, false, false, true]);
        check(2, Some(Argument::Scalar(Scalar::Int(1))), 1, &[false, true]);
    }
}
