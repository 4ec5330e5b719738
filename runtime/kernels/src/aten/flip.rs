//! `aten::flip.out`: reversal of dimensions.
//!
//! | argument | type               | shape     |
//! |----------|--------------------|-----------|
//! | `self`   | tensor, any dtype  | any       |
//! | `dims`   | ints, not repeated |           |
//! | `out`    | as `self`          | as `self` |
//!
//! Tolerance: exact.
//! Errors: a dimension that is repeated or out of range is [`Error::InvalidArgument`] at index 1.
//! Source: ATen `flip`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    dim_args::dim_mask,
    strided_view::{StridedView, materialize},
};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::flip.out", &[Arg::Tensor, Arg::IntList, Arg::Out], flip)];

fn flip(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let dims = dim_mask(args.int_list(1)?, input.rank(), 1)?;
    let mut view = StridedView::of(&input);
    for dim in (0..input.rank()).filter(|dim| dims & (1 << dim) != 0) {
        view.flip(dim);
    }
    materialize(&mut args.out(2)?, 2, &input, &view)
}

#[cfg(test)]
mod tests {
    use afferent_core::Argument;

    use super::*;
    use crate::shared::testing::{check, ints, iota};

    #[test]
    fn values() {
        let x = iota(&[2, 3]);
        let run = |dims, expected| {
            check(&KERNELS[0], vec![Argument::Tensor(&x), ints(dims)], expected);
        };
        run(&[1], Ok((&[2, 3], &[2, 1, 0, 5, 4, 3])));
        run(&[0, -1], Ok((&[2, 3], &[5, 4, 3, 2, 1, 0])));
        run(&[], Ok((&[2, 3], &[0, 1, 2, 3, 4, 5])));
        run(&[1, 1], Err(Error::InvalidArgument { index: 1, expected: "no dimension twice" }));
    }
}
