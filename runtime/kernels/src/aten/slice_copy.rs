//! `aten::slice_copy.Tensor_out`: slice along a dimension.
//!
//! | argument | type                           | shape                           |
//! |----------|--------------------------------|---------------------------------|
//! | `self`   | tensor, any dtype              | at least 1 dimension            |
//! | `dim`    | int                            |                                 |
//! | `start`  | optional int; default 0        |                                 |
//! | `end`    | optional int; default the size |                                 |
//! | `step`   | int, positive                  |                                 |
//! | `out`    | as `self`                      | `dim`: `⌈(end - start) / step⌉` |
//!
//! Negative bounds count from the end. Bounds are clamped to the size. Tolerance: exact.
//! Errors: a `dim` out of range or a `step` below 1 is [`Error::InvalidArgument`].
//! Source: ATen `slice_copy`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    dim_args::slice_args,
    strided_view::{StridedView, materialize},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::slice_copy.Tensor_out",
    &[Arg::Tensor, Arg::Int, Arg::OptInt, Arg::OptInt, Arg::Int, Arg::Out],
    slice_copy,
)];

fn slice_copy(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let mut view = StridedView::of(&input);
    slice_args(args, 1, &mut view)?;
    materialize(&mut args.out(5)?, 5, &input, &view)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Scalar};

    use super::*;
    use crate::shared::testing::{check, iota};

    #[test]
    fn values() {
        let x = iota(&[2, 4]);
        let run = |dim, start: Option<i64>, end: Option<i64>, step, expected| {
            let int = |value| Argument::Scalar(Scalar::Int(value));
            let opt = |value: Option<i64>| value.map_or(Argument::None, int);
            let inputs = vec![Argument::Tensor(&x), int(dim), opt(start), opt(end), int(step)];
            check(&KERNELS[0], inputs, expected);
        };
        run(1, Some(1), Some(i64::MAX), 2, Ok((&[2, 2], &[1, 3, 5, 7])));
        run(-1, Some(-3), Some(-1), 1, Ok((&[2, 2], &[1, 2, 5, 6])));
        run(0, Some(i64::MIN), None, i64::MAX, Ok((&[1, 4], &[0, 1, 2, 3])));
        run(0, Some(2), Some(1), 1, Ok((&[0, 4], &[])));
        run(
            0,
            None,
            None,
            0,
            Err(Error::InvalidArgument { index: 4, expected: "a positive step" }),
        );
    }
}
