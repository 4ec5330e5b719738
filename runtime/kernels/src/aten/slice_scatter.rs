//! `aten::slice_scatter.out`: tensor with a slice along a dimension replaced.
//!
//! | argument | type                           | shape                |
//! |----------|--------------------------------|----------------------|
//! | `self`   | tensor, any dtype              | at least 1 dimension |
//! | `src`    | tensor, any dtype              | the slice            |
//! | `dim`    | int                            |                      |
//! | `start`  | optional int; default 0        |                      |
//! | `end`    | optional int; default the size |                      |
//! | `step`   | int, positive                  |                      |
//! | `out`    | as `self`                      | as `self`            |
//!
//! Bounds are those of `slice_copy`. Tolerance: exact.
//! Errors: mismatched sizes of `src` are [`Error::InvalidArgument`] at index 1.
//! Source: ATen `slice_scatter`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::check_dtype,
    dim_args::slice_args,
    strided_view::{StridedView, copy_tensor, copy_view},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::slice_scatter.out",
    &[Arg::Tensor, Arg::Tensor, Arg::Int, Arg::OptInt, Arg::OptInt, Arg::Int, Arg::Out],
    slice_scatter,
)];

fn slice_scatter(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (input, source) = (args.tensor(0)?, args.tensor(1)?);
    slice_args(args, 2, &mut StridedView::of(&input))?;
    let mut out = args.out(6)?;
    check_dtype(out.dtype(), input.dtype(), 6)?;
    out.resize(input.sizes())?;
    let mut view = StridedView::of_out(&out);
    slice_args(args, 2, &mut view)?;
    let from = StridedView::of(&source);
    if from.sizes != view.sizes {
        return Err(Error::InvalidArgument { index: 1, expected: "the sizes of the slice" });
    }
    let mut out = args.out(6)?;
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
        let (x, y) = (iota(&[2, 3]), iota(&[2, 2]));
        let run = |start: i64, end: i64, step: i64, expected| {
            let [dim, start, end, step] =
                [1, start, end, step].map(|value| Argument::Scalar(Scalar::Int(value)));
            let inputs = vec![Argument::Tensor(&x), Argument::Tensor(&y), dim, start, end, step];
            check(&KERNELS[0], inputs, expected);
        };
        run(1, i64::MAX, 1, Ok((&[2, 3], &[0, 0, 1, 3, 2, 3])));
        run(0, 3, 2, Ok((&[2, 3], &[0, 1, 1, 2, 4, 3])));
        let invalid = |index, expected| Err(Error::InvalidArgument { index, expected });
        run(0, 3, 1, invalid(1, "the sizes of the slice"));
        run(0, 3, i64::MIN, invalid(5, "a positive step"));
    }
}
