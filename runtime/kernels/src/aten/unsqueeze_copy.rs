//! `aten::unsqueeze_copy.out`: insertion of a dimension of size 1.
//!
//! | argument | type                            | shape                                    |
//! |----------|---------------------------------|------------------------------------------|
//! | `self`   | tensor, any dtype               | any                                      |
//! | `dim`    | int, at most the rank of `self` |                                          |
//! | `out`    | as `self`                       | as `self`, with size 1 inserted at `dim` |
//!
//! Tolerance: exact.
//! Errors: a `dim` out of range is [`Error::InvalidArgument`] at index 1.
//! Source: ATen `unsqueeze_copy`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    dim_args::dim_arg,
    strided_view::{StridedView, materialize},
};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::unsqueeze_copy.out", &[Arg::Tensor, Arg::Int, Arg::Out], unsqueeze_copy)];

fn unsqueeze_copy(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let dim = dim_arg(args, 1, input.rank() + 1)?;
    let mut view = StridedView::of(&input);
    view.sizes.insert(dim, 1)?;
    view.strides.insert(dim, 0)?;
    materialize(&mut args.out(2)?, 2, &input, &view)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Scalar};

    use super::*;
    use crate::shared::testing::{check, iota};

    #[test]
    fn values() {
        let x = iota(&[2]);
        let run = |dim, expected| {
            let dim = Argument::Scalar(Scalar::Int(dim));
            check(&KERNELS[0], vec![Argument::Tensor(&x), dim], expected);
        };
        run(0, Ok((&[1, 2], &[0, 1])));
        run(-1, Ok((&[2, 1], &[0, 1])));
        run(2, Err(Error::InvalidArgument { index: 1, expected: "a dimension of the tensor" }));
    }
}
