//! `aten::unfold_copy.out`: sliding windows along a dimension.
//!
//! | argument    | type                         | shape                             |
//! |-------------|------------------------------|-----------------------------------|
//! | `self`      | tensor, any dtype            | any                               |
//! | `dimension` | int                          |                                   |
//! | `size`      | int: window size             |                                   |
//! | `step`      | int, positive: window stride |                                   |
//! | `out`       | as `self`                    | `[…, number of windows, …, size]` |
//!
//! Computes `out[…, i, …, j] = self[…, i · step + j, …]`. Tolerance: exact.
//! Errors: a `size` larger than the dimension, or a `step` below 1, is [`Error::InvalidArgument`].
//! Source: ATen `unfold_copy`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    dim_args::dim_arg,
    strided_view::{StridedView, materialize},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::unfold_copy.out",
    &[Arg::Tensor, Arg::Int, Arg::Int, Arg::Int, Arg::Out],
    unfold_copy,
)];

fn unfold_copy(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let dim = dim_arg(args, 1, input.rank())?;
    let mut view = StridedView::of(&input);
    let dim_size = view.sizes.get(dim).copied().unwrap_or(1);
    let size = usize::try_from(args.int(2)?).ok().filter(|&size| size <= dim_size);
    let invalid =
        Error::InvalidArgument { index: 2, expected: "at most the size of the dimension" };
    let size = size.ok_or(invalid)?;
    let step = usize::try_from(args.int(3)?).ok().filter(|&step| step > 0);
    let step = step.ok_or(Error::InvalidArgument { index: 3, expected: "a positive step" })?;
    let stride = view.strides.get(dim).copied().unwrap_or(1);
    if dim < input.rank() {
        view.slice(dim, 0, ((dim_size - size) / step).saturating_add(1), step);
    }
    view.sizes.push(size)?;
    view.strides.push(stride)?;
    materialize(&mut args.out(4)?, 4, &input, &view)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Scalar};

    use super::*;
    use crate::shared::testing::{check, iota};

    #[test]
    fn values() {
        let x = iota(&[5]);
        let run = |size: i64, step: i64, expected| {
            let [dim, size, step] =
                [0, size, step].map(|value| Argument::Scalar(Scalar::Int(value)));
            check(&KERNELS[0], vec![Argument::Tensor(&x), dim, size, step], expected);
        };
        run(3, 2, Ok((&[2, 3], &[0, 1, 2, 2, 3, 4])));
        run(0, i64::MAX, Ok((&[1, 0], &[])));
        let expected = "at most the size of the dimension";
        run(6, 1, Err(Error::InvalidArgument { index: 2, expected }));
        run(1, 0, Err(Error::InvalidArgument { index: 3, expected: "a positive step" }));
    }
}
