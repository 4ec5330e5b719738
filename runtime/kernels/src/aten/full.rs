//! `aten::full.out`, `aten::full_like.out`: tensor filled with a scalar.
//!
//! | argument         | type                               | shape                |
//! |------------------|------------------------------------|----------------------|
//! | `size` or `self` | ints, not negative, or a tensor    |                      |
//! | `fill_value`     | scalar, cast to the dtype of `out` |                      |
//! | `memory_format`  | ignored; only `full_like`          |                      |
//! | `out`            | real tensor                        | `size`, or as `self` |
//!
//! Integers wrap. Tolerance: exact.
//! Errors: sizes that are negative. Source: ATen `full`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{cast::fill_out, dim_args::sizes_arg};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::full.out", &[Arg::IntList, Arg::Scalar, Arg::Out], full),
    Kernel::new(
        "aten::full_like.out",
        &[Arg::Tensor, Arg::Scalar, Arg::Ignored, Arg::Out],
        full_like,
    ),
];

fn full(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (sizes, value) = (sizes_arg(args, 0)?, args.scalar(1)?);
    fill_out(args, 2, &sizes, value)
}

fn full_like(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (input, value) = (args.tensor(0)?, args.scalar(1)?);
    fill_out(args, 3, input.sizes(), value)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Scalar};

    use super::*;
    use crate::shared::testing::{check, ints, iota};

    #[test]
    fn values() {
        let x = iota(&[2, 1]);
        let run = |size, value, expected: Result<(&[usize], &[i32]), _>| {
            check(&KERNELS[0], vec![ints(size), Argument::Scalar(value)], expected);
        };
        run(&[2, 2], Scalar::Double(-1.5), Ok((&[2, 2], &[-1; 4])));
        run(&[], Scalar::Int(1 << 32 | 5), Ok((&[], &[5])));
        run(&[0, i64::MAX], Scalar::Bool(true), Ok((&[0, i64::MAX as usize], &[])));
        let expected = "up to 16 sizes that are not negative";
        run(&[-1], Scalar::Int(0), Err(Error::InvalidArgument { index: 0, expected }));
        run(&[1; 17], Scalar::Int(0), Err(Error::InvalidArgument { index: 0, expected }));
        let inputs = vec![Argument::Tensor(&x), Argument::Scalar(Scalar::Int(7)), Argument::None];
        check(&KERNELS[1], inputs, Ok((&[2, 1], &[7, 7])));
    }
}
