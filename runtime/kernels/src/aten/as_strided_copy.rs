//! `aten::as_strided_copy.out`: copy of a strided view of memory.
//!
//! | argument         | type                    | shape             |
//! |------------------|-------------------------|-------------------|
//! | `self`           | tensor, any dtype       | any               |
//! | `size`           | ints, not negative      |                   |
//! | `stride`         | ints, not negative      | as many as `size` |
//! | `storage_offset` | optional int; default 0 |                   |
//! | `out`            | as `self`               | `size`            |
//!
//! Strides and offset are in elements of the memory of `self`. Tolerance: exact.
//! Errors: a view that exceeds `self` is [`Error::InvalidArgument`] at index 2.
//! Source: ATen `as_strided_copy`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    dim_args::sizes_arg,
    strided_view::{StridedView, materialize},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::as_strided_copy.out",
    &[Arg::Tensor, Arg::IntList, Arg::IntList, Arg::OptInt, Arg::Out],
    as_strided_copy,
)];

fn as_strided_copy(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let (sizes, strides) = (sizes_arg(args, 1)?, sizes_arg(args, 2)?);
    let invalid = |index, expected| Error::InvalidArgument { index, expected };
    let offset = usize::try_from(args.opt_int(3)?.unwrap_or(0));
    let offset = offset.map_err(|_| invalid(3, "an offset that is not negative"))?;
    if sizes.len() != strides.len() {
        return Err(invalid(2, "as many strides as sizes"));
    }
    if !sizes.contains(&0) {
        let mut pairs = sizes.iter().zip(strides.iter());
        let last = pairs.try_fold(offset, |last, (&size, &stride)| {
            last.checked_add((size - 1).checked_mul(stride)?)
        });
        if last.is_none_or(|last| last >= input.numel()) {
            return Err(invalid(2, "a view within the tensor"));
        }
    }
    materialize(&mut args.out(4)?, 4, &input, &StridedView { sizes, strides, offset })
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Scalar};

    use super::*;
    use crate::shared::testing::{check, ints, iota};

    #[test]
    fn values() {
        let x = iota(&[2, 3]);
        let run = |size, stride, offset, expected| {
            let offset = Argument::Scalar(Scalar::Int(offset));
            check(
                &KERNELS[0],
                vec![Argument::Tensor(&x), ints(size), ints(stride), offset],
                expected,
            );
        };
        run(&[2, 2], &[1, 2], 1, Ok((&[2, 2], &[1, 3, 2, 4])));
        run(&[3], &[0], 5, Ok((&[3], &[5, 5, 5])));
        run(&[0], &[9], 9, Ok((&[0], &[])));
        let invalid = |index, expected| Err(Error::InvalidArgument { index, expected });
        run(&[2], &[5], 1, invalid(2, "a view within the tensor"));
        run(&[i64::MAX, 9], &[i64::MAX, 1], 1, invalid(2, "a view within the tensor"));
        run(&[1], &[], 0, invalid(2, "as many strides as sizes"));
        run(&[1], &[1], -1, invalid(3, "an offset that is not negative"));
    }
}
