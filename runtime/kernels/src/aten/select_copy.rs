//! `aten::select_copy.int_out`: slice at one index of a dimension.
//!
//! | argument | type                              | shape                |
//! |----------|-----------------------------------|----------------------|
//! | `self`   | tensor, any dtype                 | at least 1 dimension |
//! | `dim`    | int                               |                      |
//! | `index`  | int; negative counts from the end |                      |
//! | `out`    | as `self`                         | `self` without `dim` |
//!
//! Tolerance: exact.
//! Errors: a dimension or index out of range is [`Error::InvalidArgument`].
//! Source: ATen `select_copy`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, OpPattern};

use crate::shared::{
    dim_args::select_args,
    strided_view::{StridedView, materialize},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::select_copy.int_out",
    &[Arg::Tensor, Arg::Int, Arg::Int, Arg::Out],
    select_copy,
)
.with_pattern(OpPattern::Select { dim: 1, index: 2 })];

fn select_copy(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let mut view = StridedView::of(&input);
    select_args(args, 1, &mut view)?;
    materialize(&mut args.out(3)?, 3, &input, &view)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Scalar};

    use super::*;
    use crate::shared::testing::{check, iota};

    #[test]
    fn values() {
        let x = iota(&[2, 3]);
        let run = |dim: i64, at: i64, expected| {
            let [dim, at] = [dim, at].map(|value| Argument::Scalar(Scalar::Int(value)));
            check(&KERNELS[0], vec![Argument::Tensor(&x), dim, at], expected);
        };
        run(0, -1, Ok((&[3], &[3, 4, 5])));
        run(1, 2, Ok((&[2], &[2, 5])));
        run(1, 3, Err(Error::InvalidArgument { index: 2, expected: "an index of the dimension" }));
    }
}
