//! `aten::transpose_copy.int_out`: two dimensions swapped.
//!
//! | argument | type              | shape      |
//! |----------|-------------------|------------|
//! | `self`   | tensor, any dtype | any        |
//! | `dim0`   | int               |            |
//! | `dim1`   | int               |            |
//! | `out`    | as `self`         | transposed |
//!
//! Tolerance: exact.
//! Errors: a dimension out of range is [`Error::InvalidArgument`].
//! Source: ATen `transpose_copy`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    dim_args::dim_arg,
    strided_view::{StridedView, materialize},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::transpose_copy.int_out",
    &[Arg::Tensor, Arg::Int, Arg::Int, Arg::Out],
    transpose_copy,
)];

fn transpose_copy(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let (a, b) = (dim_arg(args, 1, input.rank())?, dim_arg(args, 2, input.rank())?);
    let mut view = StridedView::of(&input);
    if a != b {
        view.transpose(a, b);
    }
    materialize(&mut args.out(3)?, 3, &input, &view)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Scalar};

    use super::*;
    use crate::shared::testing::{check, iota};

    #[test]
    fn values() {
        let x = iota(&[2, 1, 3]);
        let run = |a: i64, b: i64, expected| {
            let [a, b] = [a, b].map(|dim| Argument::Scalar(Scalar::Int(dim)));
            check(&KERNELS[0], vec![Argument::Tensor(&x), a, b], expected);
        };
        run(0, -1, Ok((&[3, 1, 2], &[0, 3, 1, 4, 2, 5])));
        run(1, 1, Ok((&[2, 1, 3], &[0, 1, 2, 3, 4, 5])));
        run(0, 3, Err(Error::InvalidArgument { index: 2, expected: "a dimension of the tensor" }));
    }
}
