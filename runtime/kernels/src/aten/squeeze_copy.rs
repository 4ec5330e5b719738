//! `aten::squeeze_copy.dim_out`, `.dims_out`: removal of dimensions of size 1.
//!
//! | argument | type              | shape                                          |
//! |----------|-------------------|------------------------------------------------|
//! | `self`   | tensor, any dtype | any                                            |
//! | `dim`    | int or ints       |                                                |
//! | `out`    | as `self`         | `self` without those of `dim` that have size 1 |
//!
//! Tolerance: exact.
//! Errors: a dimension that is repeated or out of range is [`Error::InvalidArgument`] at index 1.
//! Source: ATen `squeeze_copy`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    dim_args::dim_mask,
    strided_view::{StridedView, materialize},
};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::squeeze_copy.dim_out", &[Arg::Tensor, Arg::Int, Arg::Out], squeeze_copy),
    Kernel::new(
        "aten::squeeze_copy.dims_out",
        &[Arg::Tensor, Arg::IntList, Arg::Out],
        squeeze_copy,
    ),
];

fn squeeze_copy(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let dims = dim_mask(args.int_list(1)?, input.rank(), 1)?;
    let mut view = StridedView::of(&input);
    for dim in (0..input.rank()).rev() {
        if dims & (1 << dim) != 0 && view.sizes[dim] == 1 {
            view.select(dim, 0);
        }
    }
    materialize(&mut args.out(2)?, 2, &input, &view)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Scalar};

    use super::*;
    use crate::shared::testing::{check, ints, iota};

    #[test]
    fn values() {
        let x = iota(&[1, 2, 1]);
        let run = |dims, expected| {
            check(&KERNELS[1], vec![Argument::Tensor(&x), ints(dims)], expected);
        };
        run(&[0, -1], Ok((&[2], &[0, 1])));
        run(&[1], Ok((&[1, 2, 1], &[0, 1])));
        run(&[0, -3], Err(Error::InvalidArgument { index: 1, expected: "no dimension twice" }));
        let dim = Argument::Scalar(Scalar::Int(2));
        check(&KERNELS[0], vec![Argument::Tensor(&x), dim], Ok((&[1, 2], &[0, 1])));
    }
}
