//! `aten::narrow_copy.out`: slice of given length along a dimension.
//!
//! | argument | type                              | shape                |
//! |----------|-----------------------------------|----------------------|
//! | `self`   | tensor, any dtype                 | at least 1 dimension |
//! | `dim`    | int                               |                      |
//! | `start`  | int; negative counts from the end |                      |
//! | `length` | int, not negative                 |                      |
//! | `out`    | as `self`                         | `dim`: `length`      |
//!
//! Tolerance: exact.
//! Errors: a slice out of range is [`Error::InvalidArgument`].
//! Source: ATen `narrow_copy`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    dim_args::{existing_dim_arg, wrap_index},
    strided_view::{StridedView, materialize},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::narrow_copy.out",
    &[Arg::Tensor, Arg::Int, Arg::Int, Arg::Int, Arg::Out],
    narrow_copy,
)];

fn narrow_copy(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let dim = existing_dim_arg(args, 1, input.rank())?;
    let size = input.sizes()[dim];
    let invalid =
        |index| Error::InvalidArgument { index, expected: "a range within the dimension" };
    // `start` may be the size of the dimension, with length 0.
    let start = args.int(2)?;
    let at_end = usize::try_from(start).ok().filter(|&start| start == size);
    let start = at_end.or_else(|| wrap_index(start, size)).ok_or(invalid(2))?;
    let len = usize::try_from(args.int(3)?).ok().filter(|&len| len <= size - start);
    let mut view = StridedView::of(&input);
    view.slice(dim, start, len.ok_or(invalid(3))?, 1);
    materialize(&mut args.out(4)?, 4, &input, &view)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Scalar};

    use super::*;
    use crate::shared::testing::{check, iota};

    #[test]
    fn values() {
        let x = iota(&[2, 3]);
        let run = |start: i64, len: i64, expected| {
            let [dim, start, len] =
                [1, start, len].map(|value| Argument::Scalar(Scalar::Int(value)));
            check(&KERNELS[0], vec![Argument::Tensor(&x), dim, start, len], expected);
        };
        run(1, 2, Ok((&[2, 2], &[1, 2, 4, 5])));
        run(-1, 1, Ok((&[2, 1], &[2, 5])));
        run(3, 0, Ok((&[2, 0], &[])));
        let invalid =
            |index| Error::InvalidArgument { index, expected: "a range within the dimension" };
        run(4, 0, Err(invalid(2)));
        run(2, 2, Err(invalid(3)));
        run(2, i64::MIN, Err(invalid(3)));
    }
}
