//! `aten::select_scatter.out`: tensor with the slice at one index of a dimension replaced.
//!
//! | argument | type                              | shape                |
//! |----------|-----------------------------------|----------------------|
//! | `self`   | tensor, any dtype                 | at least 1 dimension |
//! | `src`    | tensor, any dtype                 | `self` without `dim` |
//! | `dim`    | int                               |                      |
//! | `index`  | int; negative counts from the end |                      |
//! | `out`    | as `self`                         | as `self`            |
//!
//! Tolerance: exact.
//! Errors: mismatched sizes of `src` are [`Error::InvalidArgument`] at index 1.
//! Source: ATen `select_scatter`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::check_dtype,
    dim_args::select_args,
    strided_view::{StridedView, copy_tensor, copy_view},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::select_scatter.out",
    &[Arg::Tensor, Arg::Tensor, Arg::Int, Arg::Int, Arg::Out],
    select_scatter,
)];

fn select_scatter(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (input, source) = (args.tensor(0)?, args.tensor(1)?);
    let mut out = args.out(4)?;
    check_dtype(out.dtype(), input.dtype(), 4)?;
    out.resize(input.sizes())?;
    let mut view = StridedView::of_out(&out);
    select_args(args, 2, &mut view)?;
    let from = StridedView::of(&source);
    if from.sizes != view.sizes {
        return Err(Error::InvalidArgument {
            index: 1,
            expected: "the sizes of the selected slice",
        });
    }
    let mut out = args.out(4)?;
    copy_tensor(&mut out, &input)?;
    copy_view(&mut out, &view, &source, &from)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Scalar};

    use super::*;
    use crate::shared::testing::{check, iota};

    #[test]
    fn values() {
        let (x, y) = (iota(&[2, 3]), iota(&[2]));
        let run = |dim: i64, at: i64, expected| {
            let [dim, at] = [dim, at].map(|value| Argument::Scalar(Scalar::Int(value)));
            check(&KERNELS[0], vec![Argument::Tensor(&x), Argument::Tensor(&y), dim, at], expected);
        };
        run(1, -1, Ok((&[2, 3], &[0, 1, 0, 3, 4, 1])));
        let invalid = |index, expected| Err(Error::InvalidArgument { index, expected });
        run(0, 0, invalid(1, "the sizes of the selected slice"));
        run(1, 3, invalid(3, "an index of the dimension"));
    }
}
