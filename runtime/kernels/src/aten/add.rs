//! `aten::add.out`, `aten::add.Scalar_out`: sum.
//!
//! | argument | type                                    | shape                          |
//! |----------|-----------------------------------------|--------------------------------|
//! | `self`   | tensor                                  | any                            |
//! | `other`  | tensor, or a number                     | broadcasts with `self`         |
//! | `alpha`  | number; an integer for integer results  |                                |
//! | `out`    | tensor that holds the common dtype      | broadcast of `self`, `other`   |
//!
//! Computes `self + alpha · other` in the common dtype; integers wrap. Tolerance: exact.
//! Errors: a fractional `alpha` for integers is [`Error::InvalidArgument`] at index 2.
//! Source: ATen `add`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::{
    dtype::Number,
    pointwise::{Input, Pointwise, integer, numbers},
};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::add.out", &[Arg::Tensor, Arg::Tensor, Arg::Scalar, Arg::Out], add_out),
    Kernel::new(
        "aten::add.Scalar_out",
        &[Arg::Tensor, Arg::Scalar, Arg::Scalar, Arg::Out],
        add_out,
    ),
];

fn add_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let sum = Pointwise::new([Input::at(args, 0)?, Input::at(args, 1)?])?;
    let alpha = args.scalar(2)?;
    let int = integer(alpha, sum.dtype(), 2)?;
    sum.run(
        args,
        3,
        numbers!(
            move |[a, b]| a.wrapping_add(b.wrapping_mul(int)),
            F => { let alpha = F::from_scalar(alpha); move |[a, b]| a + b * alpha }
        ),
    )
}
