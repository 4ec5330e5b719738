//! `aten::empty.out`: uninitialized tensor.
//!
//! | argument        | type               | shape  |
//! |-----------------|--------------------|--------|
//! | `size`          | ints, not negative |        |
//! | `memory_format` | ignored            |        |
//! | `out`           | any dtype          | `size` |
//!
//! Only resizes `out`.
//! Errors: sizes that are negative. Source: ATen `empty`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::dim_args::sizes_arg;

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("aten::empty.out", &[Arg::IntList, Arg::Ignored, Arg::Out], empty)];

fn empty(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let sizes = sizes_arg(args, 0)?;
    args.out(2)?.resize(&sizes)
}

#[cfg(test)]
mod tests {
    use afferent_core::Argument;

    use super::*;
    use crate::shared::testing::{check, ints};

    #[test]
    fn sizes() {
        check(&KERNELS[0], vec![ints(&[0, 2]), Argument::None], Ok((&[0, 2], &[])));
    }
}
