//! `dim_order_ops::_clone_dim_order.out`: copy, possibly with another dim order.
//!
//! | argument       | type              | shape              |
//! |----------------|-------------------|--------------------|
//! | `self`         | tensor, any dtype | any                |
//! | `non_blocking` | ignored           |                    |
//! | `dim_order`    | ints, optional    | dim order of `out` |
//! | `out`          | as `self`         | as `self`          |
//!
//! Elements keep their indices. Exact.
//! Errors: a `dim_order` other than that of `out` is [`Error::InvalidArgument`] at index 2.
//! Source: ExecuTorch `op__clone_dim_order.cpp`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{dim_args::check_dim_order_arg, strided_view::clone_arg};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "dim_order_ops::_clone_dim_order.out",
    &[Arg::Tensor, Arg::Ignored, Arg::OptIntList, Arg::Out],
    clone_dim_order,
)];

fn clone_dim_order(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    check_dim_order_arg(args, 2, 3)?;
    clone_arg(args, 3)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call};

    use super::*;
    use crate::shared::testing::{ints, iota};

    #[test]
    fn elements_keep_their_indices() {
        let x = iota(&[1, 2, 1, 2]);
        let mut out = iota(&[1, 2, 1, 2]);
        out.set_dim_order(&[0, 2, 3, 1]).unwrap();
        let order = ints(&[0, 2, 3, 1]);
        let mut arguments = [Argument::Tensor(&x), Argument::None, order, Argument::Out(&mut out)];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(out.data::<i32>().unwrap(), [0, 2, 1, 3]);
    }
}
