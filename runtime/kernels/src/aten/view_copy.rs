//! `aten::view_copy.out`: reshape.
//!
//! | argument | type                                   | shape  |
//! |----------|----------------------------------------|--------|
//! | `self`   | tensor, any dtype                      | any    |
//! | `size`   | ints; one may be -1, which is inferred |        |
//! | `out`    | as `self`                              | `size` |
//!
//! Elements keep their row-major order for any dim order of `self` and `out`. Tolerance: exact.
//! Errors: sizes with another number of elements are [`Error::InvalidArgument`] at index 1.
//! Source: ATen `view_copy`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::check_dtype, dim_args::inferred_sizes_arg, strided_view::reshape_copy,
};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::view_copy.out", &[Arg::Tensor, Arg::IntList, Arg::Out], view_copy)];

fn view_copy(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let sizes = inferred_sizes_arg(args, 1, input.numel())?;
    let mut out = args.out(2)?;
    check_dtype(out.dtype(), input.dtype(), 2)?;
    out.resize(&sizes)?;
    reshape_copy(&mut out, &input)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, ScalarType, Tensor};

    use super::*;
    use crate::shared::testing::{check, ints, iota};

    #[test]
    fn values() {
        let x = iota(&[2, 3]);
        let run = |size, expected| {
            check(&KERNELS[0], vec![Argument::Tensor(&x), ints(size)], expected);
        };
        run(&[3, -1], Ok((&[3, 2], &[0, 1, 2, 3, 4, 5])));
        run(&[6], Ok((&[6], &[0, 1, 2, 3, 4, 5])));
        let invalid =
            Error::InvalidArgument { index: 1, expected: "sizes with the same number of elements" };
        for size in [&[4, -1][..], &[-1, -1], &[0, -1], &[5], &[-2], &[i64::MAX, i64::MAX]] {
            run(size, Err(invalid));
        }
        check(
            &KERNELS[0],
            vec![Argument::Tensor(&iota(&[0, 3])), ints(&[i64::MAX, i64::MAX, 0])],
            Ok((&[i64::MAX as usize, i64::MAX as usize, 0], &[])),
        );
    }

    #[test]
    fn mismatched_out_dtype_is_rejected() {
        let x = Tensor::zeros(ScalarType::Float, &[2]);
        let error = Error::InvalidType { index: 2, found: ScalarType::Int };
        check(&KERNELS[0], vec![Argument::Tensor(&x), ints(&[2])], Err(error));
    }

    #[test]
    fn row_major_order_is_kept_in_any_dim_order() {
        // Sizes 2 × 3 in column-major order.
        let column_major = |x: &Tensor| {
            Tensor::from_bytes(ScalarType::Int, &[2, 3], &[1, 0], x.view().bytes()).unwrap()
        };
        let x = column_major(&iota(&[6]));
        let inputs = vec![Argument::Tensor(&x), ints(&[6])];
        check(&KERNELS[0], inputs, Ok((&[6], &[0, 2, 4, 1, 3, 5])));
        let mut out = Tensor::zeros(ScalarType::Int, &[3, 2]);
        out.set_dim_order(&[1, 0]).unwrap();
        let mut arguments = [Argument::Tensor(&x), ints(&[3, 2]), Argument::Out(&mut out)];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(out.data::<i32>().unwrap(), [0, 4, 3, 2, 1, 5]);
    }
}
