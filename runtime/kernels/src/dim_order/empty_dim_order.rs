//! `dim_order_ops::_empty_dim_order.out`: tensor with uninitialized elements.
//!
//! | argument    | type               | shape              |
//! |-------------|--------------------|--------------------|
//! | `size`      | ints, not negative |                    |
//! | `dim_order` | ints, optional     | dim order of `out` |
//! | `out`       | any dtype          | `size`             |
//!
//! Errors: a `dim_order` other than that of `out` is [`Error::InvalidArgument`] at index 1.
//! Source: ExecuTorch `op__empty_dim_order.cpp`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::dim_args::{check_dim_order_arg, sizes_arg};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "dim_order_ops::_empty_dim_order.out",
    &[Arg::IntList, Arg::OptIntList, Arg::Out],
    empty_dim_order,
)];

fn empty_dim_order(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let sizes = sizes_arg(args, 0)?;
    check_dim_order_arg(args, 1, 2)?;
    args.out(2)?.resize(&sizes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::testing::{check, ints};

    #[test]
    fn sizes() {
        check(&KERNELS[0], vec![ints(&[0, 2]), ints(&[0, 1])], Ok((&[0, 2], &[])));
        let expected = "the dim order of the output";
        let error = Error::InvalidArgument { index: 1, expected };
        check(&KERNELS[0], vec![ints(&[2]), ints(&[1])], Err(error));
    }
}
