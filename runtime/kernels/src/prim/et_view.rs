//! `executorch_prim::et_view.default`: view with other sizes, without a copy.
//!
//! | argument | type                           | shape                               |
//! |----------|--------------------------------|-------------------------------------|
//! | `self`   | tensor, any dtype              | any                                 |
//! | `size`   | ints; one may be -1 (inferred) |                                     |
//! | `out`    | as `self`                      | `size`; shares the memory of `self` |
//!
//! Errors: sizes with another number of elements are [`Error::InvalidArgument`] at index 1.
//! Source: ExecuTorch `kernels/prim_ops/et_view.cpp`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::dim_args::inferred_sizes_arg;

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "executorch_prim::et_view.default",
    &[Arg::Tensor, Arg::IntList, Arg::View],
    et_view,
)];

fn et_view(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let sizes = inferred_sizes_arg(args, 1, input.numel())?;
    args.set_view(2, 0, &sizes)
}
