//! `aten::repeat.out`: tensor tiled along each dimension.
//!
//! | argument  | type               | shape                       |
//! |-----------|--------------------|-----------------------------|
//! | `self`    | tensor, any dtype  | any                         |
//! | `repeats` | ints, not negative | at least the rank of `self` |
//! | `out`     | as `self`          | each size times its repeats |
//!
//! Missing leading dimensions have size 1. Tolerance: exact.
//! Errors: too few or negative repeats are [`Error::InvalidArgument`] at index 1.
//! Source: ATen `repeat`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::check_dtype, dim_args::sizes_arg, strided_copy::StridedCopy,
    strided_view::StridedView,
};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::repeat.out", &[Arg::Tensor, Arg::IntList, Arg::Out], repeat)];

fn repeat(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let repeats = sizes_arg(args, 1)?;
    let invalid = |expected| Error::InvalidArgument { index: 1, expected };
    let mut view = StridedView::of(&input);
    if repeats.len() < input.rank() {
        return Err(invalid("at least one value per dimension"));
    }
    while view.sizes.len() < repeats.len() {
        view.sizes.insert(0, 1)?;
        view.strides.insert(0, 0)?;
    }
    let mut sizes = view.sizes;
    for (size, &times) in sizes.iter_mut().zip(repeats.iter()) {
        *size = size.checked_mul(times).ok_or(invalid("smaller sizes"))?;
    }
    let mut out = args.out(2)?;
    check_dtype(out.dtype(), input.dtype(), 2)?;
    out.resize(&sizes)?;
    let strides = out.strides();
    let mut copy = StridedCopy::scalar();
    for dim in (0..sizes.len()).rev() {
        let (size, stride) = (view.sizes[dim], strides[dim]);
        copy.push(size, stride, view.strides[dim])?;
        copy.push(repeats[dim], stride.wrapping_mul(size), 0)?;
    }
    copy.run(input.dtype().size(), (out.bytes_mut()?, 0), (input.bytes(), 0))
}

#[cfg(test)]
mod tests {
    use afferent_core::Argument;

    use super::*;
    use crate::shared::testing::{check, ints, iota};

    #[test]
    fn values() {
        let x = iota(&[2, 1]);
        let run = |repeats, expected| {
            check(&KERNELS[0], vec![Argument::Tensor(&x), ints(repeats)], expected);
        };
        run(&[2, 3], Ok((&[4, 3], &[0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1])));
        run(&[2, 1, 1], Ok((&[2, 2, 1], &[0, 1, 0, 1])));
        run(&[0, i64::MAX], Ok((&[0, i64::MAX as usize], &[])));
        let invalid = |expected| Err(Error::InvalidArgument { index: 1, expected });
        run(&[1], invalid("at least one value per dimension"));
        run(&[1, -1], invalid("up to 16 sizes that are not negative"));
        run(&[i64::MAX, 4], Err(Error::InvalidTensor { reason: "the number of bytes overflows" }));
    }
}
